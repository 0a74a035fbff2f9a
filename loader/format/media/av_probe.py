"""Measure audio and video by their headers and indexes. At most one frame is decoded, for the rotation.

If the header has no duration of a stream, or one that is not reliable, all packets of the stream are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, BinaryIO, Literal

from .av_container import audio_stream, is_indexed, open_av, packet_time, video_stream

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["AVProbeKey", "StreamSpan", "probe_av", "rotation_of", "stream_spans"]

AVProbeKey = Literal[
    "video_duration",
    "video_num_frames",
    "video_fps",
    "video_width",
    "video_height",
    "audio_duration",
    "audio_channels",
    "audio_sample_rate",
    "audio_num_samples",
]

_EXACT_HEADERS = frozenset({"aiff", "flac", "wav"})
"""Audio formats with the number of samples in the header."""

_RATE_TOLERANCE = Fraction(1, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpan:
    """The start and end of a stream, in seconds of the file's own clock.

    Args:
        start: Start of the first frame.
        end: End of the last frame.
        frames: Number of frames (video) or blocks of samples (audio).
    """

    start: Fraction
    end: Fraction
    frames: int

    @property
    def duration(self) -> Fraction:
        """Duration of the stream in seconds."""
        return self.end - self.start


def probe_av(data: bytes | BinaryIO) -> dict[AVProbeKey, float | int]:
    """Measure audio or video: durations in seconds, frames, size, rates.

    Args:
        data: Bytes of a file, or a seekable file.

    Returns:
        ``video_duration``, ``video_num_frames``, ``video_fps`` (average), ``video_width`` and ``video_height`` (as
        displayed, after rotation), ``audio_duration``, ``audio_channels``, ``audio_sample_rate`` and
        ``audio_num_samples`` (per channel; absent if it cannot be known without decoding). Keys are absent if the
        value is not known or the file has no such stream.

    Raises:
        ValueError: The bytes are not audio or video, or have no stream of either.
        ImportError: PyAV is not installed.
    """
    found: dict[AVProbeKey, float | int] = {}
    with open_av(data) as container:
        video, audio = video_stream(container), audio_stream(container)
        if video is None and audio is None:
            raise ValueError(f"a {container.format.name} file without audio and video")
        spans = stream_spans(container, [stream for stream in (video, audio) if stream is not None])
        if video is not None:
            found.update(_video_facts(video, spans.get(video.index)))
        if audio is not None:
            found.update(_audio_facts(audio, spans.get(audio.index)))
        if video is not None and is_indexed(container) and abs(rotation_of(container, video)) % 180 == 90:
            found["video_width"], found["video_height"] = found["video_height"], found["video_width"]
    return found


def _video_facts(video: VideoStream, span: StreamSpan | None) -> Mapping[AVProbeKey, float | int]:
    found: dict[AVProbeKey, float | int] = {}
    rate = video.average_rate or video.guessed_rate or video.base_rate
    if span is not None:
        found["video_duration"] = float(span.duration)
        found["video_num_frames"] = span.frames
        measured = span.frames / span.duration if span.duration else None
        # The rate in the header is exact, unless it does not match the frames.
        if measured and (not rate or abs(rate - measured) > measured * _RATE_TOLERANCE):
            rate = measured
    if rate:
        found["video_fps"] = float(rate)
    found["video_width"] = video.codec_context.width
    found["video_height"] = video.codec_context.height
    return found


def _audio_facts(audio: AudioStream, span: StreamSpan | None) -> Mapping[AVProbeKey, float | int]:
    found: dict[AVProbeKey, float | int] = {}
    rate = audio.codec_context.sample_rate
    if span is not None:
        found["audio_duration"] = float(span.duration)
        samples = span.duration * rate
        if samples.denominator == 1 and audio.time_base and (1 / (audio.time_base * rate)).denominator == 1:
            found["audio_num_samples"] = int(samples)
    found["audio_channels"] = audio.codec_context.channels
    found["audio_sample_rate"] = rate
    return found


def stream_spans(container: InputContainer, streams: Iterable[VideoStream | AudioStream]) -> dict[int, StreamSpan]:
    """Find the start and end of streams, by the header if it is reliable, else by all packets of the file.

    Args:
        container: Open file. Its position afterwards is undefined.
        streams: Streams of that file.

    Returns:
        The span of each stream by the stream's index. Streams without packets are absent.
    """
    streams = tuple(streams)
    found = {stream.index: _span_in_header(container, stream) for stream in streams}
    unknown = [stream for stream in streams if found[stream.index] is None]
    if unknown:
        packets = _read_spans(container, unknown)
        found.update({stream.index: _without_padding(stream, packets.get(stream.index)) for stream in unknown})
    return {index: span for index, span in found.items() if span is not None}


def _span_in_header(container: InputContainer, stream: VideoStream | AudioStream) -> StreamSpan | None:
    if stream.duration is None or stream.time_base is None:
        return None
    start = (stream.start_time or 0) * stream.time_base
    duration = stream.duration * stream.time_base
    span = StreamSpan(start=start, end=start + duration, frames=stream.frames)
    if stream.type == "audio":
        is_exact = is_indexed(container) or container.format.name in _EXACT_HEADERS
        return span if is_exact else None
    # An edit list may select only some of the frames. Then their number and the duration do not agree.
    agree = stream.average_rate and abs(duration * stream.average_rate - stream.frames) < Fraction(1, 2)
    if not agree or not is_indexed(container):
        return None
    if not stream.codec_context.has_b_frames:
        return span
    # The duration in the header is a sum of times between decoded frames. Frames displayed in another order, at uneven
    # times, may end later than that sum.
    container.seek(stream.start_time + stream.duration if stream.start_time else stream.duration, stream=stream)
    tail = _read_spans(container, [stream]).get(stream.index, span)
    container.seek(0)
    return StreamSpan(start=start, end=tail.end, frames=stream.frames)


def _read_spans(container: InputContainer, streams: list[VideoStream | AudioStream]) -> dict[int, StreamSpan]:
    """Read all packets to find the start and end of their streams."""
    spans: dict[int, StreamSpan] = {}
    clocks: dict[int, Fraction] = {}
    latest_starts: dict[int, Fraction] = {}
    for packet in container.demux(*streams):
        if not packet.size or packet.is_discard:
            continue
        index, base = packet.stream.index, packet.time_base
        duration = (packet.duration or 0) * base
        if not duration and packet.stream.type == "video" and packet.stream.average_rate:
            duration = 1 / packet.stream.average_rate
        time = packet_time(container, packet)
        start = time * base if time is not None else clocks.get(index, Fraction(0))
        clocks[index] = start + duration
        span, latest = spans.get(index), latest_starts.get(index, start)
        # If frames are displayed in another order than decoded, a packet's duration may be the time until the next
        # decoded frame. So the frame that starts last is taken as the one that ends last.
        latest_starts[index] = max(latest, start)
        spans[index] = StreamSpan(
            start=start if span is None else min(span.start, start),
            end=start + duration if span is None or start >= latest else span.end,
            frames=1 if span is None else span.frames + 1,
        )
    return spans


def _without_padding(stream: VideoStream | AudioStream, span: StreamSpan | None) -> StreamSpan | None:
    """Trim the padding that an audio encoder adds before and after the sound, if the container has its length."""
    if span is None or stream.type == "video" or stream.start_time is None or stream.time_base is None:
        return span
    start = max(span.start, stream.start_time * stream.time_base)
    end = span.end
    if start > span.start and stream.duration is not None:
        end_in_header = start + stream.duration * stream.time_base
        packet = (span.end - span.start) / span.frames
        if end - 3 * packet < end_in_header <= end:  # else the header has only an estimate
            end = end_in_header
    return StreamSpan(start=start, end=end, frames=span.frames)


def rotation_of(container: InputContainer, video: VideoStream) -> int:
    """Return the rotation that a player applies to the video, in degrees counter-clockwise.

    It is read from the first frame, which is decoded.

    Args:
        container: Open file. Its position afterwards is after the first frame.
        video: Video stream of that file.
    """
    container.seek(0)
    frame = next(container.decode(video), None)
    return 0 if frame is None else frame.rotation
