"""Count the samples of each source that a reader yields: by chunks, so that a sample costs nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from .counts import Counts, SourceCounts

__all__ = ["SourceCounter"]

_KEPT = 8  # chunks that were yielded, to name the sources of samples that a hook skips


class _Chunk:
    """The samples of a chunk.

    Args:
        positions: Their positions in the lane.
        source: Shape (n,): number of each sample's source.
        epoch: Shape (n,): its epoch.
        size_bytes: Shape (n,): its bytes, -1 if they are not one range.
        excluded: Shape (n,): True for the excluded samples; None if there are none.
    """

    __slots__ = ("excluded", "one_source", "positions", "repeated", "size_bytes", "source", "total_bytes")

    def __init__(
        self,
        positions: range,
        source: IntArray,
        epoch: IntArray,
        size_bytes: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
    ) -> None:
        self.positions = positions
        self.source = source
        self.excluded = excluded
        self.repeated = epoch > 0 if epoch[-1] > 0 or epoch.any() else None
        self.size_bytes = size_bytes
        self.one_source = int(source[0]) if (source == source[0]).all() else None
        self.total_bytes = np.cumsum(size_bytes) if self.one_source is not None else size_bytes


class SourceCounter:
    """Counts the samples that a reader has yielded in one lane.

    Args:
        first: The number of the reader's first source among those of the chain.
        position: The position of the next sample.
        mean_bytes: Returns the mean size of a source's samples, for samples whose size is not in the index.
    """

    __slots__ = ("_chunks", "_counted", "_first", "_mean_bytes", "_old")

    def __init__(self, first: int, position: int, mean_bytes: Callable[[int], int]) -> None:
        self._first = first
        self._mean_bytes = mean_bytes
        self._counted = position
        self._chunks: deque[_Chunk] = deque()
        self._old: deque[_Chunk] = deque(maxlen=_KEPT)

    def add_chunk(
        self,
        positions: range,
        source: IntArray,
        epoch: IntArray,
        size_bytes: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Note the samples that follow; those that were noted before and did not come, since a read failed, go."""
        while self._chunks and self._chunks[-1].positions.stop > positions.start:
            last = self._chunks[-1]
            if last.positions.start >= positions.start:
                self._chunks.pop()
            else:
                last.positions = range(last.positions.start, positions.start)
        unknown = size_bytes < 0
        if unknown.any():
            size_bytes = size_bytes.copy()
            for number in set(source[unknown].tolist()):
                size_bytes[unknown & (source == number)] = self._mean_bytes(number)
        self._chunks.append(_Chunk(positions, source, epoch, size_bytes, excluded))

    def count(self, position: int, counts: Counts) -> None:
        """Add the samples that were yielded since the last call: those before ``position``."""
        while self._counted < position and self._chunks:
            chunk = self._chunks[0]
            stop = min(position, chunk.positions.stop)
            rows = slice(max(0, self._counted - chunk.positions.start), stop - chunk.positions.start)
            if rows.stop > rows.start:
                self._count_rows(chunk, rows, counts)
            self._counted = stop
            if stop == chunk.positions.stop:
                self._old.append(self._chunks.popleft())

    def _count_rows(self, chunk: _Chunk, rows: slice, counts: Counts) -> None:
        if chunk.one_source is not None:
            before = chunk.total_bytes[rows.start - 1] if rows.start else 0
            found = SourceCounts(
                rows.stop - rows.start,
                int(chunk.total_bytes[rows.stop - 1] - before),
                0 if chunk.repeated is None else int(np.count_nonzero(chunk.repeated[rows])),
                0 if chunk.excluded is None else int(np.count_nonzero(chunk.excluded[rows])),
            )
            counts.add_source(self._first + chunk.one_source, found)
            return
        numbers, place = np.unique(chunk.source[rows], return_inverse=True)
        columns: list[Any] = [None, chunk.size_bytes, chunk.repeated, chunk.excluded]
        for column, values in enumerate(columns):
            if column and values is None:
                columns[column] = [0] * len(numbers)
            else:
                weights = None if values is None else values[rows]
                columns[column] = np.bincount(place, weights, minlength=len(numbers)).astype(int).tolist()
        for number, *found_columns in zip(numbers.tolist(), *columns, strict=True):
            counts.add_source(self._first + number, SourceCounts(*found_columns))

    def source_at(self, position: int) -> int | None:
        """Return the number, in the chain, of the source of a sample that was yielded; None if it is not known."""
        for chunk in (*self._chunks, *reversed(self._old)):
            if position in chunk.positions:
                return self._first + int(chunk.source[position - chunk.positions.start])
        return None
