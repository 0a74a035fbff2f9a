"""Measure audio and video by their headers and indexes. At most one frame is decoded, for the rotation.

If the header has no duration of a stream, or one that is not reliable, all packets of the stream are read. Commands
and decoders agree, because they take durations and numbers of frames from here.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

from .av_container import audio_stream, has_hidden_frames, is_indexed, packet_time, shown_packets, video_stream
from .import_av import open_av
from .metadata import AVMetadata, Basis

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

_EXACT_HEADERS = frozenset({"aiff", "flac", "wav"})  # audio formats with the number of samples in the header

_RATE_TOLERANCE = Fraction(1, 20)
_HEAD_BYTES = 32 << 10  # as many as FFmpeg reads first, so that nothing is read twice


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpan:
    """The start and end of a stream, in seconds of the file's own clock."""

    start: Fraction  # start of the first frame
    end: Fraction  # end of the last frame
    frames: int  # number of frames (video) or blocks of samples (audio)
    basis: Basis = "stated"  # what these were taken from
    samples: int | None = None  # number of samples of audio that decode; None if only the duration is known

    @property
    def duration(self) -> Fraction:
        """Duration of the stream in seconds."""
        return self.end - self.start


def probe_av(data: bytes | BinaryIO, *, exact: bool = False) -> AVMetadata:
    """Measure audio or video: durations in seconds, frames, size, rates.

    Args:
        exact: Decode all of it, and count the frames and samples that come out.

    Returns:
        Durations and counts, each with its basis; the average ``video_fps``; ``video_width`` and ``video_height`` as
        displayed, after rotation; ``audio_num_samples`` per channel, None if it cannot be known without decoding.

    Raises:
        ValueError: The bytes are not audio or video, or have no stream of either.
    """
    facts: dict[str, Any] = {}
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    with open_av(file) as container:
        video, audio = video_stream(container), audio_stream(container)
        if video is None and audio is None:
            raise ValueError(f"a {container.format.name} file without audio and video")
        # Measure the spans: from the header if it is exact, else from packets, or by decoding.
        streams = [stream for stream in (video, audio) if stream is not None]
        spans = stream_spans(container, streams, head)
        if exact and spans:
            spans = _decoded_spans(file, spans)
        # Collect the facts of each stream.
        if video is not None:
            facts.update(_video_facts(video, spans.get(video.index)))
        if audio is not None:
            span = spans.get(audio.index)
            if span is not None and span.samples is None:
                span = replace(span, samples=_samples_of_blocks(container, audio, span))
            facts.update(_audio_facts(audio, span))
        if video is not None and is_indexed(container) and abs(rotation_of(container, video)) % 180 == 90:
            facts["video_width"], facts["video_height"] = facts["video_height"], facts["video_width"]
    bases = {name: facts.pop(name) for name in ("video_basis", "audio_basis") if name in facts}
    return AVMetadata(**facts).with_bases(**bases)


def _video_facts(video: VideoStream, span: StreamSpan | None) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    rate = video.average_rate or video.guessed_rate or video.base_rate
    if span is not None:
        facts["video_duration"] = float(span.duration)
        facts["video_num_frames"] = span.frames
        facts["video_basis"] = span.basis
        measured = span.frames / span.duration if span.duration else None
        # The rate in the header is exact, unless it does not match the frames.
        if measured and (not rate or abs(rate - measured) > measured * _RATE_TOLERANCE):
            rate = measured
    if rate:
        facts["video_fps"] = float(rate)
    facts["video_width"] = video.codec_context.width
    facts["video_height"] = video.codec_context.height
    return facts


def _audio_facts(audio: AudioStream, span: StreamSpan | None) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    rate = audio.codec_context.sample_rate
    if span is not None:
        facts["audio_duration"] = float(span.duration)
        facts["audio_basis"] = span.basis
        samples = span.duration * rate
        is_fine = audio.time_base is not None and (1 / (audio.time_base * rate)).denominator == 1
        if span.samples is not None:
            facts["audio_num_samples"] = span.samples
        elif samples.denominator == 1 and is_fine:
            facts["audio_num_samples"] = int(samples)
    facts["audio_channels"] = audio.codec_context.channels
    facts["audio_sample_rate"] = rate
    return facts


def _samples_of_blocks(container: InputContainer, audio: AudioStream, span: StreamSpan) -> int | None:
    """Return the number of samples that decode, by the index of an MP4 file; None if this is not known.

    The samples before the start in the edit list are cut by every decoder, those after its end by few. So this is up to
    one block more than the duration.
    """
    entries: Any = getattr(audio, "index_entries", ())  # missing in older versions of PyAV
    block = audio.codec_context.frame_size
    if not (span.basis == "stated" and is_indexed(container) and block > 1 and len(entries)):
        return None
    base, rate = audio.time_base or Fraction(0), audio.codec_context.sample_rate
    padding = max(Fraction(0), -entries[0].timestamp * base * rate)
    samples = len(entries) * block - padding
    return int(samples) if samples.denominator == 1 else None


