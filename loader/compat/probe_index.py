"""An index of a video's frames, as megatron-energon has it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.container import InputContainer


@dataclass(frozen=True, slots=True)
class AVProbeIndexEntry:
    """One frame of a video.

    Attributes:
        timestamp: Display time of the frame, in ticks of the stream's clock.
        is_keyframe: True if decoding can begin here.
    """

    timestamp: int
    is_keyframe: bool


class AVProbeIndex:
    """The frames of a video in the order of the file, read from its packets without decoding.

    The container is at its start afterwards.

    Args:
        container: An open file.
        stream_idx: Number of the stream among the video streams.

    Raises:
        IndexError: There is no such stream.
    """

    def __init__(self, container: "InputContainer", stream_idx: int = 0) -> None:
        stream = container.streams.video[stream_idx]
        self._entries: list[AVProbeIndexEntry] = []
        for packet in container.demux(stream):
            time = packet.dts if packet.pts is None else packet.pts
            if time is not None:  # the last packet only flushes the decoder
                self._entries.append(AVProbeIndexEntry(timestamp=time, is_keyframe=packet.is_keyframe))
        container.seek(stream.start_time or 0, stream=stream)
        self._frames = self._sorted(keyframes=False)
        self._keyframes = self._sorted(keyframes=True)

    def _sorted(self, *, keyframes: bool) -> tuple[list[int], list[int]]:
        """Return the display times of frames, and the numbers of their entries, by time."""
        entries = sorted(
            (entry.timestamp, index) for index, entry in enumerate(self._entries) if entry.is_keyframe or not keyframes
        )
        return [time for time, _ in entries], [index for _, index in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, idx: int) -> AVProbeIndexEntry:
        return self._entries[idx]

    def search_timestamp(self, timestamp: int, *, backward: bool = True, any_frame: bool = False) -> int:
        """Return the number of the entry that is nearest to a time.

        Args:
            timestamp: Time in ticks of the stream's clock.
            backward: Search the last frame at or before the time; the first frame, if all are later. Otherwise search
                the first frame at or after it.
            any_frame: Search all frames instead of keyframes.

        Returns:
            Number of the entry; -1 if there is none.
        """
        times, numbers = self._frames if any_frame else self._keyframes
        position = max(bisect_right(times, timestamp) - 1, 0) if backward else bisect_left(times, timestamp)
        return numbers[position] if position < len(numbers) else -1
