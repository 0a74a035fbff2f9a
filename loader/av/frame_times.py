"""When the frames of a video appear, told without decoding them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["frame_times"]


def frame_times(container: InputContainer, stream: VideoStream) -> list[int]:
    """Read all packets of a video for when its frames appear.

    Args:
        container: An open file that nothing was read from; afterwards it is at its end.

    Returns:
        Ticks of the stream's clock, sorted; in a stream without clock, the sum of the durations before each frame.
    """
    times: list[int] = []
    clock = 0
    for packet in container.demux(stream):
        if not packet.size or packet.is_discard:
            continue
        times.append(clock if packet.pts is None else packet.pts)
        clock = times[-1] + (packet.duration or 1)
    return sorted(times)
