"""A pass whose micro-batches are known ahead: full ones, and at most one short one at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .finite_pass import FinitePass
from .stream_order import Located, RepeatedOrder, check_lane, check_range


@dataclass(frozen=True)
class PrebatchedPass:
    """A pass in fixed micro-batches, for pipelines whose stages neither drop nor regroup samples.

    Micro-batch m is the ``(m div L)``-th of lane ``m mod L``; a lane's stream is its micro-batches, concatenated.
    In a shuffled pass, the lanes give full micro-batches in turn until the shortest lane has no more; the samples that
    remain in all lanes are concatenated in lane order and cut into micro-batches. In a sequential pass, micro-batch m
    has the samples ``[m · batch_size, (m + 1) · batch_size)`` of the concatenated sources, for any number of lanes.

    Args:
        inner: The pass.
        batch_size: Number of samples of a micro-batch.

    Raises:
        ValueError: The batch size is below 1.

    >>> order = PrebatchedPass(SequentialPass((5,), lanes=2), batch_size=2)
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
        """Number of lanes of the run, L."""
        return self.inner.lanes

    @property
    def batches(self) -> int:
        """Number of micro-batches of the pass."""
        return -(-self._layout.samples // self.batch_size)

    def lane(self, number: int) -> _PrebatchedLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        batches = max(0, -(-(self.batches - number) // self.lanes))
        has_last = batches > 0 and (self.batches - 1) % self.lanes == number
        missing = self.batches * self.batch_size - self._layout.samples if has_last else 0
        return _PrebatchedLane(self, self._layout, number, length=batches * self.batch_size - missing)

    @cached_property
    def _layout(self) -> _Layout:
        if isinstance(self.inner, SequentialPass):
            return _Layout(sum(self.inner.samples), 0, self.inner)
        lengths = self.inner.lane_lengths()
        own_samples = int(lengths.min()) // self.batch_size * self.batch_size
        return _Layout(int(lengths.sum()), own_samples, _Remainder(self.inner, lengths, own_samples))


@dataclass(frozen=True, slots=True)
class _Layout:
    """The two sections of a pass.

    Attributes:
        samples: Number of samples of the pass.
        own_samples: Number of samples that each lane takes from its own stream, in full micro-batches.
        rest: The samples that remain in all lanes.
    """

    samples: int
    own_samples: int
    rest: SequentialPass | _Remainder


class _PrebatchedLane:
    """The micro-batches of a lane: first those of its own samples, then its share of the rest."""

    def __init__(self, order: PrebatchedPass, parts: _Layout, number: int, *, length: int) -> None:
        self.length = length
        self._order = order
        self._layout = parts
        self._number = number
        self._stream = order.inner.lane(number)

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        own_samples = self._layout.own_samples
        if stop <= own_samples:
            return self._stream.locate(start, stop)
        batch, place = np.divmod(np.arange(max(start, own_samples), stop) - own_samples, self._order.batch_size)
        rest = self._layout.rest.locate((batch * self._order.lanes + self._number) * self._order.batch_size + place)
        return rest if start >= own_samples else _concatenate([self._stream.locate(start, own_samples), rest])


class _Remainder:
    """The samples that remain after so many are taken from each lane, concatenated in lane order."""

    def __init__(self, inner: FinitePass, lengths: IntArray, taken: int) -> None:
        self._inner = inner
        self._taken = taken
        self._ends = np.cumsum(lengths - taken)
        self._starts = self._ends - (lengths - taken)

    def locate(self, place: IntArray) -> Located:
        lane = np.searchsorted(self._ends, place, side="right")
        position = place - self._starts[lane] + self._taken
        pieces = []
        for number in np.unique(lane).tolist():
            mine = position[lane == number]
            # Micro-batches of other lanes make gaps.
            first = int(mine[0])
            source, epoch, sample = self._inner.lane(number).locate(first, int(mine[-1]) + 1)
            pieces.append((source[mine - first], epoch[mine - first], sample[mine - first]))
        return _concatenate(pieces)


def _concatenate(pieces: list[Located]) -> Located:
    nothing = np.empty(0, dtype=np.int64)
    source, epoch, sample = (np.concatenate(parts) for parts in zip((nothing,) * 3, *pieces, strict=True))
    return source, epoch, sample


def samples_of_batch(order: RepeatedOrder | PrebatchedPass, batch: int, batch_size: int) -> Located:
    """Return the samples of a micro-batch of a pipeline whose stages neither drop nor regroup samples.

    Args:
        order: The order of the run. In a pass that is not prebatched, micro-batches are not known ahead.
        batch: Number of the micro-batch in the whole run.
        batch_size: Number of samples of a micro-batch; for a pass, the pass's own.

    Returns:
        The sources, epochs and sample numbers, each of shape (batch_size,); shorter for the last batch of a pass.

    Raises:
        ValueError: There is no such micro-batch, or the pass has micro-batches of another size.

    >>> from loader.order import SequentialPass
    >>> source, epoch, sample = samples_of_batch(PrebatchedPass(SequentialPass((5, 3), lanes=2), batch_size=3), 1, 3)
    >>> source.tolist(), sample.tolist()
    ([0, 0, 1], [3, 4, 0])
    """
    if isinstance(order, PrebatchedPass) and order.batch_size != batch_size:
        raise ValueError(f"expected the pass's batch size of {order.batch_size}, found {batch_size}")
    if batch < 0 or (order.batches is not None and batch >= order.batches):
        limit = "" if order.batches is None else f" below {order.batches}"
        raise ValueError(f"expected a micro-batch of at least 0{limit}, found {batch}")
    lane = order.lane(batch % order.lanes)
    start = batch // order.lanes * batch_size
    stop = start + batch_size
    return lane.locate(start, stop if lane.length is None else min(stop, lane.length))


# One unshuffled pass for validation: source after source, each sample once.


@dataclass(frozen=True)
class SequentialPass:
    """The concatenated sources, cut into lanes of neighbours; lane j has samples ``[n · j / L, n · (j + 1) / L)``.

    Args:
        samples: Number of samples of each source.
        lanes: Number of lanes of the run.

    Raises:
        ValueError: There is no lane, or a number of samples is below 0.

    >>> source, epoch, sample = SequentialPass((2, 3), lanes=2).lane(1).locate(0, 3)
    >>> source.tolist(), sample.tolist()
    ([1, 1, 1], [0, 1, 2])
    """

    samples: tuple[int, ...]
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 1 or min(self.samples, default=0) < 0:
            raise ValueError(f"expected at least 1 lane and no source below 0 samples, found {self}")

    @property
    def batches(self) -> None:
        """None: stages that drop or regroup samples decide how many micro-batches a lane makes."""

    def lane(self, number: int) -> _SequentialLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        total = sum(self.samples)
        return _SequentialLane(self, range(total * number // self.lanes, total * (number + 1) // self.lanes))

    def locate(self, place: IntArray) -> Located:
        """Return the samples at places of the concatenated sources, shape (m,)."""
        ends = np.cumsum(np.array(self.samples, dtype=np.int64))
        source = np.searchsorted(ends, place, side="right")
        starts = ends - np.array(self.samples, dtype=np.int64)
        return source, np.zeros(len(place), dtype=np.int64), place - starts[source]


class _SequentialLane:
    def __init__(self, order: SequentialPass, places: range) -> None:
        self._order = order
        self._places = places

    @property
    def length(self) -> int:
        return len(self._places)

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        return self._order.locate(self._places.start + np.arange(start, stop))
