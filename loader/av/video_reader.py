"""Read frames of a video in display order, from any time on, and decode its clips, each from a keyframe."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..format.media.av_container import check_frame_size, is_cut, is_indexed, packet_time, shown_packets, video_stream
from ..format.media.import_av import import_av
from ..lazy_torch import torch
from .av_data import MediaReader

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream


_TOLERANCE_S = Fraction(1, 1_000_000)  # smaller differences are rounding errors of the caller


TimeWindow = tuple[float, float]
"""The frames that are visible from the first to the last time, both included, in ticks of the stream's clock."""


def seconds_to_windows(
    ranges: Sequence[tuple[float, float]], stream: VideoStream, clock: Fraction, origin: Fraction
) -> list[TimeWindow]:
    """Convert ranges in seconds since ``origin`` to the stream's clock, with some tolerance."""
    tolerance = _TOLERANCE_S
    rate = stream.average_rate
    if rate and (1 / (rate * clock)).denominator != 1:
        tolerance += clock / 2  # the container rounds the times of frames to its clock
    return [
        (
            float((Fraction(start) + origin + tolerance) / clock),
            math.inf if math.isinf(end) else float((Fraction(end) + origin + tolerance) / clock),
        )
        for start, end in ranges
    ]


def decode_clips(
    reader: VideoReader, windows: Sequence[TimeWindow], size: tuple[int, int] | None, max_pixels: int | None = None
) -> list[tuple[torch.Tensor, int, int]]:
    """Decode the frames of windows, each frame once unless windows are far apart and not in order.

    Args:
        windows: Windows in any order; they may overlap.
        size: (width, height) of the frames; None for the size of the video.
        max_pixels: Limit of the pixels of all frames of the clips; None: no limit.

    Returns:
        For each window in which a frame is visible: frames (frames, 3, height, width), the start of the first and the
        end of the last one.
    """
    _check_pixels(_stated_pixels(reader.stream, windows, size), max_pixels)
    pixels = 0
    # Take the windows in the order of their starts: each frame is decoded once for all of them.
    order = sorted(range(len(windows)), key=lambda clip: windows[clip][0])
    frames: list[list[tuple[TimedFrame, npt.NDArray[np.uint8]]]] = [[] for _ in windows]
    waiting, active = order[::-1], list[int]()
    target: int | None = None
    convert = _converter(size)
    while waiting or active:
        # Between windows, skip ahead if a seek is worth it.
        if not active and waiting[-1] != target:
            target = waiting[-1]
            reader.advance_to(math.floor(windows[target][0]))
        timed = reader.read()
        if timed is None:
            break
        # Windows begin with the frame that is visible at their start.
        while waiting and windows[waiting[-1]][0] < timed.end:
            active.append(waiting.pop())
        active = [clip for clip in active if timed.visible_from <= windows[clip][1]]
        if active:
            # A frame is converted once, and counts for the limit in each clip that has it.
            picture = convert(timed.frame)
            pixels += picture.shape[0] * picture.shape[1] * len(active)
            _check_pixels(pixels, max_pixels)
            for clip in active:
                frames[clip].append((timed, picture))
            active = [clip for clip in active if timed.end <= windows[clip][1]]
    return [_clip(frames_of_clip) for frames_of_clip in frames if frames_of_clip]


def _stated_pixels(stream: VideoStream, windows: Sequence[TimeWindow], size: tuple[int, int] | None) -> int:
    """Return the pixels of windows up to the end, by the numbers in the file's header; 0 if it has none."""
    if not (stream.frames and stream.duration):
        return 0
    width, height = size or (stream.width, stream.height)
    shares = (1 - max(first - (stream.start_time or 0), 0) / stream.duration for first, _ in windows)
    rest = sum(max(share, 0) for share, (_, last) in zip(shares, windows, strict=True) if math.isinf(last))
    return int(rest * stream.frames) * width * height


def _check_pixels(pixels: int, limit: int | None) -> None:
    if limit is not None and pixels > limit:
        raise ValueError(
            f"the frames have {pixels:,} pixels or more, the limit is {limit:,}: request shorter clips or smaller "
            "frames, or raise AVDecoder.max_video_pixels"
        )


def _clip(frames: list[tuple[TimedFrame, npt.NDArray[np.uint8]]]) -> tuple[torch.Tensor, int, int]:
    shapes = {picture.shape for _, picture in frames}
    if len(shapes) > 1:
        sizes = ", ".join(f"{width}x{height}" for height, width, _ in sorted(shapes))
        raise ValueError(f"the video changes its size ({sizes}); give video_out_frame_size")
    stacked = torch.from_numpy(np.stack([picture for _, picture in frames]))  # (F, H, W, 3)
    return stacked.permute(0, 3, 1, 2), frames[0][0].start, frames[-1][0].end


