"""The interface of an order: each lane is a stream of samples, and any range of it can be located."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .blend import BLOCK, BlendOrder, count_in_lanes, locate_in_lanes, quantise_weights
from .source_order import SourceOrder, SourceOrders


@dataclass(frozen=True)
class RepeatedOrder:
    """Sources that repeat without end, blended by weight; each epoch of a source is partitioned over the lanes.

    Args:
        sources: At least one.
        weights: For each source, its share of the positions: above 0, in any unit.
        lanes: Number of lanes of the run; none is ever empty.
        seed: Seed of the run.

    Raises:
        ValueError: There is no source or lane, or not one weight for each source.

    >>> order = RepeatedOrder((SourceOrder(samples=6, slice_length=2),), (1.0,), lanes=1, seed=0)
    >>> source, epoch, sample = order.lane(0).locate(0, 6)
    >>> sorted(sample.tolist())
    [0, 1, 2, 3, 4, 5]
    """

    sources: tuple[SourceOrder, ...]
    weights: tuple[float, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        check_sources(self.sources, self.weights, self.lanes)

    @property
    def batches(self) -> None:
        """None, because the order is endless."""

    def lane(self, lane: int) -> BlendedLane:
        check_lane(lane, self.lanes)
        is_single = len(self.sources) == 1
        blend = None if is_single else BlendOrder(self._counts, lane=lane, seed=self.seed)
        return BlendedLane(lane, self._orders, blend, None)

    def locate_in_lanes(self, lane: IntArray, position: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the samples at positions of several lanes, at a fraction of the time that the lanes take one by one.

        Args:
            lane: Shape (m,); positions of a lane that follow one another are neighbours here.
            position: Shape (m,): the position in the stream of its lane.

        Returns:
            Sources, epochs and sample numbers, each of shape (m,).
        """
        if len(self.sources) == 1 or not len(lane):
            source = np.zeros(len(lane), np.int64)
            return source, *self._orders.locate(source, lane, position)
        starts = np.flatnonzero((np.diff(lane, prepend=-1) != 0) | (np.diff(position, prepend=-1) != 1))
        lengths = np.diff(starts, append=len(lane))
        first = position[starts]
        source, in_source = locate_in_lanes(
            self._counts, lane=lane[starts], start=first, stop=first + lengths, seed=self.seed
        )
        return source, *self._orders.locate(source, lane, in_source)

    def count(self, stops: IntArray) -> IntArray:
        """Return the number of samples of each source in the first positions of all lanes together.

        Args:
            stops: For each lane, the number of its positions that count; shape (lanes,).
        """
        if len(self.sources) == 1:
            return np.array([int(stops.sum())])
        return count_in_lanes(self._counts, stops=stops, seed=self.seed)

    @cached_property
    def _orders(self) -> SourceOrders:
        return SourceOrders(self.sources, self.lanes)

    @cached_property
    def _counts(self) -> IntArray:
        return quantise_weights(self.weights)


PASS_LANES = 48
"""Lanes of a pass whose lanes are visited one after another."""

_DEFAULT_LANES = 48  # divisible by 2, 3, 4, 6, 8, 12, 16, 24


def default_lanes(ranks: int, workers: int, *, has_buffers: bool) -> int:
    """Choose the number of lanes of a new run.

    Args:
        ranks: Number of data-parallel ranks.
        workers: Number of worker processes of each rank; 0 counts as 1.
        has_buffers: True if lanes buffer samples (packing, grouping): then each worker has one lane.

    >>> default_lanes(1, 4, has_buffers=False), default_lanes(5, 4, has_buffers=False)
    (48, 240)
    >>> default_lanes(2, 4, has_buffers=True)
    8
    """
    return ranks * max(1, workers) if has_buffers else math.lcm(ranks, _DEFAULT_LANES)


