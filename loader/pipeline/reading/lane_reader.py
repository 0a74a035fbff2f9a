"""Read the samples of one lane.

A chunk of samples is located in the index together, and each sample takes one positioned read.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...errors import EnergonError, StateError
from ...format.documents.messages import short_repr
from ...order import GONE, BlendedLane, LaneOrder
from ..contract.item_id import ItemId
from ..contract.lane import Lane, note_lost_item
from ..contract.stage import SKIPPED, State
from ..measuring.counts import STORAGE, Counts, SourceCounter
from ..measuring.item_sources import ReaderSources
from ..measuring.recorder import WorkerRecorder
from .fetched_ranges import MEMBER_BYTES
from .read_ahead import ReadAhead
from .read_together import LaneReaders
from .sample_chunk import OpenSources, SampleChunk
from .shard_reads import COALESCED_BYTES

_MAX_CHUNK = 1024  # samples
_MANY_SOURCES, _MAX_CHUNK_OF_MANY = 16, 4096  # so that some samples of each are located, and read, together
_CHUNKS_JOINED = 4  # to ranges that are fetched
_REBUILT_TOGETHER = 256  # positions


class LaneReader:
    """The running reader of a lane.

    Attributes:
        position: Position of the next sample.
        located: Position of the first sample that is not located.
        table: The table of samples.
        begin: Called with the position of each sample before it is read.
    """

    def __init__(self, definition: Any, order: LaneOrder, lane: Lane, state: State) -> None:
        self._order = order
        self._lane = lane
        self.table: OpenSources = definition.opened
        self.begin = lane.last_sample.note_positions_at(lane.path)
        self._key = definition.key
        self.position: int = state.get(self._key, 0)  # of the next sample
        self._samples: Iterator[tuple[Any, int]] = iter(())  # of the current chunk
        self.located = self.position  # position of the next sample to locate
        self._more: deque[Iterator[tuple[Any, int]]] = deque()  # the samples that follow
        self._together: LaneReaders | None = None
        self._opened_at = self.position
        self._ahead: ReadAhead | None = None
        # Samples in object stores are fetched ahead, in chunks as long as the memory of the lane permits.
        max_size, window_of = _MAX_CHUNK_OF_MANY if len(definition.sources) >= _MANY_SOURCES else _MAX_CHUNK, None
        if definition.is_remote:
            ahead_bytes = definition.ahead_bytes(lane.count)
            joined = 2 * ahead_bytes // (definition.sample_bytes + MEMBER_BYTES)
            max_size = min(_MAX_CHUNK, max(1, joined // _CHUNKS_JOINED))
            self._ahead = ReadAhead(
                self._locate_chunk,
                ahead_bytes=ahead_bytes,
                samples_joined=_CHUNKS_JOINED * max_size,
                begin=self.begin,
            )
            self._waiting = definition.waiting
            self._waiting[lane.number] = self._ahead
        elif isinstance(order, BlendedLane):
            window_of = order.window_of
        # Chunks of local samples end with the windows of the shuffle, whose samples are neighbours.
        self._chunks = OrderedChunks(order, self.position, definition, max_size=max_size, window_of=window_of)
        # Count the samples of each source, if statistics are measured.
        self._recorder = lane.recorder
        first = 0
        if lane.recorder is not None:
            sources, first = definition.sources, lane.recorder.first_source(definition)
            self._counter = SourceCounter(
                first, self.position, lambda source: sources[source].folder.sample_bytes, sources=len(sources)
            )
            lane.recorder.add_counter(self)
        lane.readers = ReaderSources(definition, lane, first=first)
        self._first_rebuilt = -1  # first of the positions that the last load() located
        self._rebuilt: tuple[IntArray, IntArray]  # their sources, and numbers in the indexes

    def read_with(self, together: LaneReaders, path: str, *, is_sparse: bool) -> None:
        """Order and locate the samples of the only source together with the samples of other readers of the lane.

        Args:
            is_sparse: An epoch reads less than half of the source's samples.
        """
        known = together.take_first(path, self.position)
        if known is not None:
            self._chunks.begin_with(self.position, *known)
        if self._ahead is None and type(self.table) is OpenSources and together.join(path, self, is_sparse=is_sparse):
            self._together = together
            self._chunks.limit_first(together.first_samples)

    def add_samples(
        self,
        samples: Iterator[tuple[Any, int]],
        positions: range,
        columns: tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_] | None],
    ) -> None:
        """Add located samples to those that come next.

        Args:
            columns: Their sources, epochs and bytes; and True for excluded samples, or None if no sample is excluded.
        """
        self._more.append(samples)
        self.located = positions.stop
        if self._recorder is not None:
            self._counter.add_chunk(positions, *columns)
            if self._counter.is_full:
                self.add_counts(self._recorder.counts)

    def next(self) -> tuple[Any, ItemId]:
        while True:
            try:
                for item in self._samples:  # returns after one item
                    raw, position = item
                    self.position = position + 1
                    if raw is not SKIPPED:
                        self.begin(position)
                    return item
            except BaseException:
                # A read that failed leaves the reader before the sample, so that the caller may try again.
                self._start_again()
                raise
            self._samples = self._next_chunk()

    def _next_chunk(self) -> Iterator[tuple[Any, int]]:
        begin_ns, recorder = perf_counter_ns(), self._recorder
        try:
            return self._chunk() if self._ahead is None else self._fetched(self._ahead)
        except BaseException:
            if recorder is not None:
                self.add_counts(recorder.counts)  # the end of the pass, after which this iterator is dropped
            raise
        finally:
            if recorder is not None:
                recorder.add_always(STORAGE, begin_ns)

    def add_counts(self, counts: Counts) -> None:
        """Add the samples that were yielded since the last call."""
        self._counter.count(self.position, counts)

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        """Count the samples of a pass that is left before its end, as the last one of ``repeats=2.5`` is."""
        if is_exiting():  # modules may be gone
            return
        recorder: WorkerRecorder | None = getattr(self, "_recorder", None)
        if recorder is not None and hasattr(self, "_counter"):
            self.add_counts(recorder.counts)

    def _start_again(self) -> None:
        self.located = self.position
        self._more.clear()
        if self._ahead is not None:
            self._ahead.clear()

    def _chunk(self) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        if not self._more and self._together is not None and self.located != self._opened_at:
            self._together.locate_more()
        if self._more:
            return self._more.popleft()
        chunk, positions = self._locate_chunk()
        try:
            return chunk.read(positions, self.begin)
        except BaseException:
            self.located = positions.start
            raise

    def _fetched(self, ahead: ReadAhead) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk; before the first one, let the lanes that come next fetch theirs.

        Raises:
            StopIteration: The pass is over.
        """
        ahead.start()
        for chunk_number, other in list(self._waiting.items()):
            self._waiting.pop(chunk_number, None)
            with suppress(EnergonError):  # its own lane finds the error again
                other.start()
        return ahead.next()

    def _locate_chunk(self) -> tuple[SampleChunk, range]:
        """Return the next chunk and its positions.

        Raises:
            StopIteration: The pass is over.
        """
        positions, source, index, epoch = self._chunks.at(self.located)
        excluded = self.table.excluded(source, index)
        # If this fails, the next call finds the error again, or reads these samples.
        chunk = self.table.chunk(source, index, excluded)
        if self._recorder is not None:
            self._counter.add_chunk(positions, source, epoch, chunk.size_bytes, excluded)
            if self._counter.is_full:
                self.add_counts(self._recorder.counts)
        self.located = positions.stop
        return chunk, positions

    def state(self) -> State:
        return {self._key: self.position}

    def load(self, item_id: ItemId) -> Any:
        if not isinstance(item_id, int) or not 0 <= item_id < (self._order.length or item_id + 1):
            raise StateError(f"expected the position of a sample, found {short_repr(item_id)}")
        position = item_id
        first = position - position % _REBUILT_TOGETHER
        if first != self._first_rebuilt:
            # Samples of a buffer have positions close to each other: locate their neighbourhood once.
            stop = first + _REBUILT_TOGETHER
            if self._order.length is not None:
                stop = min(stop, self._order.length)
            source, _, sample = self._order.locate(first, stop)
            self._rebuilt = source, self.table.index_numbers(source, sample)
            self._first_rebuilt = first
        row = slice(position - first, position - first + 1)
        source, index = (column[row] for column in self._rebuilt)
        if source[0] == GONE:
            note_lost_item(self._lane)
            return SKIPPED
        chunk = self.table.chunk(source, index, self.table.excluded(source, index))
        return next(chunk.read((position,), self.begin))[0]


