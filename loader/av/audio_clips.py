"""Decode clips of audio, exact to the sample; if the container can seek, from shortly before each clip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import plural
from ..format.media.av_container import audio_stream, is_indexed
from ..format.media.import_av import import_av
from ..lazy_torch import torch
from .av_data import MediaReader

if TYPE_CHECKING:
    from av import AudioFrame
    from av.container import InputContainer

_PREROLL_S = 0.5  # lossy codecs need some blocks before the requested one: MP3 up to ten, Opus 80 ms
_MIN_SEEK_S = 2  # over shorter distances, decoding is faster than seeking
_MAX_DRIFT_S = 0.01  # larger differences between the stated and the counted time of a block are gaps

_NO_END = 1 << 62


SampleWindow = tuple[int, float]
"""The samples ``[start, end)``, counted from the stream's first one; the end may be infinite."""


class AudioReader(MediaReader):
    """A reader of the first audio stream, block by block; places are sample numbers.

    ``start`` is the start of the stream in seconds of the file's clock, ``rate`` its number of samples a second.
    """

    def _attach(self, container: InputContainer) -> None:
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
        # The last block of AAC in MP4 is longer than the audible part that the container states.
        trims = is_indexed(container) and stream.duration is not None
        self._end = round(stream.duration * self._samples_per_tick) if trims and stream.duration else _NO_END
        self._rounding = self._max_rounding()
        self._frames: Iterator[AudioFrame] = iter(container.decode(stream))
        self._block: tuple[int, int] | None = None
        if self._samples_per_tick > 1:
            self._measure_blocks()
        self.position = 0

    def _measure_blocks(self) -> None:
        """Measure the sizes of blocks, for containers with a clock that is coarser than a sample.

        All blocks of such streams have one size, but the first, from which the encoder's padding is cut.
        """
        ahead = list(islice(self._frames, 3))
        self._frames = chain(ahead, self._frames)
        if len(ahead) == 3 and ahead[1].samples == ahead[2].samples:
            self._block = ahead[0].samples, ahead[1].samples

    def read(self) -> tuple[int, npt.NDArray[Any]] | None:
        """Return the number of the next block's first sample, and its samples (channels, samples); None at the end."""
        frame = next(self._frames, None)
        if frame is None:
            return None
        # A gap in the file moves the position; smaller differences are rounded times.
        stated = self._stated_position(frame)
        if stated is not None and abs(stated - self.position) > _MAX_DRIFT_S * self.rate:
            self.position = stated
        start = self.position
        self.position = start + frame.samples
        samples = _samples(frame)
        if self.position > self._end - self._rounding:
            samples = samples[:, : self._audible(frame, start)]
        return start, samples

    def _audible(self, frame: AudioFrame, start: int) -> int:
        """Return the number of samples of a block near the end of the stream that are not the encoder's padding."""
        stated = min(round((frame.duration or 0) * self._samples_per_tick) or frame.samples, frame.samples)
        if abs(start + stated - self._end) <= self._rounding:
            return stated  # the duration of the last block is exact
        return max(min(self._end - start, frame.samples), 0)

    def _max_rounding(self) -> int:
        """Return the largest difference of the stated end from the true one, in samples.

        Most programs write the end of a stream into MP4 files in milliseconds; an end between two is exact.
        """
        milliseconds = round(self._end * 1000 / self.rate)
        is_rounded = self._end != _NO_END and abs(milliseconds * self.rate / 1000 - self._end) <= 0.5
        return math.ceil(self.rate / 1000) if is_rounded else 0

    def _stated_position(self, frame: AudioFrame) -> int | None:
        return None if frame.pts is None else round((frame.pts - self._first_tick) * self._samples_per_tick)

    def _is_worth_a_seek(self, position: int) -> bool:
        return position - self.position > _MIN_SEEK_S * self.rate

    def _seek(self, position: int) -> bool:
        # Decode from a little before the position, and find out where the decoder really is.
        av = import_av()
        start = position - round(_PREROLL_S * self.rate)  # samples are then the same as if all before were decoded
        target = self._first_tick + int(start / self._samples_per_tick)
        try:
            self._container.seek(target, stream=self.stream)
            frames = iter(self._container.decode(self.stream))
            first = next(frames, None)
        except av.FFmpegError:  # the format cannot seek, or the decoder starts inside a group
            return False
        # Without a usable time, or one too close to the target, the samples might differ.
        stated = None if first is None else self._stated_position(first)
        if first is None or stated is None or not 0 < stated <= start + _PREROLL_S * self.rate / 2:
            return False
        # A coarse clock rounds the time: take the boundary of blocks that is nearest to it.
        if self._samples_per_tick > 1:
            if self._block is None:
                return False
            lead, size = self._block
            stated = lead + round((stated - lead) / size) * size
        self._frames = chain([first], frames)
        self.position = stated
        return True


