"""The leaves of a reader side by side, so that one look-up serves samples of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .leaf import Integers, Leaf

__all__ = ["LeafTable"]


class LeafTable:
    """Finds the numbers that samples have in their indexes.

    Args:
        leaves: The leaves.
    """

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        sizes = np.array([leaf.samples for leaf in leaves], dtype=np.int64)
        self._first = np.cumsum(sizes) - sizes  # of each leaf's samples, all leaves behind each other
        ranges = [leaf.ranges for leaf in leaves]
        self._begin = np.concatenate([first + begin for first, (begin, _) in zip(self._first, ranges, strict=True)])
        start = np.concatenate([start for _, start in ranges])
        self._shift = start - self._begin
        excluded = [leaf.excluded for leaf in leaves]
        self._most = 1 + max(int(start.max(initial=0) + sizes.max(initial=0)), *(_last(some) for some in excluded))
        names = [some + number * self._most for number, some in enumerate(excluded)]
        self._excluded = np.concatenate(names)

    def index_numbers(self, leaf: Integers, sample: Integers) -> Integers:
        """Give the numbers in their indexes of samples of some leaves; shape (n,) all three."""
        place = self._first[leaf] + sample
        row = self._begin.searchsorted(place, side="right") - 1
        numbers: Integers = place + self._shift[row]
        return numbers

    def excluded(self, leaf: Integers, index: Integers) -> npt.NDArray[np.bool_] | None:
        """Tell which samples are left out, by their numbers in their indexes; None where none is."""
        if not len(self._excluded):
            return None
        name = leaf * self._most + index
        row = np.minimum(self._excluded.searchsorted(name), len(self._excluded) - 1)
        found: npt.NDArray[np.bool_] = self._excluded[row] == name
        return found if found.any() else None


def _last(numbers: Integers) -> int:
    return int(numbers[-1]) if len(numbers) else 0
