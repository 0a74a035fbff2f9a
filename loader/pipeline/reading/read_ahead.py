"""Fetch the next chunks of samples while those before them are used: the order is known, so nothing is guessed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

__all__ = ["READ_AHEAD_BYTES", "ReadAhead", "StartedChunk"]

READ_AHEAD_BYTES = 64 << 20
"""Bytes that a process fetches ahead of their use."""


class StartedChunk(Protocol):
    """A chunk of samples, which are being fetched."""

    @property
    def fetched_bytes(self) -> int:
        """Number of bytes that are fetched."""

    def read(self, positions: Sequence[int], begin: Callable[[int], None]) -> Iterator[tuple[Any, int]]:
        """Return an iterator over samples with their positions."""


class ReadAhead:
    """The next chunks of one lane.

    Args:
        start_chunk: Locates and starts the next chunk; returns it with its positions. Raises ``StopIteration`` at the
            end of the pass.
        limit_bytes: Number of bytes to fetch ahead; at least one chunk is.
        begin: See :meth:`StartedChunk.read`.
    """

    def __init__(
        self,
        start_chunk: Callable[[], tuple[StartedChunk, Sequence[int]]],
        *,
        limit_bytes: int,
        begin: Callable[[int], None],
    ) -> None:
        self._start_chunk = start_chunk
        self._limit_bytes = limit_bytes
        self._begin = begin
        self._chunks: deque[tuple[StartedChunk, Sequence[int]]] = deque()
        self._bytes = 0
        self._is_over = False

    def clear(self) -> None:
        """Drop the chunks that were started."""
        self._chunks.clear()
        self._bytes = 0
        self._is_over = False

    def next(self) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        while not self._is_over and (not self._chunks or self._bytes < self._limit_bytes):
            try:
                chunk, positions = self._start_chunk()
            except StopIteration:
                self._is_over = True
                break
            self._chunks.append((chunk, positions))
            self._bytes += chunk.fetched_bytes
        if not self._chunks:
            raise StopIteration
        chunk, positions = self._chunks.popleft()
        self._bytes -= chunk.fetched_bytes
        return chunk.read(positions, self._begin)
