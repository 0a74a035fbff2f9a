"""In which order ``preview`` goes through the samples of several datasets."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from .source import Selection

__all__ = ["MixOrder"]


class MixOrder:
    """The samples of datasets one after another, or drawn as weights say; without a list of them all.

    Drawn, as many come as there are. Each dataset gives all of its samples before it gives one again.

    Args:
        sizes: How many samples each dataset has, at least one.
        weights: How often each is drawn, in proportion.
        seed: Draws, reproducibly; None keeps the order.

    >>> order = MixOrder([2, 3], [1, 1], seed=None)
    >>> [order[place] for place in range(len(order))]
    [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], *, seed: int | None) -> None:
        self._sizes = sizes
        self._ends = list(accumulate(sizes))
        self._cumulated = list(accumulate(weights))
        self._seed = seed
        self._random = random.Random(seed)
        self._drawn: list[tuple[int, int]] = []  # as far as was looked: dataset, and how often it came before
        self._times = [0] * len(sizes)
        self._shuffled: dict[tuple[int, int], Selection] = {}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> tuple[int, int]:
        """Give the dataset of the sample at a place, and which of its samples it is."""
        if not 0 <= place < len(self):
            raise IndexError(place)
        if self._seed is None:
            which = bisect_right(self._ends, place)
            return which, place - (self._ends[which - 1] if which else 0)
        while len(self._drawn) <= place:
            [which] = self._random.choices(range(len(self._sizes)), cum_weights=self._cumulated)
            self._drawn.append((which, self._times[which]))
            self._times[which] += 1
        which, times = self._drawn[place]
        epoch, index = divmod(times, self._sizes[which])
        return which, self._order(which, epoch)[index]

    def _order(self, which: int, epoch: int) -> Selection:
        if (which, epoch) not in self._shuffled:
            seed = random.Random(f"{self._seed} {which} {epoch}").getrandbits(64)
            self._shuffled[which, epoch] = Selection([range(self._sizes[which])], seed=seed)
        return self._shuffled[which, epoch]
