"""Order the samples of a dataset without holding a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays import IntArray
from ...order.index_permutation import permute_array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleOrder:
    """An order of samples.

    Attributes:
        ranges: The samples, as ranges of their numbers, or as an array of them.
        seed: Shuffles them; None keeps the order of the shards.
    """

    ranges: Sequence[range] | IntArray
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.ranges) if isinstance(self.ranges, np.ndarray) else sum(map(len, self.ranges))


def ordered_samples(order: SampleOrder, start: int, stop: int) -> IntArray:
    """Return the numbers of the samples at the places from ``start`` to ``stop`` of an order; fewer at its end.

    >>> ordered_samples(SampleOrder(ranges=[range(3), range(7, 9)]), 2, 10).tolist()
    [2, 7, 8]
    """
    total = len(order)
    places = np.arange(max(0, start), max(0, min(stop, total)), dtype=np.int64)
    if order.seed is not None and len(places):
        places = permute_array(places, total, order.seed)
    if isinstance(order.ranges, np.ndarray):
        found: IntArray = order.ranges[places]
        return found
    ends = np.cumsum([len(some) for some in order.ranges], dtype=np.int64)
    which = np.searchsorted(ends, places, side="right")
    shifts = np.array([some.start - end + len(some) for some, end in zip(order.ranges, ends, strict=True)], np.int64)
    return places + shifts[which] if len(places) else places
