"""Frames of a video in the order in which they are shown, from any time on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ..format.av_container import import_av, is_indexed, video_stream
from .media_reader import MediaReader

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer

__all__ = ["ShownFrame", "VideoReader"]

_STEPS_BACK_S = (0, 1, 5, 25)
"""How much earlier to look for a keyframe, where a container's index leads behind the time it was asked for."""

_WORTH_A_SEEK_S = 2
"""Decode on to frames that are nearer than this, where the container does not tell where its keyframes are."""

_MISSING_S = 1
"""A video that ends so much before the time in its header has lost frames; rounding is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """A frame and when it is shown, in ticks of its stream's clock.

    Args:
        start: It appears.
        end: The next one appears; for the last frame, its own duration tells.
        is_first: It is the first of the video.
    """

    frame: VideoFrame
    start: int
    end: int
    is_first: bool

    @property
    def visible_from(self) -> float:
        """When it appears; the first frame of a video stands for what comes before it."""
        return -math.inf if self.is_first else self.start


class VideoReader(MediaReader):
    """Frames of the first video stream in the order in which they are shown; places are ticks of its clock."""

    def _use(self, container: InputContainer) -> None:
        stream = video_stream(container)
        if stream is None:
            raise ValueError(f"there is no video in this {container.format.name} file")
        if stream.time_base is None:
            raise ValueError(f"the video in this {container.format.name} file has no clock")
        stream.codec_context.thread_count = self._threads
        self._container, self.stream, self.clock = container, stream, stream.time_base
        self._can_seek = self._can_seek and stream.start_time is not None
        rate = stream.average_rate or stream.guessed_rate or stream.base_rate
        self._default_duration = max(round(1 / (rate * self.clock)), 1) if rate else 1
        self._begin(container.decode(stream), is_first=True)

    def _begin(self, frames: Iterator[VideoFrame], *, is_first: bool) -> None:
        self._frames = frames
        self._next_is_first = is_first
        self._ahead: VideoFrame | None = None
        self._position = self.stream.start_time or 0

    def _look_ahead(self, expected: int) -> None:
        """Decode the frame behind the one that was read last."""
        self._ahead = next(self._frames, None)
        self._position = expected if self._ahead is None or self._ahead.pts is None else self._ahead.pts

    def read(self) -> ShownFrame | None:
        """Give the next frame; None behind the last one."""
        if self._ahead is None:  # nothing was read yet, or all
            self._look_ahead(self._position)
        frame, start, is_first = self._ahead, self._position, self._next_is_first
        if frame is None:
            self._check_end()
            return None
        end = start + (frame.duration or self._default_duration)
        self._look_ahead(end)
        self._next_is_first = False
        return ShownFrame(
            frame=frame,
            start=start,
            end=end if self._ahead is None else max(self._position, start + 1),
            is_first=is_first,
        )

    def _check_end(self) -> None:
        """Raise where the container's index lists frames that the file does not have."""
        stream = self.stream
        if stream.duration is None or not is_indexed(self._container):
            return
        said = ((stream.start_time or 0) + stream.duration) * self.clock
        found = self._position * self.clock
        if said - found > _MISSING_S:
            raise ValueError(
                f"the file is cut short: its video ends at {float(found):.3f} s, its header says {float(said):.3f} s"
            )

    def _is_worth_a_seek(self, place: int) -> bool:
        if place <= self._position:
            return False
        entries = getattr(self.stream, "index_entries", None)  # older versions of PyAV do not tell
        if entries is not None and len(entries) > 1:  # more than where the file begins
            number = entries.search_timestamp(place, backward=True)
            # An entry tells when its frame is decoded, at or before the time when it is shown.
            return bool(number >= 0 and entries[number].timestamp > self._position)
        return (place - self._position) * self.clock > _WORTH_A_SEEK_S

    def _seek(self, place: int) -> bool:
        av = import_av()
        for step_s in _STEPS_BACK_S:
            target = place - round(step_s / self.clock)
            if step_s and target < (self.stream.start_time or 0):
                return False
            try:
                self._container.seek(target, stream=self.stream)
                frames = self._container.decode(self.stream)
                first = next(frames, None)
            except av.FFmpegError:  # formats that cannot seek, and decoders that find themselves amid a group
                return False
            if first is not None and first.pts is not None and first.pts <= place and first.key_frame:
                self._begin(chain([first], frames), is_first=False)
                return True
        return False
