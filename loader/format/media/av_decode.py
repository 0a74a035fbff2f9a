"""Decode audio and video to their ends, to count what comes out and to find damage that headers do not show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .av_container import audio_stream, check_frame_size, is_cut, video_stream
from .import_av import import_av, open_av

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

_UNSET = (0, 0x7FFFFFFF, 0xFFFFFFFF)
_UNSET_SLACK = 4096  # programs that write to a pipe subtract the size of a header, or round to blocks
_BOXES = frozenset((b"mdat", b"moof", b"moov"))  # the others may be garbage behind the file, or are no loss
_EBML, _SEGMENT = b"\x1aE\xdf\xa3", b"\x18S\x80g"
_KBITS = (
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # of MPEG 2 and 2.5, layer 3
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # of MPEG 1, layer 3
)
_FIRST_FRAME_BYTES = 64  # more than the headers before the number
_RATES = (44_100, 48_000, 32_000)  # of MPEG 1; half of MPEG 2, a quarter of MPEG 2.5


# Formats without a container, in which any bytes may follow the last frame: tags of many kinds, and garbage.
_RAW = frozenset({"aac", "mp3"})

_SAMPLES, _LOWEST_MPEG1_RATE = 1152, 32_000  # samples of a frame of MP3, of which the lower rates have half

_MAX_SHORTFALL_S = Fraction(1, 4)  # of MP3, whose header counts frames, and whose padding differs by encoder


@dataclass(slots=True)
class DecodedStream:
    """The frames or samples that a stream decodes to, and its faults."""

    count: int = 0  # number of frames of a video, or of samples per channel
    packets: int = 0  # number of packets that were read
    # time of the first frame of a video, in seconds of the file's clock; None if frames have no times
    start: Fraction | None = None
    end: Fraction | None = None  # end of the last one
    fault: str | None = None  # reason of the first packet that does not decode
    faults: int = 0  # number of packets that do not decode
    tail_faults: int = 0  # number of them after the last frame that decodes
    last: bytes = b""  # the last packet of sound

    def add_fault(self, reason: str) -> None:
        """Count a packet that does not decode."""
        self.fault = self.fault or f"packet {self.packets:,} does not decode: {reason}"
        self.faults += 1
        self.tail_faults += 1

    def add_frames(self, frames: Sequence[Any], stream: Stream) -> None:
        """Count the frames of a packet, and extend the time that they cover."""
        self.tail_faults = 0 if frames else self.tail_faults
        if stream.type == "audio":
            self.count += sum(frame.samples for frame in frames)
            return
        self.count += len(frames)
        rate: Fraction | None = getattr(stream, "average_rate", None)
        for frame in frames:
            if frame.pts is None or frame.time_base is None:
                continue
            start = frame.pts * frame.time_base
            length = frame.duration * frame.time_base if frame.duration else 1 / rate if rate else Fraction(0)
            self.start = start if self.start is None else min(self.start, start)
            self.end = start + length if self.end is None else max(self.end, start + length)


def decode_streams(container: InputContainer, streams: Iterable[VideoStream | AudioStream]) -> dict[int, DecodedStream]:
    """Decode streams to their ends; packets that do not decode are counted and skipped.

    The result is by index of the stream. Frames of a video that are larger than Pillow's limit are a ``ValueError``.
    """
    av = import_av()
    streams = tuple(streams)
    by_stream = {stream.index: DecodedStream() for stream in streams}
    # Prepare the decoders, and refuse frames that are too large.
    for stream in streams:
        stream.codec_context.thread_count = 1
        if stream.type == "video":
            check_frame_size(stream)
    # Decode packet by packet, so that a fault costs only its packet.
    for packet in container.demux(*streams):
        decoded = by_stream[packet.stream.index]
        if packet.size:
            decoded.packets += 1
            decoded.last = bytes(packet) if packet.stream.type == "audio" else b""
        if is_cut(container, packet):
            decoded.add_fault("the file ends inside of it")
            continue
        try:
            frames: Sequence[Any] = packet.decode()
        except av.FFmpegError as error:
            decoded.add_fault(error.strerror or type(error).__name__)
        else:
            decoded.add_frames(frames, packet.stream)
    return by_stream


def media_fault(data: bytes) -> str | None:
    """Decode audio or video to its end; return one line about its damage, or None if it is whole.

    Bytes behind a whole file, tags, edit lists, and sizes that a program could not write are no damage.
    """
    try:
        with open_av(data) as container:
            video, audio = video_stream(container), audio_stream(container)
            streams = [stream for stream in (video, audio) if stream is not None]
            if not streams:
                return f"a {container.format.name} file without audio and video that can be decoded"
            name = container.format.name
            decoded = decode_streams(container, streams)
            faults = (_fault_of(stream, decoded[stream.index], name) for stream in streams)
            fault = cut_fault(data, name) or next((each for each in faults if each is not None), None)
            if fault is None and audio is not None:
                fault = _shortfall(data, name, audio, decoded[audio.index])
            return fault
    except ValueError as error:
        return str(error)


def _fault_of(stream: VideoStream | AudioStream, decoded: DecodedStream, name: str) -> str | None:
    if not decoded.count:
        return decoded.fault or f"its {stream.type} has no frame that decodes"
    is_tail = decoded.faults == decoded.tail_faults and name in (*_RAW, "flac")
    return None if decoded.fault is None or is_tail else f"{stream.type} {decoded.fault}"


def _shortfall(data: bytes, name: str, audio: AudioStream, decoded: DecodedStream) -> str | None:
    """Return a fault if the sound ends inside a frame, or before the number of frames or samples in its header."""
    lacking = cut_frame_bytes(decoded.last) if name in _RAW else 0
    if lacking:
        return f"it is cut short: its last frame lacks {lacking:,} bytes"
    rate = audio.codec_context.sample_rate
    stated, tolerance = Fraction(0), Fraction(0)
    if name == "flac" and audio.duration is not None and audio.time_base is not None:
        stated = audio.duration * audio.time_base
    elif name == "mp3":
        per_frame = _SAMPLES if rate >= _LOWEST_MPEG1_RATE else _SAMPLES // 2
        stated, tolerance = Fraction(mp3_frames(data) * per_frame, rate), _MAX_SHORTFALL_S
    seconds = Fraction(decoded.count, rate)
    if stated - seconds <= tolerance:
        return None
    return f"it is cut short: {float(seconds):.3f} s of sound decode, its header says {float(stated):.3f} s"


def _is_unset_size(size_bytes: int) -> bool:
    """Return True if a 32-bit size is one that programs write when they do not know it."""
    return any(abs(size_bytes - unset) <= (_UNSET_SLACK if unset else 0) for unset in _UNSET)


def cut_fault(data: bytes, format_name: str) -> str | None:
    """Return one line if a file ends too early, else None."""
    check = _CHECKS.get(format_name.partition(",")[0])
    end = None if check is None else check(data)
    if end is None or end <= len(data):
        return None
    return f"it is cut short: it ends at byte {len(data):,}, its header says {end:,}"


def _riff_end(data: bytes) -> int | None:
    """Return the stated end of the chunk ``data`` of a WAV, or of an AVI or AIFF file."""
    order = "big" if data.startswith(b"FORM") else "little"
    if data[8:12] != b"WAVE":
        size_bytes = int.from_bytes(data[4:8], order)  # type: ignore[arg-type] # one of the two literals
        return None if _is_unset_size(size_bytes) else size_bytes  # some programs count the eight bytes before it, too
    start, long_size = 12, None
    while start + 8 <= len(data):
        name, size_bytes = data[start : start + 4], int.from_bytes(data[start + 4 : start + 8], "little")
        if name == b"ds64":  # RF64 and BW64
            long_size = int.from_bytes(data[start + 16 : start + 24], "little")
        if name == b"data":
            if size_bytes == 0xFFFFFFFF and long_size is not None:
                return start + 8 + long_size
            return None if _is_unset_size(size_bytes) else start + 8 + size_bytes
        start += 8 + size_bytes + size_bytes % 2
    return None


def _ogg_end(data: bytes) -> int | None:
    page = data.rfind(b"OggS\0")
    count = data[page + 26] if 0 <= page < len(data) - 26 else 0
    table = data[page + 27 : page + 27 + count]
    return page + 27 + count + sum(table) if page >= 0 else None


def _box_end(data: bytes) -> int | None:
    """Return the end of the last box of an MP4 that has media or their index."""
    start = end = 0
    while start + 8 <= len(data):
        size_bytes, name = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8]
        if size_bytes == 1:
            size_bytes = int.from_bytes(data[start + 8 : start + 16], "big")
        if size_bytes < 8:  # 0 is a box up to the end of the file
            break
        start += size_bytes
        end = start if name in _BOXES else end
    return end


def _segment_end(data: bytes) -> int | None:
    """Return the end of the segment of a Matroska file, unless it was written without a size, as live streams are."""
    header_bytes, start = _vint(data, len(_EBML))
    start += header_bytes or 0
    if not data.startswith(_EBML) or data[start : start + len(_SEGMENT)] != _SEGMENT:
        return None
    size_bytes, start = _vint(data, start + len(_SEGMENT))
    return None if size_bytes is None else start + size_bytes


def _vint(data: bytes, start: int) -> tuple[int | None, int]:
    """Read a size of EBML; return it, or None if it is unknown, and the place behind it."""
    first = data[start] if start < len(data) else 0
    width = 9 - first.bit_length()
    value = int.from_bytes(data[start : start + width], "big") & (1 << 7 * width) - 1
    return None if value == (1 << 7 * width) - 1 else value, start + width


# Functions by the first of FFmpeg's names of a format.
_CHECKS: dict[str, Callable[[bytes], int | None]] = {
    "aiff": _riff_end,
    "avi": _riff_end,
    "matroska": _segment_end,
    "mov": _box_end,
    "ogg": _ogg_end,
    "wav": _riff_end,
}


def cut_frame_bytes(frame: bytes) -> int:
    """Return the number of bytes that a frame of MP3 or AAC (ADTS) lacks at its end, by its header.

    >>> cut_frame_bytes(bytes.fromhex("fff338c4") + bytes(88))
    16
    """
    if len(frame) < 7 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0:
        return 0
    layer, version = frame[1] >> 1 & 3, frame[1] >> 3 & 3
    if layer == 0:
        return max(0, ((frame[3] & 3) << 11 | frame[4] << 3 | frame[5] >> 5) - len(frame))
    kbits, rate = frame[2] >> 4, frame[2] >> 2 & 3
    if layer != 1 or version == 1 or not 0 < kbits < 15 or rate == 3:
        return 0
    is_first = version == 3
    per_frame = (144_000 if is_first else 72_000) * _KBITS[is_first][kbits]
    size_bytes = per_frame // (_RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]) + (frame[2] >> 1 & 1)
    return max(0, size_bytes - len(frame))


def mp3_frames(data: bytes) -> int:
    """Return the number of frames that the first frame of an MP3 states, which encoders write for it; 0 without one."""
    start = 0
    while data.startswith(b"ID3", start):  # tags, with a size of four times seven bits
        size = data[start + 6 : start + 10]
        start += 10 + sum((byte & 0x7F) << 7 * position for position, byte in enumerate(reversed(size)))
    first = data[start : start + _FIRST_FRAME_BYTES]
    for mark in (b"Xing", b"Info"):
        at = first.find(mark)
        if 0 <= at <= len(first) - 12 and first[at + 7] & 1:
            return int.from_bytes(first[at + 8 : at + 12], "big")
    return 0