def worker_share(samples: Sequence[int], repetitions: Sequence[float], *, worker: int, workers: int) -> int:
    """Return the number of samples of a worker in an epoch: a nominal number, which sets the length of loops.

    Lanes give workers other samples than this division does. It has the numbers of megatron-energon, so that loops
    that were written for it have the same length here.

    Each source is divided evenly. The samples that remain go to workers that are spread evenly, one each; the turn
    continues in the next source.

    Args:
        samples: Number of samples of each source.
        repetitions: How often a sample of each source comes in an epoch; a fraction of a sample is dropped.
        worker: The worker, among the workers of all ranks.
        workers: Number of these workers.

    >>> [worker_share((100, 40), (1, 1), worker=worker, workers=3) for worker in range(3)]
    [47, 47, 46]
    """
    turn = _turns(workers)[worker]
    total = first_turn = 0
    for count, times in zip(samples, repetitions, strict=True):
        each, extra = divmod(count, workers)
        total += int((each + ((turn - first_turn) % workers < extra)) * times)
        first_turn = (first_turn + extra) % workers
    return total


@lru_cache(maxsize=8)
def _turns(workers: int) -> list[int]:
    turns = [0] * workers
    for turn, worker in enumerate(_spread(workers)):
        turns[worker] = turn
    return turns


def _spread(workers: int) -> list[int]:
    if workers == 1:
        return [0]
    half = workers // 2
    first, second = _spread(half), [half + worker for worker in _spread(workers - half)]
    alternating = [worker for pair in zip(first, second, strict=False) for worker in pair]
    return alternating + second[half:]


_MAX_SPAN = 1 << 16  # positions that are located together, which bounds the memory

Located = tuple[IntArray, IntArray, IntArray]
"""The source, the epoch and the sample number at each position, all of shape (positions,)."""


class LaneOrder(Protocol):
    """One lane's stream of samples."""

    @property
    def length(self) -> int | None:
        """Number of samples of the lane in the pass; None for an endless order."""

    def locate(self, start: int, stop: int) -> Located:
        """Return the samples at the positions ``[start, stop)`` of the lane's stream.

        Raises:
            ValueError: Not ``0 <= start <= stop <= length``.
        """


class StreamOrder(Protocol):
    """The streams of all lanes of a run: frozen, compared by value, picklable, and opened at a constant cost."""

    @property
    def lanes(self) -> int:
        """Number of lanes of the run, L."""

    @property
    def batches(self) -> int | None:
        """Number of micro-batches of a pass if it is known ahead (a ``PrebatchedPass``); else None."""

    def lane(self, lane: int) -> LaneOrder:
        """Return the stream of a lane in ``[0, lanes)``."""


class SourceStreams(Protocol):
    """The streams of all sources in all lanes."""

    def locate(self, source: IntArray, lane: int, position: IntArray) -> tuple[IntArray, IntArray]:
        """Return the epochs and the sample numbers at positions of a lane's streams; all of shape (m,)."""


@dataclass(frozen=True, slots=True, eq=False)
class BlendedLane:
    """The stream of a lane: the blend selects the sources, and their streams the samples.

    Args:
        blend: The blend; None for a single source.
        length: Number of samples of the pass in this lane; None for an endless order.
    """

    lane: int
    streams: SourceStreams
    blend: BlendOrder | None
    length: int | None

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        if self.blend is None:
            source, position = np.zeros(stop - start, dtype=np.int64), np.arange(start, stop)
        else:
            source, position = self.blend.locate(start, stop)
        return source, *self.streams.locate(source, self.lane, position)

    def window_of(self, position: int) -> tuple[int, int] | None:
        """Return the first position and the end of the window at a position; None if windows of sources interleave.

        A window holds the samples of some whole slices: neighbours in their shards.
        """
        if self.blend is not None or not isinstance(self.streams, SourceOrders):
            return None
        return self.streams.window_of(self.lane, position)

    def locate_at(self, positions: IntArray) -> Located:
        """Return the samples at some positions of the lane's stream, in ascending order; shape (m,)."""
        if self.blend is None or not len(positions):
            source = np.zeros(len(positions), dtype=np.int64)
            return source, *self.streams.locate(source, self.lane, positions)
        source, position = locate_scattered(positions, self.blend.locate)
        return source, *self.streams.locate(source, self.lane, position)


