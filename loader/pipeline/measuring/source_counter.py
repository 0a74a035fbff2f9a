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

_MAX_WAITING = 1  # chunks that were not counted; their arrays take memory


class _Chunk:
    """The samples of a chunk.

    Args:
        positions: Their positions in the lane.
        source: Shape (n,): number of each sample's source.
        epoch: Shape (n,): its epoch.
        size_bytes: Shape (n,): its bytes, -1 if they are not one range.
        excluded: Shape (n,): True for the excluded samples; None if there are none.
    """

    __slots__ = ("epoch", "excluded", "positions", "size_bytes", "source")

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
        self.epoch = epoch
        self.size_bytes = size_bytes
        self.excluded = excluded


class SourceCounter:
    """Counts the samples that a reader has yielded in one lane.

    Args:
        first: The number of the reader's first source among those of the chain.
        position: The position of the next sample.
        mean_bytes: Returns the mean size of a source's samples, for samples whose size is not in the index.
        sources: Number of the reader's sources.
    """

    __slots__ = ("_chunks", "_counted", "_first", "_is_one", "_mean_bytes")

    def __init__(self, first: int, position: int, mean_bytes: Callable[[int], int], *, sources: int) -> None:
        self._first = first
        self._is_one = sources == 1
        self._mean_bytes = mean_bytes
        self._counted = position
        self._chunks: deque[_Chunk] = deque()

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
        self._chunks.append(_Chunk(positions, source, epoch, size_bytes, excluded))

    @property
    def is_full(self) -> bool:
        """True if the samples should be counted now, to free memory."""
        return len(self._chunks) > _MAX_WAITING

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
                self._chunks.popleft()

    def _count_rows(self, chunk: _Chunk, rows: slice, counts: Counts) -> None:
        source, size_bytes = chunk.source[rows], chunk.size_bytes[rows]
        if size_bytes.min() < 0:
            size_bytes = self._known_sizes(source, size_bytes)
        excluded = None if chunk.excluded is None else chunk.excluded[rows]
        if self._is_one or (source == source[0]).all():
            found = SourceCounts(
                len(source),
                int(size_bytes.sum()),
                int(np.count_nonzero(chunk.epoch[rows])),
                0 if excluded is None else int(np.count_nonzero(excluded)),
            )
            counts.add_source(self._first + int(source[0]), found)
            return
        numbers, place = np.unique(source, return_inverse=True)
        weights: list[Any] = [None, size_bytes, chunk.epoch[rows] > 0]
        columns = [np.bincount(place, column, minlength=len(numbers)).astype(int).tolist() for column in weights]
        skipped = [0] * len(numbers)
        if excluded is not None:
            skipped = np.bincount(place[excluded], minlength=len(numbers)).tolist()
        for number, *columns_of_source in zip(numbers.tolist(), *columns, skipped, strict=True):
            counts.add_source(self._first + number, SourceCounts(*columns_of_source))

    def _known_sizes(self, source: IntArray, size_bytes: IntArray) -> IntArray:
        known = size_bytes.copy()
        for number in set(source[size_bytes < 0].tolist()):
            known[(size_bytes < 0) & (source == number)] = self._mean_bytes(number)
        return known
