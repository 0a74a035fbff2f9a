"""Decode clips, frames and metadata of one encoded audio or video file, also at even distances over the file."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, TypeVar, overload

from ..format.media.av_container import audio_stream, media_start, video_stream
from ..format.media.av_probe import probe_av, stream_spans
from ..format.media.import_av import open_av
from ..format.media.metadata import AVMetadata
from ..lazy_torch import torch
from .audio_clips import AudioReader, decode_audio_clips, ranges_to_windows
from .av_data import AudioUnit, AVData, VideoUnit, check_ranges, check_unit
from .video_reader import VideoReader, decode_clips, frames_to_windows, read_frame_times, seconds_to_windows

if TYPE_CHECKING:
    from av.container import InputContainer


def get_clips_uniform(  # noqa: PLR0917 - the order of megatron-energon
    av_decoder: AVDecoder,
    clip_duration_seconds: float,
    num_clips: int,
    request_video: bool = False,
    request_audio: bool = False,
    video_out_frame_size: tuple[int, int] | None = None,
) -> AVData:
    """Decode clips at even distances: the first one starts with the file, the last one ends with it.

    Args:
        av_decoder: The file.
        clip_duration_seconds: Duration of each clip. Clips overlap if they do not fit side by side; if the file is
            shorter, each clip is the whole file. 0 requests clips of one frame.
        num_clips: Number of clips; a single clip is the start of the file.
        request_video: Decode the video.
        request_audio: Decode the audio.
        video_out_frame_size: (width, height) of the frames; None for the size of the video.

    Returns:
        Clips of video, of audio, or of both at the same times, within the time that both streams cover.

    Raises:
        ValueError: Neither video nor audio is requested, or the file lacks a requested one.
    """
    if not (request_video or request_audio):
        raise ValueError("neither video nor audio is requested; set request_video or request_audio")
    if clip_duration_seconds < 0 or num_clips < 0:
        raise ValueError(f"clip_duration_seconds={clip_duration_seconds}, num_clips={num_clips}; expected 0 or more")
    # Clips are where all requested streams have content.
    video, audio = av_decoder.get_spans()
    if request_video and video is None:
        raise ValueError("video is requested, but the file has no video")
    if request_audio and audio is None:
        raise ValueError("audio is requested, but the file has no audio")
    spans = [span for span, wanted in ((video, request_video), (audio, request_audio)) if wanted and span is not None]
    start, end = max(span[0] for span in spans), min(span[1] for span in spans)
    # Clips without a duration are single frames, which are taken from their middle.
    if clip_duration_seconds == 0 and request_video:
        times = _frame_times(start, end, av_decoder.get_video_fps(), num_clips)
    else:
        times = _evenly_spaced(start, max(end - clip_duration_seconds, start), num_clips)
    ranges = [(time, min(time + clip_duration_seconds, end)) for time in times]
    return av_decoder.get_clips(
        video_clip_ranges=ranges if request_video else None,
        audio_clip_ranges=ranges if request_audio else None,
        video_out_frame_size=video_out_frame_size,
    )


@overload
def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: Literal[False] = False,
) -> torch.Tensor: ...


@overload
def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: Literal[True],
) -> tuple[torch.Tensor, list[float]]: ...


def get_single_frames_uniform(
    av_decoder: AVDecoder,
    num_frames: int,
    *,
    video_out_frame_size: tuple[int, int] | None = None,
    return_timestamps: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, list[float]]:
    """Decode frames at even distances, from the first one to the last one.

    Args:
        av_decoder: The file.
        num_frames: Number of frames; frames repeat if the video has fewer.
        video_out_frame_size: (width, height) of the frames; None for the size of the video.
        return_timestamps: Also return the start time of each frame.

    Returns:
        A uint8 tensor (frames, 3, height, width); with timestamps, the tensor and a list of seconds.

    Raises:
        ValueError: The file has no video, or ``num_frames`` is below 1.
    """
    video, _ = av_decoder.get_spans()
    if video is None:
        raise ValueError("the file has no video")
    if num_frames < 1:
        raise ValueError(f"num_frames is {num_frames}; expected 1 or more")
    # Choose times by the header, and decode the frames that are visible then.
    times = _frame_times(*video, av_decoder.get_video_fps(), num_frames)
    clips, timestamps = _frames_at(av_decoder, times, video_out_frame_size)
    if len(clips) < num_frames:  # fewer frames decode than there are packets
        starts = av_decoder.decode_frame_starts()
        if not starts:
            raise ValueError("no frame of the video can be decoded")
        times = [starts[round(index)] for index in _evenly_spaced(0, len(starts) - 1, num_frames)]
        clips, timestamps = _frames_at(av_decoder, times, video_out_frame_size)
        missing = num_frames - len(clips)  # frames whose times are not in order
        clips, timestamps = clips + clips[-1:] * missing, timestamps + timestamps[-1:] * missing
    frames = torch.cat(clips)
    return (frames, [start for start, _ in timestamps]) if return_timestamps else frames


def _frames_at(
    av_decoder: AVDecoder, times: Sequence[float], size: tuple[int, int] | None
) -> tuple[list[torch.Tensor], list[tuple[float, float]]]:
    return av_decoder.get_video_clips([(time, time) for time in times], video_out_frame_size=size)


def _frame_times(start: float, end: float, fps: float, count: int) -> Sequence[float]:
    """Return even times from the middle of the first frame to the middle of the last; the first is the start time."""
    half = min(0.5 / fps, (end - start) / 2)
    return [start, *_evenly_spaced(start + half, end - half, count)[1:]][:count]


def _evenly_spaced(first: float, last: float, count: int) -> list[float]:
    step = (last - first) / (count - 1) if count > 1 else 0
    return [first + step_number * step for step_number in range(count)]


_WHOLE = ((0, math.inf),)
_Reader = TypeVar("_Reader", AudioReader, VideoReader)


class AVDecoder:
    """A decoder of one audio or video file, which decodes only the requested clips.

    Nothing is read before a method is called, and nothing stays open between calls. A pickled decoder includes the
    bytes of its file. Times count from the file's first frame or sample, whichever is earlier; frames and samples count
    from the first of their own stream. A clip that starts after the end of the stream is dropped from the results.

    Args:
        stream: The bytes of a file, or a seekable file.
        suppress_warnings: Ignored; accepted for code that passes it. PyAV discards FFmpeg's messages.
        threads: Number of decoding threads. With one, worker processes do not compete for cores.

    Attributes:
        max_video_pixels: Limit of the pixels of all frames that one call returns, width × height × frames; 3 bytes of
            memory each, and twice that while a clip is put together. Set it on the class; None: no limit. A small file
            may hold hours of video.
        max_audio_samples: Limit of the samples of all channels that one call returns, mostly 4 bytes each.

    Raises:
        ValueError: By every method: the bytes are not audio or video, or have no stream of the requested kind; or a
            limit is exceeded.
        ImportError: By every method: PyAV is not installed.
    """

    max_video_pixels: ClassVar[int | None] = 1 << 30
    max_audio_samples: ClassVar[int | None] = 1 << 29

    __slots__ = ("_frame_times", "stream", "suppress_warnings", "threads")

    def __init__(self, stream: BinaryIO | bytes, suppress_warnings: bool = False, *, threads: int = 1) -> None:
        self.stream: BinaryIO = io.BytesIO(stream) if isinstance(stream, bytes | bytearray | memoryview) else stream
        self.suppress_warnings = suppress_warnings
        self.threads = threads
        self._frame_times: Sequence[int] | None = None

    # ---------------------------------------------------------------------------------------- whole streams

    def get_video(self) -> AVData:
        """Decode all frames: one video clip."""
        return self.get_clips(video_clip_ranges=_WHOLE)

    def get_audio(self) -> AVData:
        """Decode all samples: one audio clip."""
        return self.get_clips(audio_clip_ranges=_WHOLE)

    def get_video_with_audio(self) -> AVData:
        """Decode all frames and all samples: one video clip and one audio clip."""
        return self.get_clips(video_clip_ranges=_WHOLE, audio_clip_ranges=_WHOLE)

    def get_frames(self, video_decode_audio: bool = False) -> AVData:
        """Decode all frames of a video; if there is only audio, all samples.

        Args:
            video_decode_audio: Also decode the samples of a video that has audio.
        """
        with open_av(self.stream) as container:
            has_video, has_audio = video_stream(container) is not None, audio_stream(container) is not None
        with_audio = has_audio and (video_decode_audio or not has_video)
        return self.get_clips(
            video_clip_ranges=_WHOLE if has_video or not has_audio else None,
            audio_clip_ranges=_WHOLE if with_audio else None,
        )

    # ----------------------------------------------------------------------------------------------- clips

    def get_clips(
        self,
        video_clip_ranges: Sequence[tuple[float, float]] | None = None,
        audio_clip_ranges: Sequence[tuple[float, float]] | None = None,
        video_unit: VideoUnit = "seconds",
        audio_unit: AudioUnit = "seconds",
        video_out_frame_size: tuple[int, int] | None = None,
    ) -> AVData:
        """Decode clips of video and of audio.

        Args:
            video_clip_ranges: As in :meth:`get_video_clips`; None for no video.
            audio_clip_ranges: As in :meth:`get_audio_clips`; None for no audio.
            video_unit: Unit of the ranges of video.
            audio_unit: Unit of the ranges of audio.
            video_out_frame_size: (width, height) of the frames; None for the size of the video.
        """
        data = AVData()
        if video_clip_ranges is not None:
            clips = self.get_video_clips(video_clip_ranges, video_unit, video_out_frame_size)
            data.video_clips, data.video_timestamps = clips
        if audio_clip_ranges is not None:
            data.audio_clips, data.audio_timestamps = self.get_audio_clips(audio_clip_ranges, audio_unit)
        return data

    def get_video_clips(
        self,
        video_clip_ranges: Sequence[tuple[float, float]],
        video_unit: VideoUnit = "seconds",
        video_out_frame_size: tuple[int, int] | None = None,
    ) -> tuple[list[torch.Tensor], list[tuple[float, float]]]:
        """Decode clips of video.

        Args:
            video_clip_ranges: (start, end) of each clip, in any order, both ends included: in seconds, all frames that
                are visible at any time from start to end; in frames, the frames start to end. The end may be
                ``math.inf``.
            video_unit: ``"seconds"`` or ``"frames"``.
            video_out_frame_size: (width, height) of the frames; None for the size of the video.

        Returns:
            uint8 tensors (frames, 3, height, width), rotated as in a player; and for each of them, the start of its
            first frame and the end of its last one, in seconds.
        """
        check_unit(video_unit, ("frames", "seconds"), "video_unit")
        ranges = check_ranges(video_clip_ranges, "video_clip_ranges")
        times = self._read_frame_times() if video_unit == "frames" and ranges else ()
        with self._reading(VideoReader) as (container, reader):
            origin = media_start(container)
            if video_unit == "frames":
                windows = frames_to_windows(ranges, times)
            else:
                windows = seconds_to_windows(ranges, reader.stream, reader.clock, origin)
            clips = decode_clips(reader, windows, video_out_frame_size, self.max_video_pixels)
            seconds = [
                (float(start * reader.clock - origin), float(end * reader.clock - origin)) for _, start, end in clips
            ]
        return [frames for frames, _, _ in clips], seconds

    def get_audio_clips(
        self, audio_clip_ranges: Sequence[tuple[float, float]], audio_unit: AudioUnit = "seconds"
    ) -> tuple[list[torch.Tensor], list[tuple[float, float]]]:
        """Decode clips of audio.

        Args:
            audio_clip_ranges: (start, end) of each clip, in any order, half-open; times are rounded to the nearest
                sample. The end may be ``math.inf``.
            audio_unit: ``"seconds"`` or ``"samples"``.

        Returns:
            Tensors (channels, samples) as in :class:`AVData`; and for each of them, the start of its first sample and
            the end of its last one, in seconds.
        """
        check_unit(audio_unit, ("samples", "seconds"), "audio_unit")
        ranges = check_ranges(audio_clip_ranges, "audio_clip_ranges")
        with self._reading(AudioReader) as (container, reader):
            lead = reader.start - media_start(container)
            windows = ranges_to_windows(ranges, lead if audio_unit == "seconds" else None, reader.rate)
            clips = decode_audio_clips(reader, windows, self.max_audio_samples)
            seconds = []
            for samples, first in clips:
                start = lead + Fraction(first, reader.rate)
                seconds.append((float(start), float(start + Fraction(samples.shape[1], reader.rate))))
        return [samples for samples, _ in clips], seconds

    # -------------------------------------------------------------------------------------------- metadata

    def get_metadata(  # noqa: PLR0917 - the order of megatron-energon
        self,
        get_video: bool = True,
        get_video_duration: bool = True,
        get_video_frame_count: bool = True,
        get_video_frame_size: bool = True,
        get_audio: bool = True,
        get_audio_duration: bool = True,
        get_audio_num_samples: bool = False,
    ) -> AVMetadata:
        """Return metadata of the file. Fields that are not requested, unknown or absent are None.

        Args:
            get_video: Return metadata of the video.
            get_audio: Return metadata of the audio.
            get_audio_num_samples: Return the number of samples; for some containers, all audio is decoded to count it.
        """
        # Read all facts from the header, and clear the unwanted ones by the beginnings of their names.
        metadata = probe_av(self.stream)
        unwanted = [
            *(["video"] if not get_video else []),
            *(["video_duration"] if not (get_video_duration or get_video_frame_count) else []),
            *(["video_num_frames"] if not get_video_frame_count else []),
            *(["video_width", "video_height"] if not get_video_frame_size else []),
            *(["audio"] if not get_audio else []),
            *(["audio_duration"] if not get_audio_duration else []),
            *(["audio_num_samples"] if not get_audio_num_samples else []),
        ]
        # Some formats do not state the number of samples: count them.
        if get_audio and get_audio_num_samples and metadata.audio_channels and not metadata.audio_num_samples:
            with self._reading(AudioReader) as (_, reader):
                samples = sum(block[1].shape[1] for block in iter(reader.read, None))
            metadata = replace(metadata, audio_num_samples=samples)
        names = [each.name for each in fields(metadata) if each.name.startswith(tuple(unwanted))]
        return replace(metadata, **dict.fromkeys(names))

    def get_video_fps(self) -> float:
        """Return the average number of frames a second."""
        fps = probe_av(self.stream).video_fps
        if fps is None:
            raise ValueError("the file has no video, or does not state its frame rate")
        return fps

    def get_video_duration(self, get_frame_count: bool = False) -> tuple[float | None, int | None]:
        """Return the seconds from the start of the first frame to the end of the last one, and the number of frames.

        Args:
            get_frame_count: Ignored; accepted for code that passes it. The number is always returned.

        Returns:
            (None, None) if the file has no video.
        """
        del get_frame_count
        metadata = probe_av(self.stream)
        return metadata.video_duration, metadata.video_num_frames

    def get_audio_duration(self) -> float | None:
        """Return the seconds from the start of the first sample to the end of the last one; None without audio."""
        return probe_av(self.stream).audio_duration

    def get_audio_samples_per_second(self) -> int:
        """Return the sample rate."""
        rate = probe_av(self.stream).audio_sample_rate
        if rate is None:
            raise ValueError("the file has no audio")
        return rate

    def has_video_stream(self) -> bool:
        """Return True if the file has video other than a cover picture."""
        with open_av(self.stream) as container:
            return video_stream(container) is not None

    def has_audio_stream(self) -> bool:
        """Return True if the file has audio."""
        with open_av(self.stream) as container:
            return audio_stream(container) is not None

    def get_spans(self) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Return the start and end of the video, and of the audio, in seconds; None for a missing one."""
        with open_av(self.stream) as container:
            start = media_start(container)
            streams = video_stream(container), audio_stream(container)
            spans_by_index = stream_spans(container, [stream for stream in streams if stream is not None])
            spans = [None if stream is None else spans_by_index.get(stream.index) for stream in streams]
        video, audio = (
            None if span is None else (float(span.start - start), float(span.end - start)) for span in spans
        )
        return video, audio

    def decode_frame_starts(self) -> list[float]:
        """Decode the whole video; return the start times of its frames in seconds, up to the first damage."""
        starts: list[float] = []
        with self._reading(VideoReader) as (container, reader):
            origin = media_start(container)
            with suppress(ValueError, OSError):  # PyAV raises both kinds, and the reader a ValueError at a cut end
                starts.extend(float(frame.start * reader.clock - origin) for frame in iter(reader.read, None))
        return starts

    # ------------------------------------------------------------------------------------------- internals

    @contextmanager
    def _reading(self, kind: type[_Reader]) -> Iterator[tuple[InputContainer, _Reader]]:
        with open_av(self.stream) as container, closing(kind(container, self.stream, threads=self.threads)) as reader:
            yield container, reader

    def _read_frame_times(self) -> Sequence[int]:
        if self._frame_times is None:
            with open_av(self.stream) as container:
                video = video_stream(container)
                self._frame_times = () if video is None else tuple(read_frame_times(container, video))
        return self._frame_times

    def __getstate__(self) -> dict[str, Any]:
        self.stream.seek(0)
        return {"data": self.stream.read(), "suppress_warnings": self.suppress_warnings, "threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["data"], state["suppress_warnings"], threads=state["threads"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"AVDecoder({self.stream.seek(0, io.SEEK_END)} bytes)"
