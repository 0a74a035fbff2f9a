"""Decode clips of a video, each from a keyframe to the end of the clip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..format.media.av_container import packet_time
from ..format.media.shown_frames import shown_packets
from ..lazy_torch import torch

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

    from .video_reader import TimedFrame, VideoReader

_TOLERANCE_S = Fraction(1, 1_000_000)  # smaller differences are rounding errors of the caller


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """All frames that are visible from ``first`` to ``last``, both included, in ticks of the stream's clock."""

    first: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoClip:
    """Frames (frames, 3, height, width), visible in ``[start, end)`` in ticks of the stream's clock."""

    frames: torch.Tensor
    start: int
    end: int


def seconds_to_windows(
    ranges: Sequence[tuple[float, float]], stream: VideoStream, clock: Fraction, origin: Fraction
) -> list[TimeWindow]:
    """Convert ranges in seconds since ``origin`` to the stream's clock, with some tolerance."""
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
    reader: VideoReader, windows: Sequence[TimeWindow], size: tuple[int, int] | None, max_pixels: int | None = None
) -> list[VideoClip | None]:
    """Decode the frames of windows, each frame once unless windows are far apart and not in order.

    Args:
        windows: Windows in any order; they may overlap.
        size: (width, height) of the frames; None for the size of the video.
        max_pixels: Limit of the pixels of all frames of the clips; None: no limit.

    Returns:
        A clip for each window; None if no frame is visible in it.
    """
    _check_pixels(_stated_pixels(reader.stream, windows, size), max_pixels)
    pixels = 0
    order = sorted(range(len(windows)), key=lambda number: windows[number].first)
    frames: list[list[tuple[TimedFrame, npt.NDArray[np.uint8]]]] = [[] for _ in windows]
    waiting, active = order[::-1], list[int]()
    target: int | None = None
    pictures = _Pictures(size)
    while waiting or active:
        if not active and waiting[-1] != target:
            target = waiting[-1]
            reader.advance_to(math.floor(windows[target].first))
        timed = reader.read()
        if timed is None:
            break
        while waiting and windows[waiting[-1]].first < timed.end:
            active.append(waiting.pop())
        active = [number for number in active if timed.visible_from <= windows[number].last]
        if active:
            picture = pictures.of(timed.frame)
            pixels += picture.shape[0] * picture.shape[1] * len(active)
            _check_pixels(pixels, max_pixels)
            for number in active:
                frames[number].append((timed, picture))
            active = [number for number in active if timed.end <= windows[number].last]
    return [_clip(found) for found in frames]


def _stated_pixels(stream: VideoStream, windows: Sequence[TimeWindow], size: tuple[int, int] | None) -> int:
    """Return the pixels of windows up to the end, by the numbers in the file's header; 0 if it has none."""
    if not (stream.frames and stream.duration):
        return 0
    width, height = size or (stream.width, stream.height)
    shares = (1 - max(window.first - (stream.start_time or 0), 0) / stream.duration for window in windows)
    rest = sum(max(share, 0) for share, window in zip(shares, windows, strict=True) if math.isinf(window.last))
    return int(rest * stream.frames) * width * height


def _check_pixels(pixels: int, limit: int | None) -> None:
    if limit is not None and pixels > limit:
        raise ValueError(
            f"the frames have {pixels:,} pixels or more, the limit is {limit:,}: request shorter clips or smaller "
            "frames, or raise AVDecoder.max_video_pixels"
        )


def _clip(found: list[tuple[TimedFrame, npt.NDArray[np.uint8]]]) -> VideoClip | None:
    if not found:
        return None
    shapes = {picture.shape for _, picture in found}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width}x{height}" for height, width, _ in sorted(shapes))
        raise ValueError(f"the video changes its size ({sizes}); give video_out_frame_size")
    stacked = torch.from_numpy(np.stack([picture for _, picture in found]))  # (F, H, W, 3)
    return VideoClip(frames=stacked.permute(0, 3, 1, 2), start=found[0][0].start, end=found[-1][0].end)


class _Pictures:
    """Converts frames to (height, width, 3), rotated as in a player, in the requested size."""

    def __init__(self, size: tuple[int, int] | None) -> None:
        from av.video.reformatter import VideoReformatter

        self._size = size
        self._reformatter = VideoReformatter()  # shared by all frames: its set-up costs more than a frame
        self._options: dict[str, Any] = {"format": "rgb24", "interpolation": "BILINEAR", "threads": 1}

    def of(self, frame: VideoFrame) -> npt.NDArray[np.uint8]:
        turns = round(frame.rotation / 90) % 4  # counter-clockwise
        width, height = self._size or (None, None)
        if turns % 2:
            width, height = height, width
        try:
            converted = self._reformatter.reformat(frame, width, height, **self._options)
        except TypeError:  # older versions of PyAV lack this option and use one thread
            if not self._options.pop("threads", 0):
                raise
            converted = self._reformatter.reformat(frame, width, height, **self._options)
        picture: npt.NDArray[np.uint8] = np.asarray(converted.to_ndarray(), dtype=np.uint8)
        return np.rot90(picture, turns) if turns else picture


def frames_to_windows(ranges: Sequence[tuple[float, float]], times: Sequence[int]) -> list[TimeWindow | None]:
    """Convert ranges of frames, both ends included, to the stream's clock; None for ranges after the last frame.

    Args:
        times: Start times of the frames, sorted.
    """
    windows: list[TimeWindow | None] = []
    for start, end in ranges:
        first = math.floor(start)
        last = len(times) - 1 if math.isinf(end) else min(math.floor(end), len(times) - 1)
        beyond = first >= len(times) or last < first
        windows.append(None if beyond else TimeWindow(first=times[first], last=times[last]))
    return windows


def read_frame_times(container: InputContainer, stream: VideoStream) -> list[int]:
    """Read the start times of a video's frames from its packets, without decoding.

    Args:
        container: An open file that was not read from; afterwards it is at its end.

    Returns:
        Ticks of the stream's clock, sorted; in a stream without a clock, the sum of the durations before each frame.
    """
    times: list[int] = []
    clock = 0
    for packet, shown in shown_packets(container, stream):
        time = packet_time(container, packet)
        times += [clock if time is None else time] * shown
        clock = times[-1] + (packet.duration or 1)
    return sorted(times)
