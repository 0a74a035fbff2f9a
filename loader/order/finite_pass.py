"""One pass over sources, each a number of times, in lanes of nearly equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .blend import BlendOrder
from .source_order import SourceOrder, SourceShuffle, take_by_source
from .stream_order import BlendedLane, Located, RepeatedOrder, check_lane, check_range, check_sources


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
        return self.inner.lanes

    @property
    def batches(self) -> int:
        return -(-self._sections[0] // self.batch_size)

    def lane(self, lane: int) -> _PrebatchedLane:
        check_lane(lane, self.lanes)
        batches = max(0, -(-(self.batches - lane) // self.lanes))
        has_last = batches > 0 and (self.batches - 1) % self.lanes == lane
        samples, own_samples, rest = self._sections
        missing = self.batches * self.batch_size - samples if has_last else 0
        return _PrebatchedLane(self, own_samples, rest, lane, length=batches * self.batch_size - missing)

    @cached_property
    def _sections(self) -> tuple[int, int, SequentialPass | _Remainder]:
        # The samples of the pass; the samples that each lane takes from its own stream, in full micro-batches; and what
        # remains in all lanes then.
        if isinstance(self.inner, SequentialPass):
            return sum(self.inner.samples), 0, self.inner
        lengths = self.inner.lane_lengths()
        own_samples = int(lengths.min()) // self.batch_size * self.batch_size
        return int(lengths.sum()), own_samples, _Remainder(self.inner, lengths, own_samples)


class _PrebatchedLane:
    """The micro-batches of a lane: first from its own samples, then its share of the rest."""

    def __init__(
        self, order: PrebatchedPass, own_samples: int, rest: SequentialPass | _Remainder, lane: int, *, length: int
    ) -> None:
        self.length = length
        self._order, self._number = order, lane
        self._own_samples, self._rest = own_samples, rest
        self._stream = order.inner.lane(lane)

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self.length)
        own_samples = self._own_samples
        if stop <= own_samples:
            return self._stream.locate(start, stop)
        batch, position = np.divmod(np.arange(max(start, own_samples), stop) - own_samples, self._order.batch_size)
        rest = self._rest.locate((batch * self._order.lanes + self._number) * self._order.batch_size + position)
        return rest if start >= own_samples else _concatenate([self._stream.locate(start, own_samples), rest])


class _Remainder:
    """The samples that remain after so many are taken from each lane, concatenated in lane order."""

    def __init__(self, inner: FinitePass, lengths: IntArray, taken: int) -> None:
        self._inner = inner
        self._taken = taken
        self._ends = np.cumsum(lengths - taken)
        self._starts = self._ends - (lengths - taken)

    def locate(self, index: IntArray) -> Located:
        lane = np.searchsorted(self._ends, index, side="right")
        position = index - self._starts[lane] + self._taken
        pieces = []
        for lane_number in np.unique(lane).tolist():
            mine = position[lane == lane_number]
            # Micro-batches of other lanes make gaps.
            first = int(mine[0])
            source, epoch, sample = self._inner.lane(lane_number).locate(first, int(mine[-1]) + 1)
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

    def lane(self, lane: int) -> _SequentialLane:
        check_lane(lane, self.lanes)
        total = sum(self.samples)
        return _SequentialLane(self, range(total * lane // self.lanes, total * (lane + 1) // self.lanes))

    def locate(self, position: IntArray) -> Located:
        """Return the samples at places of the concatenated sources, shape (m,)."""
        ends = np.cumsum(np.array(self.samples, dtype=np.int64))
        source = np.searchsorted(ends, position, side="right")
        starts = ends - np.array(self.samples, dtype=np.int64)
        return source, np.zeros(len(position), dtype=np.int64), position - starts[source]


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


@dataclass(frozen=True)
class FinitePass:
    """One pass that repeats each source's samples a number of times; all sources end together, at the end.

    Args:
        sources: At least one.
        repetitions: For each source, how often its samples come: 1 is each sample once, 2.5 two epochs and the first
            ``int(0.5 · samples)`` of the third in its order.
        lanes: Number of lanes of the run. Their lengths differ by a sample at most; some are empty if there are more
            lanes than samples.
        seed: Seed of the run.

    Raises:
        ValueError: There is no source or lane, or not one number of repetitions for each source.

    >>> order = FinitePass((SourceOrder(samples=4, slice_length=2),), (1.5,), lanes=2, seed=0)
    >>> [order.lane(number).length for number in range(2)]
    [3, 3]
    """

    sources: tuple[SourceOrder, ...]
    repetitions: tuple[float, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        check_sources(self.sources, self.repetitions, self.lanes)

    @property
    def batches(self) -> None:
        """None: stages that drop or regroup samples decide how many micro-batches a lane makes."""

    def lane(self, lane: int) -> BlendedLane:
        check_lane(lane, self.lanes)
        counts = self._partition.lengths(np.array([lane]))[0]
        is_single = len(self.sources) == 1
        blend = None if is_single else BlendOrder(counts, lane=lane, seed=self.seed)
        return BlendedLane(lane, self._partition, blend, int(counts.sum()))

    def lane_lengths(self) -> IntArray:
        """Return the number of samples of each lane, shape (lanes,)."""
        lengths: IntArray = self._partition.lengths(np.arange(self.lanes)).sum(axis=1)
        return lengths

    @cached_property
    def _partition(self) -> EpochPartition:
        return EpochPartition(self.sources, self.repetitions, self.lanes)


def pass_samples(samples: Sequence[int], repetitions: Sequence[float]) -> list[int]:
    """Return the number of samples of each source in a pass, without fractions of a sample, like megatron-energon.

    >>> pass_samples((55, 55), (0.7, 1.5))
    [38, 82]
    """
    return [int(times * count) for count, times in zip(samples, repetitions, strict=True)]


class EpochPartition:
    """The samples of a pass partitioned over the lanes: (source, lane, position) → (epoch, sample).

    Source after source, and group after group of epochs that are shuffled together, each lane gets a range of
    neighbours. The samples that remain after a division by the lanes go to the lanes in turn, and the turn continues
    in the next group and the next source. So all lanes have the same number of samples to within one, however many
    small sources there are.

    Args:
        repetitions: How often each source's samples come: 2.5 is two epochs and half the samples of a third.
    """

    def __init__(self, sources: Sequence[SourceOrder], repetitions: Sequence[float], lanes: int) -> None:
        self.lanes = lanes
        self._shuffle = SourceShuffle(sources, lanes)
        samples = self._shuffle.samples
        self._epochs = np.array([int(times) for times in repetitions], dtype=np.int64)
        # Whole groups, and the epochs that remain.
        self._groups, self._left = np.divmod(self._epochs, self._shuffle.epochs_together)
        self.samples: IntArray = np.array(
            pass_samples([source.samples for source in sources], repetitions), dtype=np.int64
        )
        self._part = self.samples - samples * self._epochs  # of the last, partial epoch
        self._first_turn = (np.cumsum(self.samples) - self.samples) % lanes

    def lengths(self, lane: IntArray) -> IntArray:
        """Return the number of samples of each source in some lanes.

        Args:
            lane: Shape (j,).

        Returns:
            Shape (j, sources).
        """
        before = self._turns_before(lane[:, None], self._first_turn)
        return self._turns_before(lane[:, None], self._first_turn + self.samples) - before

    def _turns_before(self, lane: IntArray | int, samples: IntArray) -> IntArray:
        """Return the number of samples that a lane gets of so many, if they go to the lanes in turn."""
        return (samples + (self.lanes - 1) - lane) // self.lanes

    def locate(self, source: IntArray, lane: int, position: IntArray) -> tuple[IntArray, IntArray]:
        """Return the samples at positions of a lane's streams.

        Args:
            source: Shape (m,): the source of each stream.
            position: Shape (m,): positions in that stream, in ``[0, length)`` of the source in this lane.

        Returns:
            The epochs and the sample numbers, each of shape (m,).
        """
        first_turn = take_by_source(self._first_turn, source)
        before = self._turns_before(lane, first_turn)
        # Find the lane's share of the group, then shuffle within the share and within the group.
        of_group, size, first_epoch, together = self._groups_at(source, lane, position + before)
        in_window = position + before - self._turns_before(lane, first_turn + of_group)
        start, length = self._share((first_turn + of_group) % self.lanes, size, lane)
        in_window = self._shuffle.within_window(source, lane, first_epoch, in_window, length)
        epoch, sample = self._shuffle.within_group(source, first_epoch, start + in_window, together)
        return first_epoch + epoch, sample

    def _groups_at(self, source: IntArray, lane: int, turn: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Find the groups in which the lane gets the sources' samples of some turns.

        Returns:
            The source's samples in the groups before; the samples that are partitioned, which are a part of the last
            epoch of a fractional repetition; the group's first epoch, which also numbers it; and its epochs.
        """
        samples = take_by_source(self._shuffle.samples, source)
        together = take_by_source(self._shuffle.epochs_together, source)
        epochs: IntArray
        epochs, groups, left = (take_by_source(values, source) for values in (self._epochs, self._groups, self._left))
        first_turn = take_by_source(self._first_turn, source)
        group = samples * together
        # The last group before which the lane has no more samples than that: _turns_before, solved for the group.
        group_number = np.minimum((turn * self.lanes + lane - first_turn) // group, groups)
        is_whole = group_number < groups
        is_part = turn >= self._turns_before(lane, first_turn + epochs * samples)
        epoch = np.where(is_part, epochs, group_number * together)
        together = np.where(is_part, 1, np.where(is_whole, together, left))
        size = np.where(is_part, take_by_source(self._part, source), samples * together)
        return epoch * samples, size, epoch, together

    def _share(self, first_turn: IntArray, size: IntArray, lane: int) -> tuple[IntArray, IntArray]:
        each, extra = np.divmod(size, self.lanes)
        # The lanes with one sample more are those from the first turn on, continued at lane 0.
        straight = np.minimum(extra, self.lanes - first_turn)
        over = np.maximum(0, extra - straight)
        before = np.clip(lane - first_turn, 0, straight) + np.minimum(lane, over)
        is_longer = (lane - first_turn) % self.lanes < extra
        return each * lane + before, each + is_longer
