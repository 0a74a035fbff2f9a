"""Which samples of leaves are excluded, counted over all leaves; and how the others are numbered without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arrays import IntArray
from .source import Source

__all__ = ["excluded_positions", "positions_without", "replacements"]


def excluded_positions(sources: Sequence[Source]) -> IntArray:
    """Give the positions of all excluded samples, ascending, where the leaves follow one another."""
    first = 0
    found = [np.empty(0, dtype=np.int64)]
    for source in sources:
        found.extend(first + part for part in _of_source(source))
        first += source.samples
    return np.sort(np.concatenate(found))


def _of_source(source: Source) -> list[IntArray]:
    excluded = source.excluded
    if not len(excluded):
        return []
    begin, start = source.ranges
    stop = start + np.diff(begin, append=source.samples)
    low, high = np.searchsorted(excluded, start), np.searchsorted(excluded, stop)
    rows = np.flatnonzero(high > low).tolist()
    return [excluded[low[row] : high[row]] - start[row] + begin[row] for row in rows]


def positions_without(excluded: IntArray, numbers: IntArray) -> IntArray:
    """Give the positions of samples that are numbered as if the excluded ones were not there.

    >>> positions_without(np.array([0, 3]), np.arange(4)).tolist()
    [1, 2, 4, 5]
    """
    before = excluded - np.arange(len(excluded))  # for each excluded sample, how many of the others come before it
    positions: IntArray = numbers + np.searchsorted(before, numbers, side="right")
    return positions


def replacements(excluded: IntArray, total: int) -> IntArray:
    """Give for each excluded sample the next one that is not, behind the last one the first.

    >>> replacements(np.array([0, 3, 4, 6]), 7).tolist()
    [1, 5, 5, 1]
    """
    runs = np.cumsum(np.diff(excluded, prepend=-2) != 1) - 1  # of neighbours
    ends = np.flatnonzero(np.diff(excluded, append=total + 1) != 1)
    behind = excluded[ends] + 1
    behind[behind == total] = positions_without(excluded, np.zeros(1, dtype=np.int64))[0]
    return np.asarray(behind[runs], dtype=np.int64)
