"""Number the samples of a selection that take a turn in a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
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
