"""Numpy arrays of the positions and numbers of samples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
"""Positions, numbers and offsets of samples; shape (n,) unless stated otherwise."""


def union(arrays: Iterable[IntArray]) -> IntArray:
    """Return the different numbers of some arrays, ascending."""
    numbers = np.sort(np.concatenate([np.empty(0, np.int64), *arrays]))  # np.unique takes several times as long
    return numbers[np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))]


def numbers_in(ranges: Iterable[range]) -> IntArray:
    """Return the numbers of some ranges in their order, shape (n,)."""
    return np.concatenate([np.empty(0, np.int64), *(np.arange(some.start, some.stop) for some in ranges)])


def positions_in(ranges: tuple[IntArray, IntArray], samples: int, numbers: IntArray) -> IntArray:
    """Return where numbers come in ranges, ascending; numbers outside of them are omitted.

    Args:
        ranges: Runs of neighbours: where each begins, and its first number; shape (ranges,) each.
        samples: Number of positions.
    """
    begins, firsts = ranges
    if not (len(numbers) and len(begins)):
        return np.empty(0, np.int64)
    order = np.argsort(firsts)  # they may be in any order
    row = order[firsts[order].searchsorted(numbers, side="right") - 1]
    offset = numbers - firsts[row]
    inside = (offset >= 0) & (offset < np.diff(begins, append=samples)[row])
    return np.sort(begins[row[inside]] + offset[inside])


class Components:
    """Groups of samples that pairs join: each sample points to one with a lower position, or to itself."""

    def __init__(self, samples: int) -> None:
        self._parent = np.arange(samples)

    def roots(self, samples: IntArray) -> IntArray:
        """Return the first sample of the group of each sample."""
        root: IntArray = self._parent[samples]
        while True:
            above = self._parent[root]
            if np.array_equal(above, root):
                return root
            self._parent[samples] = root = above

    def apart(self, left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
        """Return the pairs whose samples are in different groups."""
        differ = self.roots(left) != self.roots(right)
        return left[differ], right[differ]

    def are_joined(self, left: IntArray, right: IntArray) -> bool:
        """Return True if all these samples are in one group."""
        roots = self.roots(left)
        return bool((roots == roots[0]).all() and (self.roots(right) == roots[0]).all())

    def join(self, left: IntArray, right: IntArray) -> None:
        """Join the groups of the samples of each pair."""
        while len(left):
            first, second = self.roots(left), self.roots(right)
            low, high = np.minimum(first, second), np.maximum(first, second)
            differ = low != high
            left, right = low[differ], high[differ]
            np.minimum.at(self._parent, right, left)

    def groups(self) -> list[IntArray]:
        """Return the positions of groups of several samples, ascending."""
        roots = self.roots(np.arange(len(self._parent)))
        order = np.argsort(roots, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(roots[order])) + 1) if len(order) else []
        return [part for part in parts if len(part) > 1]
