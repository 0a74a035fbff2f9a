"""The leaves of a reader side by side, so that one look-up serves samples of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from .source import Source

__all__ = ["SourceTable"]


class SourceTable:
    """Finds the numbers that samples have in their indexes.

    Args:
        leaves: The leaves.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        sizes = np.array([source.samples for source in sources], dtype=np.int64)
        self._first = np.cumsum(sizes) - sizes  # of each leaf's samples, all leaves behind each other
        ranges = [source.ranges for source in sources]
        self._begin = np.concatenate([first + begin for first, (begin, _) in zip(self._first, ranges, strict=True)])
        start = np.concatenate([start for _, start in ranges])
        self._shift = start - self._begin
        excluded = [source.excluded for source in sources]
        self._most = 1 + max(int(start.max(initial=0) + sizes.max(initial=0)), *(_last(some) for some in excluded))
        names = [some + number * self._most for number, some in enumerate(excluded)]
        self._excluded = np.concatenate(names)

    def index_numbers(self, source: IntArray, sample: IntArray) -> IntArray:
        """Give the numbers in their indexes of samples of some leaves; shape (n,) all three."""
        place = self._first[source] + sample
        row = self._begin.searchsorted(place, side="right") - 1
        numbers: IntArray = place + self._shift[row]
        return numbers

    def excluded(self, source: IntArray, index: IntArray) -> npt.NDArray[np.bool_] | None:
        """Tell which samples are left out, by their numbers in their indexes; None where none is."""
        if not len(self._excluded):
            return None
        name = source * self._most + index
        row = np.minimum(self._excluded.searchsorted(name), len(self._excluded) - 1)
        found: npt.NDArray[np.bool_] = self._excluded[row] == name
        return found if found.any() else None


def _last(numbers: IntArray) -> int:
    return int(numbers[-1]) if len(numbers) else 0