def _converter(size: tuple[int, int] | None) -> Callable[[VideoFrame], npt.NDArray[np.uint8]]:
    """Return a function from frames to pixels (height, width, 3), rotated as in a player, in the requested size."""
    from av.video.reformatter import VideoReformatter

    reformatter = VideoReformatter()  # shared by all frames: its set-up costs more than a frame
    options: dict[str, Any] = {"format": "rgb24", "interpolation": "BILINEAR", "threads": 1}

    def convert(frame: VideoFrame) -> npt.NDArray[np.uint8]:
        # The requested size is the size after the rotation of a player.
        turns = round(frame.rotation / 90) % 4  # counter-clockwise
        width, height = size or (None, None)
        if turns % 2:
            width, height = height, width
        try:
            converted = reformatter.reformat(frame, width, height, **options)
        except TypeError:  # older versions of PyAV lack this option and use one thread
            if not options.pop("threads", 0):
                raise
            converted = reformatter.reformat(frame, width, height, **options)
        picture: npt.NDArray[np.uint8] = np.asarray(converted.to_ndarray(), dtype=np.uint8)
        return np.rot90(picture, turns) if turns else picture

    return convert


def frames_to_windows(ranges: Sequence[tuple[float, float]], times: Sequence[int]) -> list[TimeWindow]:
    """Convert ranges of frames, both ends included, to the stream's clock; ranges after the last frame are dropped.

    Args:
        times: Start times of the frames, sorted.
    """
    windows: list[TimeWindow] = []
    for start, end in ranges:
        first = math.floor(start)
        last = len(times) - 1 if math.isinf(end) else min(math.floor(end), len(times) - 1)
        if first <= last:
            windows.append((times[first], times[last]))
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


_STEPS_BACK_S = (0, 1, 5, 25)  # earlier seek targets, tried if a container's index leads past the requested time
_MIN_SEEK_S = 2  # in containers without an index of keyframes, decoding is faster over shorter distances
_FULL_FRAMES = 8  # before a requested time, decoded without skipping any
_SKIPPABLE = frozenset({"h264", "mpeg4"})  # codecs in which no frame needs those that are marked as unreferenced
_MAX_SHORTFALL_S = 1  # a video that ends earlier than its header says by more than this has lost frames
_NEVER = 1 << 62

