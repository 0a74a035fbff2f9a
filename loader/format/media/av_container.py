"""Find the frames of encoded video that players show.

PyAV is an optional package. It is imported when the first file is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

_VOP = b"\0\0\x01\xb6"  # start of a frame of MPEG-4
_LONGEST_PLACEHOLDER = 8  # bytes from that start: the type, the time, a bit for "not coded" and the filling

# Formats in which FFmpeg marks packets as cut that decode: of blocks of any size, or near any fault.
_MARK_USABLE = frozenset({"aiff", "au", "mpegts", "w64", "wav"})


def has_hidden_frames(stream: VideoStream | AudioStream) -> bool:
    """Return True if headers and indexes of a stream count frames that may not be shown (VP8 and VP9)."""
    return stream.codec_context.name in _HIDDEN


def is_cut(container: InputContainer, packet: Packet[Any]) -> bool:
    """Return True if the file ends inside a packet, which decodes to an error."""
    return packet.is_corrupt and container.format.name not in _MARK_USABLE


def shown_packets(container: InputContainer, *streams: VideoStream | AudioStream) -> Iterator[tuple[Packet[Any], int]]:
    """Read the packets of streams that are whole and not cut off by an edit list.

    Yields:
        A packet, and the number of frames that it shows, at least 1; for audio 1.
    """
    counters = {stream.index: _counter(stream) for stream in streams}
    for packet in container.demux(*streams):
        if not packet.size or packet.is_discard or is_cut(container, packet):
            continue
        counter = counters[packet.stream.index]
        shown = 1 if counter is None else counter(bytes(packet))
        if shown:
            yield packet, shown


def _counter(stream: VideoStream | AudioStream) -> Callable[[bytes], int] | None:
    name = stream.codec_context.name
    return _mpeg4_counter() if name == "mpeg4" else _HIDDEN.get(name)


def _shown_vp8(data: bytes) -> int:
    return data[0] >> 4 & 1  # show_frame of RFC 6386, 9.1


def _shown_vp9(data: bytes) -> int:
    """Count the shown frames of a packet, which may be a superframe: several frames, with their sizes at its end."""
    last = data[-1]
    count, width = (last & 7) + 1, (last >> 3 & 3) + 1
    index = len(data) - 2 - count * width
    if last >> 5 != 0b110 or index < 0 or data[index] != last:
        return _is_shown_vp9(data[0])
    shown = start = 0
    for position in range(count):
        at = index + 1 + position * width
        size_bytes = int.from_bytes(data[at : at + width], "little")
        if size_bytes and start < index:
            shown += _is_shown_vp9(data[start])
        start += size_bytes
    return shown


def _is_shown_vp9(head: int) -> int:
    """Return 1 if the first byte of a frame's header has show_existing_frame, or else show_frame (clause 6.2)."""
    bit = 2 if head >> 4 & 3 == 3 else 3  # profile 3 has another bit before them
    return head >> bit & 1 or head >> bit - 2 & 1


# Counters by FFmpeg's names of decoders.
_HIDDEN: dict[str, Callable[[bytes], int]] = {
    "libvpx": _shown_vp8,
    "libvpx-vp9": _shown_vp9,
    "vp8": _shown_vp8,
    "vp9": _shown_vp9,
}


def _mpeg4_counter() -> Callable[[bytes], int]:
    """Count frames of MPEG-4 by packet: the second frame of a packet counts for the placeholder that follows it."""
    has_second = False

    def shown(data: bytes) -> int:
        nonlocal has_second
        start = data.find(_VOP)
        if start < 0 or (len(data) - start <= _LONGEST_PLACEHOLDER and _is_not_coded(data)):
            count, has_second = int(has_second), False
            return count
        has_second = data.find(_VOP, start + 1) > 0
        return 1

    return shown


def _is_not_coded(data: bytes) -> bool:
    """Return True if a packet ends with a marker, the bit for "not coded", and the filling: 1, 0, 0 and ones."""
    bits = int.from_bytes(data[-2:], "big")
    while bits & 1:
        bits >>= 1
    return bits & 0b111 == 0b100


def video_stream(container: InputContainer) -> VideoStream | None:
    """Return the first video stream that FFmpeg can decode, or None. Cover pictures of audio files are skipped."""
    from av.stream import Disposition

    streams = (stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic)
    return next((stream for stream in streams if _is_known(stream)), None)


def audio_stream(container: InputContainer) -> AudioStream | None:
    """Return the first audio stream that FFmpeg can decode, or None."""
    streams = filter(_is_known, container.streams.audio)
    return next((stream for stream in streams if stream.codec_context.sample_rate), None)


def check_frame_size(stream: VideoStream) -> None:
    """Refuse a video whose frames are larger than Pillow's limit of images; decoders keep up to 16 frames.

    Raises:
        ValueError: The frames are larger.
    """
    from PIL import Image

    limit, pixels = Image.MAX_IMAGE_PIXELS, stream.width * stream.height
    if limit is not None and pixels > limit:
        raise ValueError(
            f"a frame of {stream.width} x {stream.height} has {pixels:,} pixels, the limit is {limit:,}: if the file "
            "is right, raise PIL.Image.MAX_IMAGE_PIXELS"
        )


def _is_known(stream: VideoStream | AudioStream) -> bool:
    # PyAV's types say that it is never None, but it is if FFmpeg was built without the codec.
    return getattr(stream, "codec_context", None) is not None


def media_start(container: InputContainer) -> Fraction:
    """Return the time of the first frame or audio sample, in seconds of the file's own clock."""
    starts = [
        stream.start_time * stream.time_base
        for stream in (video_stream(container), audio_stream(container))
        if stream is not None and stream.start_time is not None and stream.time_base is not None
    ]
    return min(starts, default=Fraction(0))


def packet_time(container: InputContainer, packet: Packet[Any]) -> int | None:
    """Return the display time of a packet's frame; in AVI, which has no display times, its decoding time.

    FFmpeg numbers the frames of an AVI file as they are decoded, and guesses their display times. The decoding times of
    all frames, sorted, are their display times.
    """
    return packet.dts if container.format.name == "avi" else packet.pts


def is_indexed(container: InputContainer) -> bool:
    """Return True if the container's header lists every frame with its time (the MP4 family, without fragments)."""
    return "mp4" in container.format.name.split(",") and all(
        stream.frames for stream in (video_stream(container), audio_stream(container)) if stream is not None
    )
