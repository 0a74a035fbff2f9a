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
