"""Count the samples of each source that a reader yields: many at once, so that a sample costs next to nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from .counts import Counts, SourceCounts

_MAX_WAITING = 4000  # samples of chunks that were not counted; their arrays take memory

_Columns = tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_] | None]
"""Of samples, shape (n,) each: sources, epochs, bytes (-1 if they are not one range), and True for the excluded ones;
None instead of the last if there are none."""


class SourceCounter:
    """Counts the samples that a reader has yielded in one lane.

    Args:
        first: The number of the reader's first source among those of the chain.
        position: The position of the next sample.
        mean_bytes: Returns the mean size of a source's samples, for samples whose size is not in the index.
        sources: Number of the reader's sources.
    """

    __slots__ = ("_chunks", "_counted", "_first", "_is_one", "_mean_bytes", "_noted")

    def __init__(self, first: int, position: int, mean_bytes: Callable[[int], int], *, sources: int) -> None:
        self._first = first
        self._is_one = sources == 1
        self._mean_bytes = mean_bytes
        self._counted = self._noted = position
        self._chunks: deque[tuple[range, _Columns]] = deque()  # with the positions of their samples

    def add_chunk(
        self,
        positions: range,
        source: IntArray,
        epoch: IntArray,
        size_bytes: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Note the samples that follow; those that were noted before and did not come, since a read failed, go."""
        while self._chunks and self._chunks[-1][0].stop > positions.start:
            last, columns = self._chunks.pop()
            if last.start < positions.start:
                self._chunks.append((range(last.start, positions.start), columns))
        self._chunks.append((positions, (source, epoch, size_bytes, excluded)))
        self._noted = positions.stop

    @property
    def is_full(self) -> bool:
        """True if the samples should be counted now, to free memory."""
        return self._noted - self._counted > _MAX_WAITING

    def count(self, position: int, counts: Counts) -> None:
        """Add the samples that were yielded since the last call: those before ``position``."""
        columns: list[_Columns] = []
        while self._counted < position and self._chunks:
            positions, (source, epoch, size_bytes, excluded) = self._chunks[0]
            stop = min(position, positions.stop)
            rows = slice(max(0, self._counted - positions.start), stop - positions.start)
            if rows.stop > rows.start:
                flags = None if excluded is None else excluded[rows]
                columns.append((source[rows], epoch[rows], size_bytes[rows], flags))
            self._counted = stop
            if stop == positions.stop:
                self._chunks.popleft()
        if columns:
            self._count(columns[0] if len(columns) == 1 else _joined(columns), counts)

    def _count(self, columns: _Columns, counts: Counts) -> None:
        source, epoch, size_bytes, excluded = columns
        if size_bytes.min() < 0:
            size_bytes = self._known_sizes(source, size_bytes)
        if self._is_one or (source == source[0]).all():
            found = SourceCounts(
                len(source),
                int(size_bytes.sum()),
                int(np.count_nonzero(epoch)),
                0 if excluded is None else int(np.count_nonzero(excluded)),
            )
            counts.add_source(self._first + int(source[0]), found)
            return
        numbers, place = np.unique(source, return_inverse=True)
        weights: list[Any] = [None, size_bytes, epoch > 0]
        sums = [np.bincount(place, column, minlength=len(numbers)).astype(int).tolist() for column in weights]
        skipped = [0] * len(numbers)
        if excluded is not None:
            skipped = np.bincount(place[excluded], minlength=len(numbers)).tolist()
        for number, *of_source in zip(numbers.tolist(), *sums, skipped, strict=True):
            counts.add_source(self._first + number, SourceCounts(*of_source))

    def _known_sizes(self, source: IntArray, size_bytes: IntArray) -> IntArray:
        known = size_bytes.copy()
        for number in set(source[size_bytes < 0].tolist()):
            known[(size_bytes < 0) & (source == number)] = self._mean_bytes(number)
        return known


def _joined(columns: list[_Columns]) -> _Columns:
    """Return the columns of several chunks as one each."""
    source, epoch, size_bytes = (np.concatenate([of_chunk[place] for of_chunk in columns]) for place in range(3))
    if all(excluded is None for _, _, _, excluded in columns):
        return source, epoch, size_bytes, None
    flags = [np.zeros(len(rows), dtype=bool) if excluded is None else excluded for rows, _, _, excluded in columns]
    return source, epoch, size_bytes, np.concatenate(flags)