_IDR = {"h264": re.compile(rb"\x00\x00\x01[\x25\x45\x65]"), "hevc": re.compile(rb"\x00\x00\x01[\x26\x28]")}
"""Starts of instantaneous decoder refreshes: keyframes after which no frame is displayed that was decoded before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedFrame:
    """A frame with its display time, in ticks of its stream's clock.

    Args:
        end: Start time of the next frame; for the last frame, its own end.
        is_first: True for the first frame of the video.
    """

    frame: VideoFrame
    start: int
    end: int
    is_first: bool

    @property
    def visible_from(self) -> float:
        """Time from which the frame is visible; the first frame of a video also fills the time before it."""
        return -math.inf if self.is_first else self.start


class VideoReader(MediaReader):
    """A reader of the first video stream, frame by frame in display order; places are ticks of its clock."""

    def _attach(self, container: InputContainer) -> None:
        # Find the stream and its clock.
        stream = video_stream(container)
        if stream is None:
            raise ValueError(f"there is no video in this {container.format.name} file")
        if stream.time_base is None:
            raise ValueError(f"the video in this {container.format.name} file has no clock")
        check_frame_size(stream)
        stream.codec_context.thread_count = self._threads
        self._container, self.stream, self.clock = container, stream, stream.time_base
        self._can_seek = self._can_seek and stream.start_time is not None
        # Frames without a duration last as long as the rate says.
        rate = stream.average_rate or stream.guessed_rate or stream.base_rate
        self._default_duration = max(round(1 / (rate * self.clock)), 1) if rate else 1
        # AVI has decoding times only: H.264 and HEVC count frames, other codecs are late by a fixed delay.
        is_avi = container.format.name == "avi"
        self._idr = _IDR.get(stream.codec_context.name) if is_avi else None
        self._is_timed_by_dts = is_avi and self._idr is None
        self._delay = 0
        self._first_dts: int | None = None
        # Read the first frame, from which the delay is measured.
        self._wanted = self._full_from = -_NEVER
        self._can_skip = stream.codec_context.name in _SKIPPABLE and self._idr is None
        frames = self._decode()
        first = next(frames, None)
        if self._is_timed_by_dts and first is not None:
            self._delay = self._measure_delay(first)
        self._begin(frames if first is None else chain([first], frames), is_first=True)

    def _measure_delay(self, first: VideoFrame) -> int:
        """Return the ticks by which the times of frames are late in AVI: the delay of the reordering."""
        return max((first.dts or 0) - (self._first_dts or 0), 0)

    def _time_of(self, frame: VideoFrame) -> int | None:
        """Return the display time of a frame, in AVI by its decoding time: FFmpeg guesses wrong for packed frames."""
        if not self._is_timed_by_dts:
            return frame.pts
        return None if frame.dts is None else frame.dts - self._delay

    def _decode(self, *, after_seek: bool = False) -> Iterator[VideoFrame]:
        """Decode packets; before ``_full_from``, without the frames that no other frame needs."""
        if self._idr is not None:
            yield from self._decode_by_count(self._idr if after_seek else None)
            return
        codec = self.stream.codec_context
        for packet in self._container.demux(self.stream):
            if is_cut(self._container, packet):
                continue
            if self._first_dts is None:
                self._first_dts = packet.dts
            if self._can_skip:
                is_skipped = packet.pts is not None and packet.pts - self._delay < self._full_from
                codec.skip_frame = "NONREF" if is_skipped else "DEFAULT"
            yield from packet.decode()

    def _decode_by_count(self, start: re.Pattern[bytes] | None) -> Iterator[VideoFrame]:
        """Decode H.264 or HEVC in AVI: give the next frame in display order the next time.

        AVI has only decoding times. FFmpeg finds the display times of other codecs, which reorder frames by one.

        Args:
            start: Pattern that the first packet must contain, else nothing is decoded: after other keyframes, decoders
                drop frames, and the count is wrong.
        """
        times: list[int] = []
        time_of: dict[int | None, int] = {}
        is_first = True
        for packet in self._container.demux(self.stream):
            if is_cut(self._container, packet):
                continue
            if start is not None and not start.search(bytes(packet)):
                return
            start = None
            # Decoders give frames in display order: the smallest time of the packets so far belongs to the next frame.
            if packet.dts is not None:
                heappush(times, packet.dts)
                time_of[packet.pts] = packet.dts
            for frame in packet.decode():
                if is_first and frame.key_frame:  # the decoder drops frames before the first keyframe of a cut file
                    while times and times[0] < time_of.get(frame.pts, times[0]):
                        heappop(times)
                is_first = False
                time_of.clear()
                frame.pts = heappop(times) if times else None
                yield frame

    def advance_to(self, position: int) -> None:
        super().advance_to(position)
        self._wanted = position
        self._full_from = position - _FULL_FRAMES * self._default_duration if self._can_skip else -_NEVER

    def _begin(self, frames: Iterator[VideoFrame], *, is_first: bool) -> None:
        self._frames = frames
        self._next_is_first = is_first
        self._next_frame: VideoFrame | None = None
        self._position = self.stream.start_time or 0

    def _decode_next(self, expected: int) -> None:
        """Decode the frame after the one that was read last."""
        self._next_frame = next(self._frames, None)
        frame = self._next_frame
        time = None if frame is None else self._time_of(frame)
        self._position = expected if time is None else time

    def read(self) -> TimedFrame | None:
        """Return the next frame; None after the last one."""
        if self._next_frame is None:  # before the first frame, or after the last one
            self._decode_next(self._position)
        # A frame ends where the next one starts, so that one is decoded before.
        frame, start, is_first = self._next_frame, self._position, self._next_is_first
        if frame is None:
            self._check_end()
            return None
        end = start + (frame.duration or self._default_duration)
        self._decode_next(end)
        if start < self._full_from and (self._next_frame is None or self._position > self._wanted):
            return self._read_without_skipping()
        self._next_is_first = False
        return TimedFrame(
            frame=frame,
            start=start,
            end=end if self._next_frame is None else max(self._position, start + 1),
            is_first=is_first,
        )

    def _read_without_skipping(self) -> TimedFrame | None:
        """Start over: no frame begins shortly before the wanted time, so one that was skipped may be visible then."""
        wanted, self._full_from = self._wanted, -_NEVER
        if not (self._can_seek and self._seek(wanted)):
            self._rewind()
        return self.read()

    def _check_end(self) -> None:
        """Raise an error if the container's index lists frames that the file does not have."""
        stream = self.stream
        if stream.duration is None or not is_indexed(self._container):
            return
        stated = ((stream.start_time or 0) + stream.duration) * self.clock
        decoded_until = self._position * self.clock
        if stated - decoded_until > _MAX_SHORTFALL_S:
            raise ValueError(
                f"the file is cut short: its video ends at {float(decoded_until):.3f} s, "
                f"its header says {float(stated):.3f} s"
            )

    def _is_worth_a_seek(self, position: int) -> bool:
        if position <= self._position:
            return False
        entries = getattr(self.stream, "index_entries", None)  # missing in older versions of PyAV
        if entries is not None and len(entries) > 1:  # more than the start of the file
            entry = entries.search_timestamp(position, backward=True)
            # An entry has the decoding time of its frame, at or before its display time.
            return bool(entry >= 0 and entries[entry].timestamp > self._position)
        return (position - self._position) * self.clock > _MIN_SEEK_S

    def _seek(self, position: int) -> bool:
        av = import_av()
        # Step back further each time, until the decoder starts with a keyframe before the position.
        for step_s in _STEPS_BACK_S:
            target = position - round(step_s / self.clock)
            if step_s and target < (self.stream.start_time or 0):
                return False
            try:
                self._container.seek(target, stream=self.stream)
                frames = self._decode(after_seek=True)
                first = next(frames, None)
            except av.FFmpegError:  # the format cannot seek, or the decoder starts inside a group
                return False
            time = None if first is None else self._time_of(first)
            if first is not None and time is not None and time <= position and first.key_frame:
                self._begin(chain([first], frames), is_first=False)
                return True
        return False
