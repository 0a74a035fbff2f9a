"""Fetch the next chunks of samples while those before them are used: the order is known, so nothing is guessed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakMethod

from ...errors import EnergonError
from .fetched_ranges import FetchedRanges, FetchQueue, join_chunks

READ_AHEAD_BYTES = 64 << 20
"""Bytes that a process fetches ahead of their use; it holds twice as many, with those of ranges used in part."""


_MAX_CHUNKS_AHEAD = 64  # that are located but have nothing to fetch
_FIRST_RANGE_BYTES = 128 << 10  # take little longer than single samples


class ReadAhead:
    """The next chunks of one lane.

    A range is fetched for the first of its samples and kept for the others: within a shuffled window, that are all
    samples of a slice.

    Args:
        locate_chunk: Locates the next :class:`.SampleChunk`; returns it with its positions. Raises ``StopIteration`` at
            the end of the pass.
        samples_joined: Number of samples among which neighbours are looked for: what twice these bytes hold.
    """

    def __init__(
        self,
        locate_chunk: Callable[[], tuple[Any, Sequence[int]]],
        *,
        ahead_bytes: int,
        samples_joined: int,
        begin: Callable[[int], Any],
    ) -> None:
        # Without a cycle, what is held is freed as soon as the lane is dropped.
        self._locate_chunk = WeakMethod(locate_chunk)
        self._begin = begin
        self._samples_joined = samples_joined
        self._max_range_bytes = ahead_bytes // 4  # a range is fetched whole
        self._queue = FetchQueue(ahead_bytes, 2 * ahead_bytes, WeakMethod(self._join_more))
        self.clear()

    def clear(self) -> None:
        self._queue.clear()
        self._chunks: deque[tuple[Any, Sequence[int]]] = deque()  # that were located
        self._ranges: deque[FetchedRanges | None] = deque()  # of those whose neighbours are not joined yet
        self._unjoined = 0  # samples of the latter
        self._is_first = True
        self._is_over = False

    def start(self) -> None:
        if self._is_first and self._join_next():
            self._queue.fetch_planned()

    def next(self) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        if len(self._chunks) == len(self._ranges) and not self._join_next():
            raise StopIteration
        chunk, positions = self._chunks.popleft()
        self._queue.fill()
        samples: Iterator[tuple[Any, int]] = chunk.read(positions, self._begin)
        return samples

    def _join_more(self) -> bool:
        """Join the neighbours of one more chunk, unless many have nothing to fetch."""
        with suppress(EnergonError):  # the next call finds the error again
            return len(self._chunks) - len(self._ranges) < _MAX_CHUNKS_AHEAD and self._join_next()
        return False

    def _join_next(self) -> bool:
        """Join the neighbours of the next chunk; return False at the end of the pass."""
        self._locate()
        if not self._ranges:
            return False
        # The first chunk comes soon: it does not wait for large ranges.
        max_bytes = min(self._max_range_bytes, _FIRST_RANGE_BYTES) if self._is_first else self._max_range_bytes
        self._is_first = False
        first = self._ranges.popleft()
        self._unjoined -= len(self._chunks[-len(self._ranges) - 1][1])
        if first is not None:
            with suppress(EnergonError):  # a shard that cannot be opened: reading its first sample says so
                join_chunks([first, *(ranges for ranges in self._ranges if ranges is not None)], max_bytes=max_bytes)
        return True

    def _locate(self) -> None:
        # Locate chunks until so many samples wait to be joined that neighbours are found among them.
        while not self._is_over and (not self._ranges or self._unjoined < self._samples_joined):
            try:
                chunk, positions = self._locate_chunk()()  # type: ignore[misc]  # the lane holds this
            except StopIteration:
                self._is_over = True
            except EnergonError:
                if not self._chunks:
                    raise
                return  # the samples before it come first
            else:
                ranges = None
                with suppress(EnergonError):  # reading its first sample finds the error again
                    ranges = chunk.fetch(self._queue)
                self._chunks.append((chunk, positions))
                self._unjoined += len(positions)
                self._ranges.append(ranges)