_FIRST_CHUNK, _GROWTH = 32, 4  # samples; each chunk is larger than the last one
_CHUNKS_ORDERED = 4  # at a time: the fixed cost of the order is that of about a thousand positions

WindowOf = Callable[[int], "tuple[int, int] | None"]
"""Returns where the window of the shuffle that has a position begins and ends; None without windows."""


class OrderedChunks:
    """The chunks of a lane's stream.

    Args:
        definition: The :class:`.ReadDataset`, whose module imports this one.
        window_of: The windows with which chunks end, if they are small; None for none.
    """

    def __init__(
        self, order: LaneOrder, position: int, definition: Any, *, max_size: int, window_of: WindowOf | None
    ) -> None:
        self._order = order
        self._table: OpenSources = definition.opened
        self._size, self._max_size = min(_FIRST_CHUNK, max_size), max_size
        self._window_of = window_of
        self._sample_bytes: int = definition.sample_bytes if window_of else 0  # mean of a sample
        self._was_edited = definition.history is not None
        self._ordered = range(position, position)  # positions whose order is known
        self._found: tuple[IntArray, IntArray, IntArray]  # their sources, numbers in the indexes, and epochs

    def limit_first(self, samples: int) -> None:
        self._size = min(self._size, samples)

    def begin_with(self, position: int, epoch: IntArray, sample: IntArray) -> None:
        """Begin at a position with samples of the only source that were ordered elsewhere."""
        source = np.zeros(len(sample), dtype=np.int64)
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = range(position, position + len(sample))

    def at(self, start: int) -> tuple[range, IntArray, IntArray, IntArray]:
        """Return the chunk that begins at a position: positions, sources, numbers in the indexes, and epochs.

        Raises:
            StopIteration: The pass is over.
        """
        if start not in self._ordered:
            self._order_from(start)
        stop = min(self._end_of_chunk(start), self._ordered.stop)
        rows = slice(start - self._ordered.start, stop - self._ordered.start)
        self._size = min(self._size * _GROWTH, self._max_size)
        source, index, epoch = self._found
        return self._ordered[rows], source[rows], index[rows], epoch[rows]

    def _end_of_chunk(self, start: int) -> int:
        """Return where the chunk that begins at a position ends: with a window, if that is read by ranges.

        The samples of a window are neighbours in their shards, in parts that are read whole if the chunk has all of it.
        """
        stop = start + self._size
        window = self._window_of(stop) if self._window_of is not None else None
        if window is None:
            return stop
        first, end = window
        if first > start:
            return first
        is_small = end - start <= 2 * self._size and (end - start) * self._sample_bytes <= COALESCED_BYTES
        return end if is_small else stop

    def _order_from(self, start: int) -> None:
        length = self._order.length
        stop = start + self._size * _CHUNKS_ORDERED
        # Order whole windows, if that is not much more: their samples are read together.
        window = self._window_of(stop) if self._window_of is not None else None
        if window is not None and window[1] - start <= 2 * (stop - start):
            stop = window[1]
        ordered = range(start, stop if length is None else min(stop, length))
        if not ordered:
            raise StopIteration
        source, epoch, sample = self._order.locate(start, ordered.stop)
        # Stop before the first position whose dataset left the mix.
        if self._was_edited:
            known = _before_gone(source)
            source, epoch, sample, ordered = source[:known], epoch[:known], sample[:known], ordered[:known]
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = ordered


def _before_gone(source: IntArray) -> int:
    """Return the number of positions before the first one whose dataset left the mix."""
    gone = np.flatnonzero(source == GONE)
    if not len(gone):
        return len(source)
    if gone[0] == 0:
        raise StateError(
            "a sample of this micro-batch is of a dataset that has left the mix of the run",
            hint="rebuild it from a state before that change of the mix, with the documents of that time",
        )
    return int(gone[0])
