"""Select samples of one or several datasets, in order or at random, without a list of all of them."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Selection:
    """A sequence of some of a dataset's sample numbers.

    Args:
        ranges: Half-open ranges of sample numbers.
        seed: Shuffles, reproducibly; None keeps the order.

    >>> selection = Selection([range(10, 12), range(20, 23)])
    >>> [selection[place] for place in range(len(selection))]
    [10, 11, 20, 21, 22]
    """

    def __init__(self, ranges: Sequence[range], *, seed: int | None = None) -> None:
        self._ranges = [some for some in ranges if len(some)]
        self._ends = list(accumulate(len(some) for some in self._ranges))
        self._random = None if seed is None else random.Random(seed)
        self._drawn: list[int] = []  # the prefix of the permutation that was requested so far
        self._moved: dict[int, int] = {}  # a sparse Fisher–Yates shuffle: only the entries that were swapped

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> int:
        return self._ordered(self.position(place))

    def position(self, place: int) -> int:
        """Return the place of a sample if nothing were shuffled.

        >>> shuffled = Selection([range(10, 12), range(20, 23)], seed=1)
        >>> all(shuffled[place] == Selection([range(10, 12), range(20, 23)])[shuffled.position(place)]
        ...     for place in range(5))
        True
        """
        if not 0 <= place < len(self):
            raise IndexError(place)
        if self._random is None:
            return place
        while len(self._drawn) <= place:
            done = len(self._drawn)
            other = self._random.randrange(done, len(self))
            self._drawn.append(self._moved.get(other, other))
            self._moved[other] = self._moved.get(done, done)
        return self._drawn[place]

    def _ordered(self, place: int) -> int:
        which = bisect_right(self._ends, place)
        return self._ranges[which][place - (self._ends[which - 1] if which else 0)]


class MixOrder:
    """The samples of several datasets: one dataset after another, or drawn by weight.

    When drawn, the length is the total number of samples. Each dataset yields all of its samples before it repeats one.

    Args:
        sizes: Number of samples of each dataset, at least one.
        weights: Relative frequency of each dataset.
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
        self._drawn: list[tuple[int, int]] = []  # of each place requested so far: dataset, and its earlier draws
        self._times = [0] * len(sizes)
        self._shuffled: dict[tuple[int, int], Selection] = {}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, place: int) -> tuple[int, int]:
        """Return the dataset at a place, and the number of the sample within it."""
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

    def position(self, place: int) -> int:
        """Return the place of a sample if nothing were shuffled."""
        which, index = self[place]
        return index + (self._ends[which - 1] if which else 0)

    def _order(self, which: int, epoch: int) -> Selection:
        if (which, epoch) not in self._shuffled:
            seed = random.Random(f"{self._seed} {which} {epoch}").getrandbits(64)
            self._shuffled[which, epoch] = Selection([range(self._sizes[which])], seed=seed)
        return self._shuffled[which, epoch]
