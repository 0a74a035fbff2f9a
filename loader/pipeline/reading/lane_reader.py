"""Read the samples of one lane.

The order returns the samples of several chunks of positions at a time, a chunk of samples is located in the index
together, and each sample takes one positioned read. Chunks start small so that the first batch comes early; their size
does not affect the order.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from ...arrays import IntArray
from ...errors import EnergonError, StateError
from ...order import GONE, LaneOrder, MixHistory
from ..contract.item_id import ItemId, position_of
from ..contract.lane import Lane
from ..contract.stage import SKIPPED, State
from ..measuring.counts import STORAGE, Counts
from ..measuring.source_counter import SourceCounter
from .fetched_ranges import MEMBER_BYTES
from .joined_source import RowReader
from .read_ahead import FetchedChunk, ReadAhead
from .sample_chunk import ChunkReader, SourceTable
from .source import Source

__all__ = ["LaneReader"]

_FIRST_CHUNK, _MAX_CHUNK, _GROWTH = 32, 1024, 4
_MANY_SOURCES, _MAX_CHUNK_OF_MANY = 16, 4096  # so that some samples of each are located, and read, together
_CHUNKS_ORDERED = 4  # at a time: the fixed cost of the order is that of about a thousand positions
_CHUNKS_JOINED = 4  # to ranges that are fetched
_REBUILT_TOGETHER = 256  # positions


class _Definition(Protocol):
    """The stage, which all lanes share; see :class:`.ReadDataset`."""

    sources: tuple[Source, ...]
    history: MixHistory | None

    @property
    def key(self) -> str: ...

    @property
    def opened(self) -> tuple[SourceTable, ChunkReader | RowReader]: ...

    @property
    def waiting(self) -> MutableMapping[int, ReadAhead]: ...

    @property
    def is_remote(self) -> bool: ...

    @property
    def sample_bytes(self) -> int: ...

    def ahead_bytes(self, lanes: int) -> int: ...


class _SizedChunk(FetchedChunk, Protocol):
    @property
    def size_bytes(self) -> IntArray:
        """Shape (n,): the bytes of each sample; -1 if they are not one range."""


class LaneReader:
    """The running reader of a lane.

    Args:
        definition: The stage.
        order: The stream of the lane.
        lane: The lane.
        state: Its state.
    """

    def __init__(self, definition: _Definition, order: LaneOrder, lane: Lane, state: State) -> None:
        self._order = order
        self._table, self._rows = definition.opened
        self._begin = lane.last_sample.note_positions_at(lane.path)
        self._key = definition.key
        self._was_edited = definition.history is not None
        self._position: int = state.get(self._key, 0)  # of the next sample
        self._samples: Iterator[tuple[Any, int]] = iter(())  # of the current chunk
        self._ordered = range(self._position, self._position)  # positions whose order is known
        self._found: tuple[IntArray, IntArray, IntArray]  # their sources, numbers in the indexes, and epochs
        self._size, self._max_size = _FIRST_CHUNK, _MAX_CHUNK
        if len(definition.sources) >= _MANY_SOURCES:
            self._max_size = _MAX_CHUNK_OF_MANY
        self._located = self._position  # position of the next sample to locate
        self._ahead: ReadAhead | None = None
        if definition.is_remote:
            ahead_bytes = definition.ahead_bytes(lane.count)
            joined = 2 * ahead_bytes // (definition.sample_bytes + MEMBER_BYTES)
            self._max_size = min(_MAX_CHUNK, max(1, joined // _CHUNKS_JOINED))
            self._size = min(_FIRST_CHUNK, self._max_size)
            self._ahead = ReadAhead(
                self._locate_chunk,
                ahead_bytes=ahead_bytes,
                samples_joined=_CHUNKS_JOINED * self._max_size,
                begin=self._begin,
            )
            definition.waiting[lane.number] = self._ahead
        self._waiting = definition.waiting
        self._recorder = lane.recorder
        if lane.recorder is not None:
            sources = definition.sources
            self._counter = SourceCounter(
                lane.recorder.first_source(definition),
                self._position,
                lambda source: sources[source].sample_bytes,
                sources=len(sources),
                skipped=lane.recorder.skipped_items(lane),
            )
            lane.recorder.add_reader(self)
        self._first_rebuilt = -1  # first of the positions that the last load() located
        self._rebuilt: tuple[IntArray, IntArray]  # their sources, and numbers in the indexes

    def use_order(self, epochs: IntArray, samples: IntArray) -> None:
        """Use the order of the next samples of the only source, which is known already."""
        source = np.zeros(len(samples), dtype=np.int64)
        self._found = source, self._table.index_numbers(source, samples), epochs
        self._ordered = range(self._position, self._position + len(samples))

    def next(self) -> tuple[Any, ItemId]:
        """Return the next sample and its position."""
        while True:
            try:
                for item in self._samples:  # returns after one item
                    self._position = item[1] + 1
                    return item
            except BaseException:
                self._start_again()
                raise
            self._samples = self._next_chunk()

    def _next_chunk(self) -> Iterator[tuple[Any, int]]:
        recorder = self._recorder
        if recorder is None:
            return self._chunk() if self._ahead is None else self._fetched(self._ahead)
        begin_ns = perf_counter_ns()
        try:
            return self._chunk() if self._ahead is None else self._fetched(self._ahead)
        except BaseException:
            self.count_samples(recorder.counts)  # the end of the pass, after which this iterator is dropped
            raise
        finally:
            recorder.add_always(STORAGE, begin_ns)

    def count_samples(self, counts: Counts) -> None:
        """Add the samples that were yielded since the last call."""
        self._counter.count(self._position, counts)

    def _start_again(self) -> None:
        """Read on from the sample that failed, if there is a next call."""
        self._located = self._position
        if self._ahead is not None:
            self._ahead.clear()

    def _chunk(self) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        chunk, positions = self._locate_chunk()
        try:
            return chunk.read(positions, self._begin)
        except BaseException:
            self._located = positions.start
            raise

    def _fetched(self, ahead: ReadAhead) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk; before the first one, let the lanes that come next fetch theirs.

        Raises:
            StopIteration: The pass is over.
        """
        ahead.start()
        for number, other in list(self._waiting.items()):
            self._waiting.pop(number, None)
            with suppress(EnergonError):  # its own lane finds the error again
                other.start()
        return ahead.next()

    def _locate_chunk(self) -> tuple[_SizedChunk, range]:
        """Return the next chunk and its positions.

        Raises:
            StopIteration: The pass is over.
        """
        start = self._located
        if start not in self._ordered:
            self._order_more()
        rows = slice(start - self._ordered.start, start - self._ordered.start + self._size)
        self._size = min(self._size * _GROWTH, self._max_size)
        source, index, epoch = (column[rows] for column in self._found)
        positions = self._ordered[rows]
        excluded = self._table.excluded(source, index)
        # If this fails, the next call finds the error again, or reads these samples.
        chunk = self._rows.chunk(source, index, excluded)
        if self._recorder is not None:
            self._counter.add_chunk(positions, source, epoch, chunk.size_bytes, excluded)
            if self._counter.is_full:
                self.count_samples(self._recorder.counts)
        self._located = positions.stop
        return chunk, positions

    def _order_more(self) -> None:
        start, length = self._located, self._order.length
        stop = start + self._size * _CHUNKS_ORDERED
        ordered = range(start, stop if length is None else min(stop, length))
        if not ordered:
            raise StopIteration
        source, epoch, sample = self._order.locate(start, ordered.stop)
        if self._was_edited:
            known = _before_gone(source)
            source, epoch, sample, ordered = source[:known], epoch[:known], sample[:known], ordered[:known]
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = ordered

    def state(self) -> State:
        """Return the position of the next sample."""
        return {self._key: self._position}

    def load(self, item_id: ItemId) -> Any:
        """Read a sample again; :data:`SKIPPED` if its dataset is gone."""
        position = position_of(item_id)
        first = position - position % _REBUILT_TOGETHER
        if first != self._first_rebuilt:
            # Samples of a buffer have positions close to each other: locate their neighbourhood once.
            stop = first + _REBUILT_TOGETHER
            if self._order.length is not None:
                stop = min(stop, self._order.length)
            source, _, sample = self._order.locate(first, stop)
            self._rebuilt = source, self._table.index_numbers(source, sample)
            self._first_rebuilt = first
        row = slice(position - first, position - first + 1)
        source, index = (column[row] for column in self._rebuilt)
        if source[0] == GONE:
            return SKIPPED
        return next(self._rows.read((position,), source, index, self._table.excluded(source, index), self._begin))[0]


def _before_gone(source: IntArray) -> int:
    """Return the number of positions before the first one whose dataset left the mix.

    Raises:
        StateError: It is the first position.
    """
    gone = np.flatnonzero(source == GONE)
    if not len(gone):
        return len(source)
    if gone[0] == 0:
        raise StateError(
            "a sample of this micro-batch is of a dataset that has left the mix of the run",
            hint="rebuild it from a state before that change of the mix, with the documents of that time",
        )
    return int(gone[0])
