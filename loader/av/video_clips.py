"""Clips of a video: only what lies between a keyframe and the end of a clip is decoded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream

    from .video_reader import ShownFrame, VideoReader

__all__ = ["TimeWindow", "VideoClip", "decode_clips", "frames_to_windows", "seconds_to_windows"]

_TOLERANCE_S = Fraction(1, 1_000_000)
"""Times nearer than this are the same: callers compute in floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """All frames that can be seen from ``first`` to ``last``, both included, in ticks of the stream's clock."""

    first: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoClip:
    """Frames (frames, 3, height, width), and when they are shown: ticks of the stream's clock, half-open."""

    frames: Tensor
    start: int
    end: int


def seconds_to_windows(
    ranges: Sequence[tuple[float, float]], stream: VideoStream, clock: Fraction, origin: Fraction
) -> list[TimeWindow]:
    """Translate ranges in seconds since ``origin`` to the stream's clock, with some tolerance."""
    tolerance = _TOLERANCE_S
    rate = stream.average_rate
    if rate and (1 / (rate * clock)).denominator != 1:
        tolerance += clock / 2  # the container rounds the times of frames to its clock
    return [
        TimeWindow(
            first=float((Fraction(start) + origin + tolerance) / clock),
            last=math.inf if math.isinf(end) else float((Fraction(end) + origin + tolerance) / clock),
        )
        for start, end in ranges
    ]


def decode_clips(
    reader: VideoReader, windows: Sequence[TimeWindow], size: tuple[int, int] | None
) -> list[VideoClip | None]:
    """Decode the frames of windows, each frame once unless windows are far apart and not in order.

    Args:
        windows: In any order; they may overlap.
        size: (width, height) of the frames; None for their own.

    Returns:
        A clip for each window; None where nothing is shown in it.
    """
    order = sorted(range(len(windows)), key=lambda number: windows[number].first)
    frames: list[list[tuple[ShownFrame, npt.NDArray[np.uint8]]]] = [[] for _ in windows]
    waiting, active = order[::-1], list[int]()
    went_to: int | None = None
    pictures = _Pictures(size)
    while waiting or active:
        if not active and waiting[-1] != went_to:
            went_to = waiting[-1]
            reader.go_to(math.floor(windows[went_to].first))
        shown = reader.read()
        if shown is None:
            break
        while waiting and windows[waiting[-1]].first < shown.end:
            active.append(waiting.pop())
        active = [number for number in active if shown.visible_from <= windows[number].last]
        if active:
            picture = pictures.of(shown.frame)
            for number in active:
                frames[number].append((shown, picture))
            active = [number for number in active if shown.end <= windows[number].last]
    return [_clip(found) for found in frames]


def _clip(found: list[tuple[ShownFrame, npt.NDArray[np.uint8]]]) -> VideoClip | None:
    if not found:
        return None
    shapes = {picture.shape for _, picture in found}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width}x{height}" for height, width, _ in sorted(shapes))
        raise ValueError(f"the video changes its size ({sizes}); give video_out_frame_size")
    stacked = torch.from_numpy(np.stack([picture for _, picture in found]))  # (F, H, W, 3)
    return VideoClip(frames=stacked.permute(0, 3, 1, 2), start=found[0][0].start, end=found[-1][0].end)


class _Pictures:
    """Converts frames to (height, width, 3), turned as a player would, in the size that was asked for."""

    def __init__(self, size: tuple[int, int] | None) -> None:
        from av.video.reformatter import VideoReformatter

        self._size = size
        self._reformatter = VideoReformatter()  # one for all frames: what it prepares costs more than a frame
        self._options: dict[str, Any] = {"format": "rgb24", "interpolation": "BILINEAR", "threads": 1}

    def of(self, frame: VideoFrame) -> npt.NDArray[np.uint8]:
        turns = round(frame.rotation / 90) % 4  # counter-clockwise
        width, height = self._size or (None, None)
        if turns % 2:
            width, height = height, width
        try:
            converted = self._reformatter.reformat(frame, width, height, **self._options)
        except TypeError:  # PyAV before it had this option used one thread
            if not self._options.pop("threads", 0):
                raise
            converted = self._reformatter.reformat(frame, width, height, **self._options)
        picture: npt.NDArray[np.uint8] = np.asarray(converted.to_ndarray(), dtype=np.uint8)
        return np.rot90(picture, turns) if turns else picture


def frames_to_windows(ranges: Sequence[tuple[float, float]], times: Sequence[int]) -> list[TimeWindow | None]:
    """Translate ranges of frames, both ends included, to the stream's clock; None for those behind the last frame.

    Args:
        times: When the frames appear, sorted.
    """
    windows: list[TimeWindow | None] = []
    for start, end in ranges:
        first = math.floor(start)
        last = len(times) - 1 if math.isinf(end) else min(math.floor(end), len(times) - 1)
        beyond = first >= len(times) or last < first
        windows.append(None if beyond else TimeWindow(first=times[first], last=times[last]))
    return windows
