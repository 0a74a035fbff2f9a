"""Number the samples of a selection that take a turn in a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..format.records.folder_index import RecordIndex
from ..format.records.row_groups import RowGroupEnds
from .dataset import Dataset
from .packed_numbers import pack_numbers, unpack_numbers
from .selection import Selection


@dataclass(frozen=True, eq=False)
class Turns:
    """All samples of a selection but those that were excluded when the run began, numbered from 0.

    Args:
        begun: The positions of the samples that take no turn, as a state holds them; None for the samples that are
            excluded now.
    """

    selection: Selection
    begun: str | None = None

    def __len__(self) -> int:
        return len(self.selection) - len(self._omitted)

    @cached_property
    def left_out(self) -> str:
        """The positions of the samples that take no turn, packed by :func:`.pack_numbers`."""
        return pack_numbers(self._omitted) if self.begun is None else self.begun

    @cached_property
    def _omitted(self) -> IntArray:
        """The same positions, ascending."""
        chosen = self.selection
        return chosen.excluded if self.begun is None else unpack_numbers(self.begun, len(chosen))

    @cached_property
    def excluded(self) -> IntArray:
        """Numbers in the index of the samples that are passed over at their turn, ascending.

        These were excluded after the run began.
        """
        positions = np.setdiff1d(self.selection.excluded, self._omitted, assume_unique=True)
        return np.sort(self.selection.numbers(positions))

    @cached_property
    def ranges(self) -> tuple[IntArray, IntArray]:
        """Runs of neighbours: number of the first sample of each, and its number in the index, or its filter's row."""
        begins, firsts = self.selection.ranges
        if not len(self._omitted):
            return begins, firsts
        # A run of neighbours also begins after each omitted sample.
        starts = np.setdiff1d(np.union1d(begins, self._omitted + 1), np.append(self._omitted, len(self.selection)))
        row = begins.searchsorted(starts, side="right") - 1
        return starts - self._omitted.searchsorted(starts), firsts[row] + starts - begins[row]

    def numbers(self) -> IntArray:
        """Return the numbers in the index of all samples, those that are passed over included."""
        return self.selection.numbers(np.delete(np.arange(len(self.selection)), self._omitted))

    @cached_property
    def row_groups(self) -> RowGroupEnds | None:
        """The row groups of a table; None for others, and if its index does not have them."""
        index = self.selection.dataset.index if isinstance(self.selection.dataset, Dataset) else None
        groups = index.row_groups if isinstance(index, RecordIndex) else None
        if groups is None or not len(self):
            return None
        # Find the row groups of each run of neighbours, and the first sample of each.
        ends, kept, (begins, firsts) = np.cumsum(groups[:, 0]), self.selection.filter, self.ranges
        starts, groups_at = list[IntArray](), list[IntArray]()
        for begin, first, size in zip(begins, firsts, np.diff(begins, append=len(self)).tolist(), strict=True):
            if kept is not None:
                rows = first + np.arange(size)
                group = ends.searchsorted(kept.numbers(rows), side="right")
            else:  # neighbours have all groups from the first to the last
                low, high = ends.searchsorted([first, first + size - 1], side="right")
                rows, group = np.concatenate([[first], ends[low:high]]), np.arange(low, high + 1)
            starts.append(begin + rows - first)
            groups_at.append(group)
        is_first = np.diff(np.concatenate(groups_at), prepend=-1) != 0
        return RowGroupEnds(np.append(np.concatenate(starts)[is_first][1:], len(self)), int(groups[:, 1].mean()))
