"""Validation: leaves one after another, unshuffled, each sample once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .leaf_shuffle import Integers
from .stream_order import Located, check_lane, check_range

__all__ = ["SequentialPass"]


@dataclass(frozen=True)
class SequentialPass:
    """The leaves joined in order and cut into lanes of neighbours; lane j has samples ``[n · j / L, n · (j + 1) / L)``.

    Args:
        samples: The number of samples of each leaf.
        lanes: The lanes of the run.

    Raises:
        ValueError: There is no lane, or a number of samples is below 0.

    >>> leaf, epoch, sample = SequentialPass((2, 3), lanes=2).lane(1).locate(0, 3)
    >>> leaf.tolist(), sample.tolist()
    ([1, 1, 1], [0, 1, 2])
    """

    samples: tuple[int, ...]
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes < 1 or min(self.samples, default=0) < 0:
            raise ValueError(f"expected at least 1 lane and no leaf below 0 samples, found {self}")

    @property
    def batches(self) -> None:
        """None: stages that drop or regroup samples decide how many micro-batches a lane makes."""

    def lane(self, number: int) -> _SequentialLane:
        """Give the stream of a lane."""
        check_lane(number, self.lanes)
        total = sum(self.samples)
        return _SequentialLane(self, range(total * number // self.lanes, total * (number + 1) // self.lanes))

    def locate(self, place: Integers) -> Located:
        """Give the samples at places of the joined leaves, shape (m,)."""
        ends = np.cumsum(np.array(self.samples, dtype=np.int64))
        leaf = np.searchsorted(ends, place, side="right")
        starts = ends - np.array(self.samples, dtype=np.int64)
        return leaf, np.zeros(len(place), dtype=np.int64), place - starts[leaf]


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
