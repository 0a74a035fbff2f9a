"""Decode clips and frames at even distances over a whole file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

from ..lazy_torch import torch
from .av_data import AVData
from .av_decoder import AVDecoder


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
    video, audio = av_decoder.get_spans()
    if request_video and video is None:
        raise ValueError("video is requested, but the file has no video")
    if request_audio and audio is None:
        raise ValueError("audio is requested, but the file has no audio")
    spans = [span for span, wanted in ((video, request_video), (audio, request_audio)) if wanted and span is not None]
    start, end = max(span[0] for span in spans), min(span[1] for span in spans)
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
    times = _frame_times(*video, av_decoder.get_video_fps(), num_frames)
    clips, timestamps = _frames_at(av_decoder, times, video_out_frame_size)
    if len(clips) < num_frames:  # fewer frames decode than there are packets
        starts = av_decoder.decode_frame_starts()
        if not starts:
            raise ValueError("no frame of the video can be decoded")
        times = [starts[round(place)] for place in _evenly_spaced(0, len(starts) - 1, num_frames)]
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
    return [first + number * step for number in range(count)]
