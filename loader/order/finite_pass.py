"""One pass over leaves, each a number of times, in lanes of nearly equal length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cached_property import cached_property
from .blend import BlendOrder
from .blended_lane import BlendedLane, check_leaves
from .finite_deal import FiniteDeal
from .leaf_order import LeafOrder
from .leaf_shuffle import Integers
from .stream_order import check_lane

__all__ = ["FinitePass"]


@dataclass(frozen=True)
class FinitePass:
    """One pass that holds each leaf's samples a number of times; all leaves end together, at the end.

    Args:
        leaves: At least one.
        repetitions: For each leaf, how often its samples come: 1 is each sample once, 2.5 two epochs and the first
            ``round(0.5 · samples)`` of the third in its order.
        lanes: The lanes of the run, whose lengths differ by a sample at most; some are empty where there are more lanes
            than samples.
        seed: Of the run.

    Raises:
        ValueError: There is no leaf or lane, or not one number of repetitions for each leaf.

    >>> order = FinitePass((LeafOrder(samples=4, slice_length=2),), (1.5,), lanes=2, seed=0)
    >>> [order.lane(number).length for number in range(2)]
    [3, 3]
    """

    leaves: tuple[LeafOrder, ...]
    repetitions: tuple[float, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        check_leaves(self.leaves, self.repetitions, self.lanes)

    @property
    def batches(self) -> None:
        """None: stages that drop or regroup samples decide how many micro-batches a lane makes."""

    def lane(self, number: int) -> BlendedLane:
        """Give the stream of a lane."""
        check_lane(number, self.lanes)
        counts = self._deal.lengths(np.array([number]))[0]
        one = len(self.leaves) == 1
        blend = None if one else BlendOrder(counts, lane=number, seed=self.seed)
        return BlendedLane(number, self._deal, blend, int(counts.sum()))

    def lane_lengths(self) -> Integers:
        """Give the samples of each lane, shape (lanes,)."""
        lengths: Integers = self._deal.lengths(np.arange(self.lanes)).sum(axis=1)
        return lengths

    @cached_property
    def _deal(self) -> FiniteDeal:
        return FiniteDeal(self.leaves, self.repetitions, self.lanes)