def ranges_to_windows(ranges: Sequence[tuple[float, float]], lead: Fraction | None, rate: int) -> list[SampleWindow]:
    """Convert ranges to samples of a stream.

    A range in seconds begins at the sample nearest to its start, and has the number of samples nearest to its length:
    ranges of one length have one number of samples.

    Args:
        ranges: Ranges in seconds; in samples if ``lead`` is None.
        lead: Start of the stream, in seconds of the clock of the ranges.
        rate: Number of samples a second.
    """
    if lead is None:
        return [(round(start), end if math.isinf(end) else round(end)) for start, end in ranges]
    windows: list[SampleWindow] = []
    for start, end in ranges:
        first = _nearest((start - float(lead)) * rate)
        windows.append((first, end if math.isinf(end) else first + _nearest((end - start) * rate)))
    return windows


def _nearest(value: float) -> int:
    """Round to the nearest integer, halves upwards: unlike with round(), all steps have one length."""
    return math.floor(value + 0.5)


def decode_audio_clips(
    reader: AudioReader, windows: Sequence[SampleWindow], max_samples: int | None = None
) -> list[tuple[torch.Tensor, int]]:
    """Decode the samples of windows, each once unless windows are far apart.

    Args:
        windows: Windows in any order; they may overlap.
        max_samples: Limit of the samples of all channels and clips; None: no limit.

    Returns:
        A clip of shape (channels, samples) for each window that is inside of the stream, and the number of its first
        sample; without samples if the window is empty.
    """
    # Decode from the start of each window, in the order of these, while one waits or is active.
    total = 0
    order = sorted(range(len(windows)), key=lambda clip: windows[clip][0])
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in windows]
    starts: dict[int, int] = {}
    waiting, active = order[::-1], list[int]()
    target: int | None = None
    while waiting or active:
        if not active and waiting[-1] != target:
            target = waiting[-1]
            reader.advance_to(windows[target][0])
        block = reader.read()
        if block is None:
            break
        start, samples = block
        end = start + samples.shape[1]
        while waiting and windows[waiting[-1]][0] < end:
            active.append(waiting.pop())
        # Give the block to the windows that it overlaps.
        for clip in active:
            first, stop = windows[clip]
            part = samples[:, max(first - start, 0) : max(int(min(stop, end)) - start, 0)]
            if clip not in starts and (part.shape[1] or first == stop):
                starts[clip] = max(first, start)
            if clip in starts:
                parts[clip].append(part)
                total += part.size
        if max_samples is not None and total > max_samples:
            raise ValueError(
                f"the clips have {plural(total, 'sample')} of audio or more, the limit is {max_samples:,}: request"
                " shorter clips, or raise AVDecoder.max_audio_samples"
            )
        active = [clip for clip in active if end < windows[clip][1]]
    return [(_concatenate(blocks), starts[clip]) for clip, blocks in enumerate(parts) if clip in starts]


def _concatenate(parts: Sequence[npt.NDArray[Any]]) -> torch.Tensor:
    if len({part.shape[0] for part in parts}) > 1:
        raise ValueError("the audio changes its number of channels")
    return torch.from_numpy(np.concatenate(parts, axis=1))


def _samples(frame: AudioFrame) -> npt.NDArray[Any]:
    """Return the samples of a block as (channels, samples)."""
    values: npt.NDArray[Any] = frame.to_ndarray()
    if frame.format.is_packed and values.shape[0] == 1:
        return values.reshape(-1, len(frame.layout.channels)).T
    return values
