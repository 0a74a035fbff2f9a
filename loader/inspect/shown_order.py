"""The order in which a preview shows samples: of one dataset, or of a mix."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class ShownOrder:
    """A sequence of some of a dataset's sample numbers.

    Args:
        seed: Shuffles, reproducibly; None keeps the order.

    >>> order = ShownOrder([range(10, 12), range(20, 23)])
    >>> [order[place] for place in range(len(order))]
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

    def __getitem__(self, position: int) -> int:
        which, inner = _split_place(self._ends, self.position(position))
        return self._ranges[which][inner]

    def position(self, position: int) -> int:
        """Return the place of a sample if nothing were shuffled.

        >>> shuffled = ShownOrder([range(10, 12), range(20, 23)], seed=1)
        >>> all(shuffled[place] == ShownOrder([range(10, 12), range(20, 23)])[shuffled.position(place)]
        ...     for place in range(5))
        True
        """
        if not 0 <= position < len(self):
            raise IndexError(position)
        if self._random is None:
            return position
        # Draw only as far as is needed, as a preview of a million samples shows a few.
        while len(self._drawn) <= position:
            done = len(self._drawn)
            other = self._random.randrange(done, len(self))
            self._drawn.append(self._moved.get(other, other))
            self._moved[other] = self._moved.get(done, done)
        return self._drawn[position]


def _split_place(ends: Sequence[int], position: int) -> tuple[int, int]:
    """Return which of some sequences, one after another, has a place, and the place within it."""
    # The first sequence that ends after the position holds it.
    which = bisect_right(ends, position)
    return which, position - (ends[which - 1] if which else 0)


class MixOrder:
    """The samples of several datasets: one dataset after another, or drawn by weight.

    When drawn, the length is the total number of samples. Each dataset yields all of its samples before it repeats one.

    Args:
        sizes: Number of samples of each dataset, at least one.
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
        self._shuffled: dict[tuple[int, int], ShownOrder] = {}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, position: int) -> tuple[int, int]:
        """Return the dataset at a place, and the number of the sample within it."""
        if not 0 <= position < len(self):
            raise IndexError(position)
        if self._seed is None:
            return _split_place(self._ends, position)
        while len(self._drawn) <= position:
            [which] = self._random.choices(range(len(self._sizes)), cum_weights=self._cumulated)
            self._drawn.append((which, self._times[which]))
            self._times[which] += 1
        which, times = self._drawn[position]
        epoch, index = divmod(times, self._sizes[which])
        return which, self._order(which, epoch)[index]

    def position(self, position: int) -> int:
        """Return the place of a sample if nothing were shuffled."""
        which, index = self[position]
        return index + (self._ends[which - 1] if which else 0)

    def _order(self, which: int, epoch: int) -> ShownOrder:
        if (which, epoch) not in self._shuffled:
            seed = random.Random(f"{self._seed} {which} {epoch}").getrandbits(64)
            self._shuffled[which, epoch] = ShownOrder([range(self._sizes[which])], seed=seed)
        return self._shuffled[which, epoch]