def stream_spans(
    container: InputContainer, streams: Iterable[VideoStream | AudioStream], head: bytes = b""
) -> dict[int, StreamSpan]:
    """Find the start and end of streams, by the header if it is reliable, else by all packets of the file.

    Args:
        container: Open file. Its position afterwards is undefined.
        head: First bytes of the file, by which the sizes in the header of a WAV are known to be unset.

    Returns:
        The span of each stream by the stream's index. Streams without packets are absent.
    """
    streams = tuple(streams)
    spans = {stream.index: _span_in_header(container, stream, head) for stream in streams}
    unknown = [stream for stream in streams if spans[stream.index] is None]
    if unknown:
        packets = _read_spans(container, unknown)
        spans.update({stream.index: _without_padding(stream, packets.get(stream.index)) for stream in unknown})
    return {index: span for index, span in spans.items() if span is not None}


def _span_in_header(container: InputContainer, stream: VideoStream | AudioStream, head: bytes) -> StreamSpan | None:
    if stream.duration is None or stream.time_base is None or has_hidden_frames(stream):
        return None
    start = (stream.start_time or 0) * stream.time_base
    duration = stream.duration * stream.time_base
    span = StreamSpan(start=start, end=start + duration, frames=stream.frames)
    if container.format.name in _EXACT_HEADERS:
        audio = audio_stream(container)
        return None if audio is None else _span_of_bytes(container, audio, span, head)
    if not is_indexed(container) or _ends_inside(container, stream):
        return None
    if stream.type == "audio":
        return span
    # An edit list may select only some of the frames. Then their number and the duration do not agree.
    agree = stream.average_rate and abs(duration * stream.average_rate - stream.frames) < Fraction(1, 2)
    if not agree:
        return None
    if not stream.codec_context.has_b_frames:
        return span
    # The duration in the header is a sum of times between decoded frames. Frames displayed in another order, at uneven
    # times, may end later than that sum.
    container.seek(stream.start_time + stream.duration if stream.start_time else stream.duration, stream=stream)
    tail = _read_spans(container, [stream]).get(stream.index, span)
    container.seek(0)
    return StreamSpan(start=start, end=tail.end, frames=stream.frames)


def _ends_inside(container: InputContainer, stream: VideoStream | AudioStream) -> bool:
    """Return True if the file ends before the last packet in its index."""
    entries: Any = getattr(stream, "index_entries", ())  # missing in older versions of PyAV
    return bool(len(entries)) and entries[-1].pos + entries[-1].size > container.size


def _span_of_bytes(container: InputContainer, stream: AudioStream, span: StreamSpan, head: bytes) -> StreamSpan:
    """Return the span that a header states; if it states no size, or more bytes than there are, the span of the bytes.

    This can be known only of uncompressed sound, in which all samples have the same number of bytes.
    """
    rate, bit_rate = stream.codec_context.sample_rate, stream.codec_context.bit_rate or 0
    block = bit_rate // (8 * rate)
    if not stream.codec_context.name.startswith("pcm_") or not block:
        return span
    first = next((packet for packet in container.demux(stream) if packet.size), None)
    container.seek(0)
    if first is None or first.pos is None:
        return replace(span, end=span.start)
    samples = (container.size - first.pos) // block
    size_bytes = int.from_bytes(head[first.pos - 4 : first.pos], "little")
    is_unset = head.startswith(b"RIFF") and first.pos <= len(head) and not 0 < size_bytes <= container.size - first.pos
    if is_unset or span.duration * rate > samples:
        return replace(span, end=span.start + Fraction(samples, rate), basis="counted")
    return span


def _read_spans(container: InputContainer, streams: list[VideoStream | AudioStream]) -> dict[int, StreamSpan]:
    """Read all packets to find the start and end of their streams."""
    spans: dict[int, StreamSpan] = {}
    clocks: dict[int, Fraction] = {}
    latest_starts: dict[int, Fraction] = {}
    for packet, shown in shown_packets(container, *streams):
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
            frames=shown if span is None else span.frames + shown,
            basis="counted",
        )
    return spans


def _decoded_spans(file: BinaryIO, spans: dict[int, StreamSpan]) -> dict[int, StreamSpan]:
    """Return spans of the frames and samples that decode, without what the container cuts off."""
    from .av_decode import decode_streams

    decoded_spans: dict[int, StreamSpan] = {}
    with open_av(file) as container:  # opened again, because some formats cannot seek to their start
        video, audio = video_stream(container), audio_stream(container)
        streams = [stream for stream in (video, audio) if stream is not None and stream.index in spans]
        for index, decoded in decode_streams(container, streams).items():
            span = spans[index]
            if audio is None or index != audio.index:
                start = span.start if decoded.start is None else decoded.start
                end = span.end if decoded.end is None else decoded.end
                decoded_spans[index] = StreamSpan(start=start, end=end, frames=decoded.count, basis="decoded")
                continue
            length = Fraction(decoded.count, audio.codec_context.sample_rate)
            if is_indexed(container):  # AAC decodes to whole blocks
                length = min(length, span.duration)
            decoded_spans[index] = replace(span, end=span.start + length, basis="decoded", samples=decoded.count)
    return decoded_spans


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
    return replace(span, start=start, end=end)


def rotation_of(container: InputContainer, video: VideoStream) -> int:
    """Return the rotation that a player applies to the video, in degrees counter-clockwise.

    It is read from the first frame, which is decoded.

    Args:
        container: Open file. Its position afterwards is after the first frame.
    """
    container.seek(0)
    frame = next(container.decode(video), None)
    return 0 if frame is None else frame.rotation
