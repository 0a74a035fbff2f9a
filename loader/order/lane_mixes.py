"""The mixes of one lane: which source is at each position, and the place in its stream.

A lane's stream is a sequence of stretches: one for each mix, and one for each time at which the schedule of a mix
changes its weights. Each stretch is blended from its own start, and consumes the stream of each of its sources from
where the stretches before it ended. That place is a count, which is computed, so a position costs the same after any
number of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..errors import plural
from .blend import BlendOrder, quantise_weights
from .permutation import Words, mix

MAX_SCHEDULED_SAMPLES = 1 << 39
"""Limit of the samples of a run at which weights change; products of larger ones would overflow."""

_TOTAL = 1 << 23
_GOLDEN = 0x9E3779B97F4A7C15  # multiples of it are spread evenly over the words


@dataclass(frozen=True)
class WeightSchedule:
    """The weights of sources in the stretches of a run.

    Attributes:
        starts: The first sample of each stretch, counted over all lanes from the beginning of the run: the first is 0,
            and they ascend.
        weights: For each stretch, a weight for each source: at least 0, and one of them above 0.
        deal: Samples of a micro-batch. The samples of a run are numbered micro-batch by micro-batch, which the lanes
            make in turn.

    Raises:
        ValueError: The starts do not ascend from 0, or a stretch does not have weights.
    """

    starts: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]
    deal: int = 1

    def __post_init__(self) -> None:
        starts = list(self.starts)
        if not starts or starts[0] or starts != sorted({*starts}) or starts[-1] > MAX_SCHEDULED_SAMPLES:
            raise ValueError(
                f"expected starts that ascend from 0 to at most {MAX_SCHEDULED_SAMPLES}, found {starts[:9]}"
            )
        if len(self.weights) != len(starts) or len({*map(len, self.weights)}) > 1 or self.deal < 1:
            raise ValueError(
                f"expected weights of the same sources and a deal of at least 1 in stretches: {len(starts)}, "
                f"found {len(self.weights)}, and a deal of {self.deal}"
            )

    def lane_starts(self, lane: int, lanes: int) -> IntArray:
        """Return the position in a lane at which each stretch starts; the sum over all lanes is :attr:`starts`.

        >>> WeightSchedule((0, 7), ((1.0, 1.0), (1.0, 0.0)), deal=2).lane_starts(1, 3).tolist()
        [0, 2]
        """
        batch, rest = np.divmod(np.array(self.starts, np.int64), self.deal)
        before, next_lane = np.divmod(batch, lanes)
        return (before + (lane < next_lane)) * self.deal + np.where(lane == next_lane, rest, 0)

    @cached_property
    def counts(self) -> IntArray:
        """The weights as integers in proportion; shape (stretches, sources)."""
        return np.array([quantise_scheduled_weights(weights, total=_TOTAL) for weights in self.weights])


def quantise_scheduled_weights(weights: Sequence[float], *, total: int | None = None) -> IntArray:
    """Turn weights into counts as :func:`quantise_weights` does; a weight of 0 stays 0.

    Raises:
        ValueError: A weight is below 0 or not finite, or all are 0.
    """
    given = np.asarray(weights, np.float64)
    counts = np.zeros(len(given), np.int64)
    is_used = given != 0
    if not is_used.any():
        raise ValueError(f"expected a weight above 0, found {list(weights)}")
    used = given[is_used].tolist()
    counts[is_used] = quantise_weights(used) if total is None else quantise_weights(used, total=total)
    return counts


def divide_stretches(counts: IntArray, lengths: IntArray, *, lane: int, words: Words) -> IntArray:
    """Divide the positions of stretches among sources: each gets its share, rounded up or down.

    The sum of each row is the length of its stretch. Lanes round at other places, so that a source whose share of a
    lane is less than a sample comes in some of them.

    Args:
        counts: The weights; shape (stretches, sources).
        words: A hash for each stretch.

    Returns:
        Shape (stretches, sources).
    """
    bounds = np.cumsum(counts, axis=1)
    total = bounds[:, -1:]
    word = words + np.array([lane * _GOLDEN & 0xFFFFFFFFFFFFFFFF], np.uint64)
    shift = (word >> np.uint64(32)).astype(np.int64)[:, None] * total >> 32  # in [0, total)
    edges = (bounds * lengths[:, None] + shift) // total
    return np.diff(edges, axis=1, prepend=0)


GONE = -1
"""The source of earlier positions whose source is not in the last mix."""

_MIX, _STRETCH, _ROUNDING = 8, 9, 10  # purposes of random numbers: the blends of mixes and stretches, their rounding


@dataclass(frozen=True, slots=True)
class Mix:
    """The sources of a stretch, and their shares.

    Attributes:
        origins: For each source, the number that identifies it in all mixes of the run, and seeds its order.
        weights: For each source, its share of the positions: above 0, in any unit.
        schedule: Weights that change during the run, instead of ``weights``; None if they do not.
    """

    origins: tuple[int, ...]
    weights: tuple[float, ...]
    schedule: WeightSchedule | None = None

    def __post_init__(self) -> None:
        if not self.origins or len(self.origins) != len(self.weights) or len({*self.origins}) < len(self.origins):
            raise ValueError(f"expected different origins, and a weight for each, found {self}")


def stretch_seed(seed: int, stretch: int) -> int:
    """Return the seed of the blend of a stretch of a schedule, from the seed of its mix."""
    return int(mix(seed, _STRETCH, stretch))


def rounding_words(seed: int, numbers: IntArray) -> Words:
    """Return the hashes by which the lanes round the shares of stretches of a schedule; shape of ``numbers``."""
    return mix(seed, _ROUNDING, numbers)


class LaneMixes:
    """The mixes of one lane, and the samples that they consume of each source.

    Raises:
        ValueError: The ends are not ascending positions, one for each earlier mix.
    """

    def __init__(self, mixes: Sequence[Mix], *, lane: int, lanes: int, seed: int, ends: Sequence[int]) -> None:
        starts = [0, *ends]
        if len(starts) != len(mixes) or starts != sorted(starts):
            raise ValueError(f"expected {plural(len(mixes) - 1, 'ascending position')}, found {list(ends)}")
        self.number = lane
        # A dataset of several mixes has one origin: its stream continues where the mix before left it.
        self.origins, row = np.unique(np.concatenate([part_mix.origins for part_mix in mixes]), return_inverse=True)
        rows = np.split(row, np.cumsum([len(part_mix.origins) for part_mix in mixes])[:-1])
        last = np.full(len(self.origins), GONE)  # for each origin, its source in the last mix
        last[rows[-1]] = np.arange(len(rows[-1]))
        # Open the mixes in their order, each from the positions that the earlier ones consumed.
        consumed = np.zeros(len(self.origins), np.int64)
        self.parts: list[LaneMix] = []
        for turn, (part_mix, rows_of_mix) in enumerate(zip(mixes, rows, strict=True)):
            blend_seed = seed if turn == 0 else int(mix(seed, _MIX, turn))
            part = LaneMix(
                part_mix,
                starts[turn],
                consumed[rows_of_mix],
                last[rows_of_mix],
                lane=lane,
                lanes=lanes,
                seed=blend_seed,
            )
            self.parts.append(part)
            if turn < len(ends):
                consumed[rows_of_mix] += part.counts(ends[turn])
        self._consumed, self._last = consumed, rows[-1]

    def consumed(self, position: int) -> dict[int, int]:
        """Return for each origin its number of samples before a position of the last mix."""
        counts = self._consumed.copy()
        counts[self._last] += self.parts[-1].counts(position)
        return dict(zip(self.origins.tolist(), counts.tolist(), strict=True))

    def locate(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """Return the sources, as numbers in the last mix or ``GONE``, and the positions in their streams."""
        # Most ranges begin in the last mix; states may name positions in earlier ones.
        if start >= self.parts[-1].start:
            return self.parts[-1].locate(start, stop)
        located = []
        ends = [*(part.start for part in self.parts[1:]), max(stop, self.parts[-1].start)]
        for part, end in zip(self.parts, ends, strict=True):
            low, high = max(start, part.start), min(stop, end)
            if low <= high:  # an empty range has a place, too
                located.append(part.locate(low, high))
        source, position = (np.concatenate(columns) for columns in zip(*located, strict=True))
        return source, np.where(source == GONE, 0, position)


class LaneMix:
    """The positions of one mix in a lane: a stretch, or one for each time at which its schedule changes the weights.

    Args:
        offset: For each source, the position in its stream at which the mix continues it.
        last: For each source, its number in the last mix, or ``GONE``.
    """

    def __init__(
        self, mix: Mix, start: int, offset: IntArray, last: IntArray, *, lane: int, lanes: int, seed: int
    ) -> None:
        self.start = start
        self._mix = mix
        self._offset = offset
        self._last = last
        self._lane = lane
        self._seed = seed
        self._starts = np.array([start])
        self._first = 0  # the number in the schedule of the first stretch here
        if mix.schedule is not None:
            starts = mix.schedule.lane_starts(lane, lanes)
            self._first = int(starts.searchsorted(start, side="right")) - 1
            self._starts = np.concatenate([self._starts, starts[self._first + 1 :]])
        self._divided = 0, offset  # a stretch, and the position of each source's stream at its start
        self._stretch = self._open(0)

    def counts(self, stop: int) -> IntArray:
        """Return the number of samples of each source of the mix before a position."""
        stretch = self._stretch_at(stop)
        return stretch.offset - self._offset + stretch.counts(stop)

    def locate(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """Return the sources, as numbers in the last mix, and the positions in their streams."""
        parts: list[tuple[IntArray, ...]] = []
        while True:
            stretch = self._stretch_at(start)
            end = stop if stretch.end is None else min(stop, stretch.end)
            parts.append(stretch.locate(start, end))
            if end == stop:
                break
            start = end
        if len(parts) > 1:
            parts = [tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))]
        source, position = parts[0]
        return self._last[source], position

    def _stretch_at(self, position: int) -> _Stretch:
        stretch = self._stretch
        if not (stretch.start <= position and (stretch.end is None or position < stretch.end)):
            stretch = self._stretch = self._open(int(self._starts.searchsorted(position, side="right")) - 1)
        return stretch

    def _open(self, row: int) -> _Stretch:
        start, end = int(self._starts[row]), None
        schedule, blend = self._mix.schedule, None
        # A single source needs no blend.
        if len(self._offset) > 1:
            counts, seed = None, self._seed
            if schedule is not None:
                stretch_number = self._first + row
                seed = stretch_seed(seed, stretch_number)
                # A stretch that ends blends its exact counts; the last one blends weights, as it has no length.
                if row + 1 < len(self._starts):
                    end = int(self._starts[row + 1])
                    counts = self._divide(schedule, row, row + 1)[0]
                else:
                    counts = quantise_scheduled_weights(schedule.weights[stretch_number])
            if counts is None:
                counts = quantise_weights(self._mix.weights)
            blend = BlendOrder(counts, lane=self._lane, seed=seed)
        return _Stretch(start, end, blend, self._offset_of(row))

    def _offset_of(self, row: int) -> IntArray:
        """Return the position of each source's stream at the start of a stretch."""
        schedule = self._mix.schedule
        if schedule is None or len(self._offset) == 1:
            return self._offset
        known, offset = self._divided
        if known > row:
            known, offset = 0, self._offset
        offsets: IntArray = offset + self._divide(schedule, known, row).sum(axis=0)
        self._divided = row, offsets
        return offsets

    def _divide(self, schedule: WeightSchedule, first: int, stop: int) -> IntArray:
        """Return the number of samples of each source in some stretches that end; shape (stretches, sources)."""
        rows = np.arange(first, stop)
        numbers = self._first + rows
        return divide_stretches(
            schedule.counts[numbers],
            self._starts[rows + 1] - self._starts[rows],
            lane=self._lane,
            words=rounding_words(self._seed, numbers),
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The positions of one blend."""

    start: int  # the first one
    end: int | None  # the one after the last; None if it has no end
    blend: BlendOrder | None  # the blend; None for a single source
    offset: IntArray  # for each source, the position in its stream at which it continues

    def counts(self, stop: int) -> IntArray:
        """Return the number of samples of each source before a position."""
        length = stop - self.start
        return np.array([length]) if self.blend is None else self.blend.counts(length)

    def locate(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        start, stop = start - self.start, stop - self.start
        if self.blend is None:
            source, position = np.zeros(stop - start, np.int64), np.arange(start, stop)
        else:
            source, position = self.blend.locate(start, stop)
        return source, position + self.offset[source]
