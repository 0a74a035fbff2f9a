"""Decode audio and video to their ends, to count what comes out and to find damage that headers do not show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from .av_container import audio_stream, check_frame_size, import_av, open_av, video_stream
from .cut_ends import cut_fault, cut_frame_bytes, mp3_frames
from .shown_frames import is_cut

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

_RAW = frozenset({"aac", "mp3"})
"""Formats without a container, in which any bytes may follow the last frame: tags of many kinds, and garbage."""

_SAMPLES, _LOWEST_MPEG1_RATE = 1152, 32_000  # samples of a frame of MP3, of which the lower rates have half

_MAX_SHORTFALL_S = Fraction(1, 4)  # of MP3, whose header counts frames, and whose padding differs by encoder


@dataclass(slots=True)
class DecodedStream:
    """The frames or samples that a stream decodes to, and its faults.

    Attributes:
        count: Number of frames of a video, or of samples per channel.
        packets: Number of packets that were read.
        start: Time of the first frame of a video, in seconds of the file's clock; None if frames have no times.
        end: End of the last one.
        fault: Reason of the first packet that does not decode.
        faults: Number of packets that do not decode.
        tail_faults: Number of them after the last frame that decodes.
        last: The last packet of sound.
    """

    count: int = 0
    packets: int = 0
    start: Fraction | None = None
    end: Fraction | None = None
    fault: str | None = None
    faults: int = 0
    tail_faults: int = 0
    last: bytes = b""

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

    Args:
        container: Open file at its start.
        streams: Streams of that file.

    Returns:
        What came out, by index of the stream.

    Raises:
        ValueError: The frames of a video are larger than Pillow's limit.
    """
    av = import_av()
    streams = tuple(streams)
    found = {stream.index: DecodedStream() for stream in streams}
    for stream in streams:
        stream.codec_context.thread_count = 1
        if stream.type == "video":
            check_frame_size(stream)
    for packet in container.demux(*streams):
        decoded = found[packet.stream.index]
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
    return found


def media_fault(data: bytes) -> str | None:
    """Decode audio or video to its end; return one line about its damage, or None if it is whole.

    Bytes behind a whole file, tags, edit lists, and sizes that a program could not write are no damage.

    Raises:
        ImportError: PyAV is not installed.
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
