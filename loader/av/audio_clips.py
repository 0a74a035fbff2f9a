"""Clips of audio, exact to the sample: decoding starts a little before each, where the container can seek."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..format.av_container import audio_stream, import_av, is_indexed
from .media_reader import MediaReader

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

__all__ = ["AudioClip", "AudioReader", "SampleWindow", "decode_audio_clips", "ranges_to_windows"]

_RUN_IN_S = 0.5
"""Lossy codecs need some blocks before the one that is asked for: MP3 up to ten, Opus 80 ms."""

_WORTH_A_SEEK_S = 2
"""Decode on to samples that are nearer than this."""

_GAP_S = 0.01
"""Blocks whose time is further off than this do not follow each other."""

_NO_END = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindow:
    """Samples from ``start`` up to ``end``, half-open, counted from the stream's first; the end may be infinite."""

    start: int
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioClip:
    """Samples (channels, samples), and the number of the first one in its stream."""

    samples: Tensor
    start: int


class AudioReader(MediaReader):
    """Blocks of samples of the first audio stream, each with the number of its first sample; places are such numbers.

    ``start`` is when the stream begins, in seconds of the file's own clock, and ``rate`` its samples a second.
    """

    def _use(self, container: InputContainer) -> None:
        stream = audio_stream(container)
        if stream is None:
            raise ValueError(f"there is no audio in this {container.format.name} file")
        if stream.time_base is None:
            raise ValueError(f"the audio in this {container.format.name} file has no clock")
        stream.codec_context.thread_count = self._threads
        self._container, self.stream = container, stream
        self.rate = stream.codec_context.sample_rate
        self._samples_per_tick = stream.time_base * self.rate
        self._first_tick = stream.start_time or 0
        self.start = self._first_tick * stream.time_base
        # The last block of AAC in MP4 is longer than what the container says is heard of it.
        trims = is_indexed(container) and stream.duration is not None
        self._end = round(stream.duration * self._samples_per_tick) if trims and stream.duration else _NO_END
        self._frames: Iterator[AudioFrame] = iter(container.decode(stream))
        self._block: tuple[int, int] | None = None
        if self._samples_per_tick > 1:
            self._learn_blocks()
        self.position = 0

    def _learn_blocks(self) -> None:
        """Find where the blocks begin, for containers whose clock is coarser than a sample.

        All blocks of such streams are of one size, but the first, from which the encoder's padding is cut.
        """
        ahead = list(islice(self._frames, 3))
        self._frames = chain(ahead, self._frames)
        if len(ahead) == 3 and ahead[1].samples == ahead[2].samples:
            self._block = ahead[0].samples, ahead[1].samples

    def read(self) -> tuple[int, npt.NDArray[Any]] | None:
        """Give the next block: the number of its first sample, and its samples (channels, samples)."""
        frame = next(self._frames, None)
        if frame is None:
            return None
        told = self._told_position(frame)
        if told is not None and abs(told - self.position) > _GAP_S * self.rate:
            self.position = told
        start = self.position
        samples = _samples(frame)[:, : max(self._end - start, 0)]
        self.position = start + frame.samples
        return start, samples

    def _told_position(self, frame: AudioFrame) -> int | None:
        return None if frame.pts is None else round((frame.pts - self._first_tick) * self._samples_per_tick)

    def _is_worth_a_seek(self, place: int) -> bool:
        return place - self.position > _WORTH_A_SEEK_S * self.rate

    def _seek(self, place: int) -> bool:
        av = import_av()
        start = place - round(_RUN_IN_S * self.rate)  # far enough that samples come out as if all was decoded
        target = self._first_tick + int(start / self._samples_per_tick)
        try:
            self._container.seek(target, stream=self.stream)
            frames = iter(self._container.decode(self.stream))
            first = next(frames, None)
        except av.FFmpegError:  # formats that cannot seek, and decoders that find themselves amid a group
            return False
        told = None if first is None else self._told_position(first)
        if first is None or told is None or not 0 < told <= start + _RUN_IN_S * self.rate / 2:
            return False
        if self._samples_per_tick > 1:
            if self._block is None:
                return False
            lead, size = self._block
            told = lead + round((told - lead) / size) * size
        self._frames = chain([first], frames)
        self.position = told
        return True


def ranges_to_windows(ranges: Sequence[tuple[float, float]], lead: Fraction | None, rate: int) -> list[SampleWindow]:
    """Translate ranges to samples of a stream.

    Args:
        ranges: Of seconds; of samples if ``lead`` is None.
        lead: When the stream begins, in seconds of the clock that the ranges mean.
        rate: Samples a second.
    """

    def sample(value: float) -> int:
        return round(value if lead is None else (Fraction(value) - lead) * rate)

    return [SampleWindow(start=sample(start), end=end if math.isinf(end) else sample(end)) for start, end in ranges]


def decode_audio_clips(reader: AudioReader, windows: Sequence[SampleWindow]) -> list[AudioClip | None]:
    """Decode the samples of windows, each once unless windows are far apart.

    Args:
        windows: In any order; they may overlap.

    Returns:
        A clip for each window, with no samples where it asks for none; None where it is outside of the stream.
    """
    order = sorted(range(len(windows)), key=lambda number: windows[number].start)
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in windows]
    starts: dict[int, int] = {}
    waiting, active = order[::-1], list[int]()
    went_to: int | None = None
    while waiting or active:
        if not active and waiting[-1] != went_to:
            went_to = waiting[-1]
            reader.go_to(windows[went_to].start)
        block = reader.read()
        if block is None:
            break
        start, samples = block
        end = start + samples.shape[1]
        while waiting and windows[waiting[-1]].start < end:
            active.append(waiting.pop())
        for number in active:
            window = windows[number]
            part = samples[:, max(window.start - start, 0) : max(int(min(window.end, end)) - start, 0)]
            if number not in starts and (part.shape[1] or window.start == window.end):
                starts[number] = max(window.start, start)
            if number in starts:
                parts[number].append(part)
        active = [number for number in active if end < windows[number].end]
    return [
        AudioClip(samples=_joined(found), start=starts[number]) if number in starts else None
        for number, found in enumerate(parts)
    ]


def _joined(parts: Sequence[npt.NDArray[Any]]) -> Tensor:
    if len({part.shape[0] for part in parts}) > 1:
        raise ValueError("the audio changes its number of channels")
    return torch.from_numpy(np.concatenate(parts, axis=1))


def _samples(frame: AudioFrame) -> npt.NDArray[Any]:
    """Give the samples of a block as (channels, samples)."""
    values: npt.NDArray[Any] = frame.to_ndarray()
    if frame.format.is_packed and values.shape[0] == 1:
        return values.reshape(-1, len(frame.layout.channels)).T
    return values
