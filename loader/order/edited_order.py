"""An endless order whose sources or weights changed while it ran: each source that stays continues its own stream.

A lane's stream is a sequence of stretches, one for each mix. Each stretch is blended from its own start, and consumes
the stream of each of its sources from where the stretches before it ended. That place is a count, which the blend
computes, so a position costs the same after any number of changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..errors import StateError
from .blend import BlendOrder, quantise_weights
from .mixing import mix
from .source_order import SourceOrder, SourceOrders
from .stream_order import Located, check_lane, check_range

__all__ = ["GONE", "EditedLane", "EditedOrder", "LaneMixes", "Mix", "MixHistory"]

GONE = -1
"""The source of earlier positions whose source is not in the last mix."""

_MIX = 8  # separates the blend of each mix from others


@dataclass(frozen=True, slots=True)
class Mix:
    """The sources of a stretch, and their shares.

    Attributes:
        origins: For each source, the number that identifies it in all mixes of the run, and seeds its order.
        weights: For each source, its share of the positions: above 0, in any unit.
    """

    origins: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.origins or len(self.origins) != len(self.weights) or len({*self.origins}) < len(self.origins):
            raise ValueError(f"expected different origins, and a weight for each, found {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixHistory:
    """The mixes of a run before its present one.

    Attributes:
        earlier: The mixes, the first one first.
        origins: For each source of the present mix, its number in all mixes.
        ends: For each earlier mix, the position at which it ended: lane → position, for the lanes that had begun.
        batches: For each earlier mix, the next micro-batch of the run at its end.
    """

    earlier: tuple[Mix, ...]
    origins: tuple[int, ...]
    ends: tuple[Mapping[int, int], ...]
    batches: tuple[int, ...]

    def mixes(self, weights: Sequence[float]) -> tuple[Mix, ...]:
        """Return all mixes; the weights are those of the present one."""
        return (*self.earlier, Mix(self.origins, tuple(weights)))

    def ends_of(self, lane: int) -> tuple[int, ...]:
        """Return the positions of a lane at which the earlier mixes ended.

        Raises:
            StateError: They are not known here.
        """
        found = []
        for positions, batch in zip(self.ends, self.batches, strict=True):
            if lane not in positions and lane < batch:
                raise StateError(
                    f"the mix of datasets changed, and the position of lane {lane} at that change is not known on "
                    "this rank",
                    hint="restore the states of all ranks by restore_state_global()",
                )
            found.append(positions.get(lane, 0))
        return tuple(found)


@dataclass(frozen=True)
class EditedOrder:
    """Sources that repeat without end, blended by weights that changed at some positions.

    Args:
        sources: Those of the last mix, with the seeds of their origins.
        mixes: The first one first.
        lanes: Number of lanes of the run.
        seed: Seed of the run.

    Raises:
        ValueError: The last mix has another number of sources.

    >>> source = SourceOrder(samples=6, slice_length=2)
    >>> order = EditedOrder((source,), (Mix((0, 1), (1, 1)), Mix((0,), (1,))), lanes=1, seed=0)
    >>> order.lane(0, ends=(8,)).locate(8, 12)[0].tolist()
    [0, 0, 0, 0]
    """

    sources: tuple[SourceOrder, ...]
    mixes: tuple[Mix, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.mixes[-1].origins):
            raise ValueError(f"expected {len(self.mixes[-1].origins)} sources, found {len(self.sources)}")

    def lane(self, number: int, ends: Sequence[int]) -> EditedLane:
        """Return the stream of a lane.

        Args:
            number: The lane.
            ends: The position at which each mix but the last one ended in this lane.

        Raises:
            ValueError: The ends are not ascending positions, one for each earlier mix.
        """
        check_lane(number, self.lanes)
        return EditedLane(LaneMixes(self.mixes, lane=number, seed=self.seed, ends=ends), self._streams)

    @cached_property
    def _streams(self) -> SourceOrders:
        return SourceOrders(self.sources, self.lanes)


class LaneMixes:
    """The stretches of one lane, and the samples that they consume of each source.

    Args:
        mixes: The first one first.
        lane: The lane.
        seed: Seed of the run.
        ends: The position at which each mix but the last one ended.

    Raises:
        ValueError: The ends are not ascending positions, one for each earlier mix.
    """

    def __init__(self, mixes: Sequence[Mix], *, lane: int, seed: int, ends: Sequence[int]) -> None:
        starts = [0, *ends]
        if len(starts) != len(mixes) or starts != sorted(starts):
            raise ValueError(f"expected {len(mixes) - 1} ascending positions, found {list(ends)}")
        self.number = lane
        self.origins, row = np.unique(np.concatenate([one.origins for one in mixes]), return_inverse=True)
        rows = np.split(row, np.cumsum([len(one.origins) for one in mixes])[:-1])
        last = np.full(len(self.origins), GONE)  # for each origin, its source in the last mix
        last[rows[-1]] = np.arange(len(rows[-1]))
        consumed = np.zeros(len(self.origins), np.int64)
        self.stretches: list[_Stretch] = []
        for turn, (one, own) in enumerate(zip(mixes, rows, strict=True)):
            blend = None
            if len(own) > 1:
                blend_seed = seed if turn == 0 else int(mix(seed, _MIX, turn))
                blend = BlendOrder(quantise_weights(one.weights), lane=lane, seed=blend_seed)
            stretch = _Stretch(starts[turn], blend, consumed[own], last[own])
            self.stretches.append(stretch)
            if turn < len(ends):
                consumed[own] += stretch.counts(ends[turn])
        self._consumed, self._last = consumed, rows[-1]

    def consumed(self, position: int) -> dict[int, int]:
        """Return for each origin its number of samples before a position of the last stretch."""
        found = self._consumed.copy()
        found[self._last] += self.stretches[-1].counts(position)
        return dict(zip(self.origins.tolist(), found.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The positions of one mix.

    Attributes:
        start: The first one.
        blend: Its blend; None for a single source.
        offset: For each source, the position in its stream at which it continues.
        last: For each source, its number in the last mix, or ``GONE``.
    """

    start: int
    blend: BlendOrder | None
    offset: IntArray
    last: IntArray

    def counts(self, stop: int) -> IntArray:
        """Return the number of samples of each source before a position."""
        length = stop - self.start
        return np.array([length]) if self.blend is None else self.blend.counts(length)

    def locate(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """Return the sources, as numbers in the last mix, and the positions in their streams."""
        start, stop = start - self.start, stop - self.start
        if self.blend is None:
            source, position = np.zeros(stop - start, np.int64), np.arange(start, stop)
        else:
            source, position = self.blend.locate(start, stop)
        return self.last[source], position + self.offset[source]


class EditedLane:
    """The stream of a lane: stretches of several mixes, the last one without end.

    Args:
        mixes: The stretches.
        streams: The streams of the sources of the last mix.
    """

    length = None

    def __init__(self, mixes: LaneMixes, streams: SourceOrders) -> None:
        self._number = mixes.number
        self._stretches = mixes.stretches
        self._streams = streams

    def locate(self, start: int, stop: int) -> Located:
        """Return the samples at the positions ``[start, stop)``; a source that is ``GONE`` has sample 0.

        Raises:
            ValueError: Not ``0 <= start <= stop``.
        """
        check_range(start, stop, None)
        last = self._stretches[-1]
        if start >= last.start:
            source, position = last.locate(start, stop)
            return source, *self._streams.locate(source, self._number, position)
        parts = [stretch.locate(low, high) for stretch, low, high in self._cut(start, stop)]
        source, position = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        is_gone = source == GONE
        located = self._streams.locate(np.where(is_gone, 0, source), self._number, np.where(is_gone, 0, position))
        epoch, sample = (np.where(is_gone, 0, column) for column in located)
        return source, epoch, sample

    def _cut(self, start: int, stop: int) -> Iterator[tuple[_Stretch, int, int]]:
        """Yield the parts of a range; one of them may be empty."""
        ends = [*(stretch.start for stretch in self._stretches[1:]), max(stop, self._stretches[-1].start)]
        for stretch, end in zip(self._stretches, ends, strict=True):
            low, high = max(start, stretch.start), min(stop, end)
            if low < high or low == start == high:
                yield stretch, low, high