def locate_scattered(
    positions: IntArray, locate: Callable[[int, int], tuple[IntArray, IntArray]]
) -> tuple[IntArray, IntArray]:
    """Return what ``locate(start, stop)`` of a blend gives for some positions, in ascending order; at least one.

    Positions of neighbouring blocks are located together, since a blend permutes whole blocks.
    """
    cuts = np.flatnonzero((np.diff(positions) > BLOCK) | (np.diff(positions // _MAX_SPAN) > 0)) + 1
    parts = [
        [column[run - run[0]] for column in locate(int(run[0]), int(run[-1]) + 1)] for run in np.split(positions, cuts)
    ]
    source, position = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return source, position


def check_range(start: int, stop: int, length: int | None) -> None:
    """Check that a lane has a range of positions.

    Raises:
        ValueError: Not ``0 <= start <= stop <= length``.
    """
    if not 0 <= start <= stop or (length is not None and stop > length):
        limit = "" if length is None else f" <= {length}"
        raise ValueError(f"expected 0 <= start <= stop{limit}, found [{start}, {stop})")


def check_lane(lane: int, lanes: int) -> None:
    """Check that a run has a lane.

    Raises:
        ValueError: Not ``0 <= number < lanes``.
    """
    if not 0 <= lane < lanes:
        raise ValueError(f"expected a lane in [0, {lanes}), found {lane}")


def check_sources(sources: Sequence[SourceOrder], shares: Sequence[float], lanes: int) -> None:
    """Check the sources of an order, and their weights or repetitions.

    Raises:
        ValueError: There is no lane or source, a source has no samples, or not every source has one share above 0.
    """
    if lanes < 1:
        raise ValueError(f"expected at least 1 lane, found {lanes}")
    if not sources or len(sources) != len(shares):
        raise ValueError(f"expected sources and a number for each, found {len(sources)} and {len(shares)}")
    if min(source.samples for source in sources) < 1 or min(source.slice_length for source in sources) < 1:
        raise ValueError("expected sources of at least 1 sample, in slices of at least 1")
    shares_array = np.asarray(shares, dtype=np.float64)
    if not (np.isfinite(shares_array).all() and (shares_array > 0).all()):
        raise ValueError(f"expected numbers above 0, found {list(shares)}")


@dataclass(frozen=True)
class DealtOrder:
    """The stream of one lane, dealt to the lanes of a run in chunks: lane l gets chunks l, l + L, l + 2 · L, ….

    Args:
        inner: The order, of a single lane.
        lanes: Number of lanes of the run.
        chunk: Number of samples of a chunk, such as the samples of a micro-batch.

    Raises:
        ValueError: The order has several lanes, there is no lane, or a chunk is below 1 sample.

    >>> from loader.order import SourceOrder
    >>> inner = RepeatedOrder((SourceOrder(samples=5, slice_length=5, epochs_together=None),), (1.0,), lanes=1, seed=0)
    >>> DealtOrder(inner, lanes=2, chunk=2).lane(1).locate(0, 4)[2].tolist()
    [2, 3, 1, 2]
    """

    inner: Any  # a RepeatedOrder, EditedOrder or FinitePass
    lanes: int
    chunk: int

    def __post_init__(self) -> None:
        if self.inner.lanes != 1 or self.lanes < 1 or self.chunk < 1:
            raise ValueError(f"expected an order of 1 lane, and at least 1 lane and 1 sample of a chunk, found {self}")

    @property
    def batches(self) -> int | None:
        """Number of chunks of a pass; None for an endless order."""
        length = self.inner.lane(0).length
        return None if length is None else -(-length // self.chunk)

    def lane(self, lane: int) -> _DealtLane:
        check_lane(lane, self.lanes)
        stream = self.inner.lane(0)
        length = None
        if stream.length is not None:
            rounds, rest = divmod(stream.length, self.lanes * self.chunk)
            length = rounds * self.chunk + min(self.chunk, max(0, rest - lane * self.chunk))
        return _DealtLane(self, stream, lane, length)


@dataclass(frozen=True, slots=True, eq=False)
class _DealtLane:
    order: DealtOrder
    stream: Any
    lane: int
    length: int | None

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        lanes, size = self.order.lanes, self.order.chunk
        chunk, offset = np.divmod(np.arange(start, stop), size)
        located: Located = self.stream.locate_at((chunk * lanes + self.lane) * size + offset)
        return located
