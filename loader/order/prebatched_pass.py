"""A pass whose micro-batches are known ahead: whole ones, and at most a single short one at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..cached_property import cached_property
from .finite_pass import FinitePass
from .leaf_shuffle import Integers
from .sequential_pass import SequentialPass
from .stream_order import Located, check_lane, check_range

__all__ = ["DealtPass"]


@dataclass(frozen=True)
class DealtPass:
    """A pass dealt in micro-batches, for pipelines whose stages neither drop nor regroup samples.

    Micro-batch m is the ``(m div L)``-th of lane ``m mod L``; a lane's stream is its micro-batches one after another.
    A shuffled pass: lanes give full micro-batches in turn until the shortest runs out; what is left in all of them is
    joined in lane order and cut again. A sequential pass: micro-batch m holds samples
    ``[m · batch_size, (m + 1) · batch_size)`` of the joined leaves, whatever the number of lanes.

    Args:
        inner: The pass.
        batch_size: Samples of a micro-batch.

    Raises:
        ValueError: The batch size is below 1.

    >>> order = DealtPass(SequentialPass((5,), lanes=2), batch_size=2)
    >>> order.batches, order.lane(0).length, order.lane(0).locate(0, 3)[2].tolist()
    (3, 3, [0, 1, 4])
    """

    inner: FinitePass | SequentialPass
    batch_size: int

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"expected a batch size of at least 1, found {self.batch_size}")

    @property
    def lanes(self) -> int:
        """L, the lanes of the run."""
        return self.inner.lanes

    @property
    def batches(self) -> int:
        """How many micro-batches the pass has."""
        return -(-self._parts.samples // self.batch_size)

    def lane(self, number: int) -> _DealtLane:
        """Give the stream of a lane."""
        check_lane(number, self.lanes)
        batches = max(0, -(-(self.batches - number) // self.lanes))
        has_last = batches > 0 and (self.batches - 1) % self.lanes == number
        missing = self.batches * self.batch_size - self._parts.samples if has_last else 0
        return _DealtLane(self, self._parts, number, length=batches * self.batch_size - missing)

    @cached_property
    def _parts(self) -> _Parts:
        if isinstance(self.inner, SequentialPass):
            return _Parts(sum(self.inner.samples), 0, self.inner)
        lengths = self.inner.lane_lengths()
        own = int(lengths.min()) // self.batch_size * self.batch_size
        return _Parts(int(lengths.sum()), own, _LeftOver(self.inner, lengths, own))


class _Joined(Protocol):
    """Samples of all lanes in one order."""

    def locate(self, place: Integers) -> Located:
        """Give the samples at ascending places, shape (m,)."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a pass consists of.

    Attributes:
        samples: All its samples.
        own: The samples that each lane deals from its own stream, in whole micro-batches.
        rest: The others.
    """

    samples: int
    own: int
    rest: _Joined


class _DealtLane:
    """The micro-batches of a lane: at first of its own samples, then its share of the rest."""

    def __init__(self, order: DealtPass, parts: _Parts, number: int, *, length: int) -> None:
        self.length = length
        self._order = order
        self._parts = parts
        self._number = number
        self._stream = order.inner.lane(number)

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        own = self._parts.own
        if stop <= own:
            return self._stream.locate(start, stop)
        batch, place = np.divmod(np.arange(max(start, own), stop) - own, self._order.batch_size)
        rest = self._parts.rest.locate((batch * self._order.lanes + self._number) * self._order.batch_size + place)
        return rest if start >= own else _join([self._stream.locate(start, own), rest])


class _LeftOver:
    """What lanes have left when so many samples of each are taken, joined in lane order."""

    def __init__(self, inner: FinitePass, lengths: Integers, taken: int) -> None:
        self._inner = inner
        self._taken = taken
        self._ends = np.cumsum(lengths - taken)
        self._starts = self._ends - (lengths - taken)

    def locate(self, place: Integers) -> Located:
        lane = np.searchsorted(self._ends, place, side="right")
        position = place - self._starts[lane] + self._taken
        pieces = []
        for number in np.unique(lane).tolist():
            mine = position[lane == number]
            # There may be gaps, where other lanes' micro-batches lie.
            first = int(mine[0])
            leaf, epoch, sample = self._inner.lane(number).locate(first, int(mine[-1]) + 1)
            pieces.append((leaf[mine - first], epoch[mine - first], sample[mine - first]))
        return _join(pieces)


def _join(pieces: list[Located]) -> Located:
    nothing = np.empty(0, dtype=np.int64)
    leaf, epoch, sample = (np.concatenate(parts) for parts in zip((nothing,) * 3, *pieces, strict=True))
    return leaf, epoch, sample
