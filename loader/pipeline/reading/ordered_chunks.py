"""Divide the stream of a lane into chunks, and order the positions of several of them at a time.

Chunks start small so that the first batch comes early; their size does not affect the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ...arrays import IntArray
from ...errors import StateError
from ...order import GONE, LaneOrder
from .shard_reads import COALESCED_BYTES

_FIRST_CHUNK, _GROWTH = 32, 4  # samples; each chunk is larger than the last one
_CHUNKS_ORDERED = 4  # at a time: the fixed cost of the order is that of about a thousand positions

WindowOf = Callable[[int], "tuple[int, int] | None"]
"""Returns where the window of the shuffle that has a position begins and ends; None without windows."""


class _Table(Protocol):
    def index_numbers(self, source: IntArray, sample: IntArray) -> IntArray:
        """Return the numbers of samples in the indexes of their sources."""


class OrderedChunks:
    """The chunks of a lane's stream.

    Args:
        order: The stream.
        table: The table of samples.
        position: Position of the first sample.
        max_size: The most samples of a chunk.
        window_of: The windows with which chunks end, if they are small; None for none.
        sample_bytes: Mean bytes of a sample.
        was_edited: Datasets of the stream may have left the mix.
    """

    def __init__(
        self,
        order: LaneOrder,
        table: _Table,
        position: int,
        *,
        max_size: int,
        window_of: WindowOf | None,
        sample_bytes: int,
        was_edited: bool,
    ) -> None:
        self._order = order
        self._table = table
        self._size, self._max_size = min(_FIRST_CHUNK, max_size), max_size
        self._window_of = window_of or _no_window
        self._sample_bytes = sample_bytes
        self._was_edited = was_edited
        self._ordered = range(position, position)  # positions whose order is known
        self._found: tuple[IntArray, IntArray, IntArray]  # their sources, numbers in the indexes, and epochs

    def limit_first(self, samples: int) -> None:
        """Limit the samples of the next chunk."""
        self._size = min(self._size, samples)

    def begin_with(self, position: int, epoch: IntArray, sample: IntArray) -> None:
        """Begin at a position with samples of the only source that were ordered elsewhere."""
        source = np.zeros(len(sample), dtype=np.int64)
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = range(position, position + len(sample))

    def at(self, start: int) -> tuple[range, IntArray, IntArray, IntArray]:
        """Return the chunk that begins at a position: positions, sources, numbers in the indexes, and epochs.

        Raises:
            StateError: The dataset of the first sample left the mix.
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
        window = self._window_of(stop)
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
        window = self._window_of(stop)
        if window is not None and window[1] - start <= 2 * (stop - start):
            stop = window[1]
        ordered = range(start, stop if length is None else min(stop, length))
        if not ordered:
            raise StopIteration
        source, epoch, sample = self._order.locate(start, ordered.stop)
        if self._was_edited:
            known = _before_gone(source)
            source, epoch, sample, ordered = source[:known], epoch[:known], sample[:known], ordered[:known]
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = ordered


def _no_window(position: int) -> None:
    """Return None: the order has no windows."""


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
