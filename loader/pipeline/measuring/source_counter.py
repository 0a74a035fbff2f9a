"""Count the samples of each source that a reader yields: by chunks, so that a sample costs nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
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


def _positions(item_id: Any) -> Iterator[int]:
    """Yield the positions of an item's samples, without those of other lanes."""
    if not isinstance(item_id, tuple):
        yield item_id
    elif item_id and isinstance(item_id[0], str):
        if item_id[0] != "lane":
            yield from _positions(item_id[2])
    else:
        for part in item_id:
            yield from _positions(part)


class SourceCounter:
    """Counts the samples that a reader has yielded in one lane.

    Args:
        first: The number of the reader's first source among those of the chain.
        position: The position of the next sample.
        mean_bytes: Returns the mean size of a source's samples, for samples whose size is not in the index.
        sources: Number of the reader's sources.
        skipped: Ids of the items of this reader that hooks skip; it is emptied when they are counted.
    """

    __slots__ = ("_chunks", "_counted", "_first", "_is_one", "_last", "_mean_bytes", "_skipped")

    def __init__(
        self, first: int, position: int, mean_bytes: Callable[[int], int], *, sources: int, skipped: deque[Any]
    ) -> None:
        self._first = first
        self._skipped = skipped
        self._is_one = sources == 1
        self._mean_bytes = mean_bytes
        self._counted = position
        self._chunks: deque[_Chunk] = deque()
        # Of the last chunk that was counted, to name the sources of samples that a hook skips.
        self._last: tuple[range, IntArray | int] = (range(0), 0)

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
        if self._skipped:
            self._count_skipped(counts)
        while self._counted < position and self._chunks:
            chunk = self._chunks[0]
            stop = min(position, chunk.positions.stop)
            rows = slice(max(0, self._counted - chunk.positions.start), stop - chunk.positions.start)
            if rows.stop > rows.start:
                self._count_rows(chunk, rows, counts)
            self._counted = stop
            if stop == chunk.positions.stop:
                self._chunks.popleft()
                self._last = chunk.positions, int(chunk.source[0]) if self._is_one else chunk.source

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

    def _count_skipped(self, counts: Counts) -> None:
        positions = np.array([*_positions(tuple(self._skipped))], np.int64)
        self._skipped.clear()
        for covered, source in (self._last, *((chunk.positions, chunk.source) for chunk in self._chunks)):
            rows = positions[(positions >= covered.start) & (positions < covered.stop)] - covered.start
            numbers = np.bincount(np.full(len(rows), source) if isinstance(source, int) else source[rows])
            for number in np.flatnonzero(numbers).tolist():
                counts.add_source(self._first + number, SourceCounts(dropped=int(numbers[number])))
