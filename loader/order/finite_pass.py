"""One pass over sources, each a number of times, in lanes of nearly equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .blend import BlendOrder
from .source_order import SourceOrder, SourceShuffle, take_by_source
from .stream_order import BlendedLane, check_lane, check_sources


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

    def lane(self, number: int) -> BlendedLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        counts = self._partition.lengths(np.array([number]))[0]
        one = len(self.sources) == 1
        blend = None if one else BlendOrder(counts, lane=number, seed=self.seed)
        return BlendedLane(number, self._partition, blend, int(counts.sum()))

    def lane_lengths(self) -> IntArray:
        """Return the number of samples of each lane, shape (lanes,)."""
        lengths: IntArray = self._partition.lengths(np.arange(self.lanes)).sum(axis=1)
        return lengths

    @cached_property
    def _partition(self) -> EpochPartition:
        return EpochPartition(self.sources, self.repetitions, self.lanes)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of epochs that contain some positions; all of shape (m,).

    Attributes:
        start: Number of samples of the source in the groups before.
        size: Number of samples that are partitioned; in the last epoch of a fractional repetition, a part of the epoch.
        epoch: The group's first epoch, which also numbers the group.
        together: Number of epochs of the group.
    """

    start: IntArray
    size: IntArray
    epoch: IntArray
    together: IntArray


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
        sources: At least one.
        repetitions: How often each source's samples come: 2.5 is two epochs and half the samples of a third.
        lanes: Number of lanes of the run.
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
            lane: The lane.
            position: Shape (m,): positions in that stream, in ``[0, length)`` of the source in this lane.

        Returns:
            The epochs and the sample numbers, each of shape (m,).
        """
        first_turn = take_by_source(self._first_turn, source)
        before = self._turns_before(lane, first_turn)
        groups = self._groups_at(source, lane, position + before)
        place = position + before - self._turns_before(lane, first_turn + groups.start)
        start, length = self._share((first_turn + groups.start) % self.lanes, groups.size, lane)
        place = self._shuffle.within_window(source, lane, groups.epoch, place, length)
        epoch, sample = self._shuffle.within_group(source, groups.epoch, start + place, groups.together)
        return groups.epoch + epoch, sample

    def _groups_at(self, source: IntArray, lane: int, turn: IntArray) -> _Groups:
        """Find the groups in which the lane gets the sources' samples of some turns."""
        samples = take_by_source(self._shuffle.samples, source)
        together = take_by_source(self._shuffle.epochs_together, source)
        epochs: IntArray
        epochs, groups, left = (take_by_source(values, source) for values in (self._epochs, self._groups, self._left))
        first_turn = take_by_source(self._first_turn, source)
        group = samples * together
        # The last group before which the lane has no more samples than that: _turns_before, solved for the group.
        number = np.minimum((turn * self.lanes + lane - first_turn) // group, groups)
        is_whole = number < groups
        is_part = turn >= self._turns_before(lane, first_turn + epochs * samples)
        epoch = np.where(is_part, epochs, number * together)
        together = np.where(is_part, 1, np.where(is_whole, together, left))
        size = np.where(is_part, take_by_source(self._part, source), samples * together)
        return _Groups(epoch * samples, size, epoch, together)

    def _share(self, first_turn: IntArray, size: IntArray, lane: int) -> tuple[IntArray, IntArray]:
        """Return the start of a lane's share of some groups, and its length."""
        each, extra = np.divmod(size, self.lanes)
        # The lanes with one sample more are those from the first turn on, continued at lane 0.
        straight = np.minimum(extra, self.lanes - first_turn)
        over = np.maximum(0, extra - straight)
        before = np.clip(lane - first_turn, 0, straight) + np.minimum(lane, over)
        is_longer = (lane - first_turn) % self.lanes < extra
        return each * lane + before, each + is_longer
