"""A remote object as a file that is read at offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..protocol import ClosesOnExit, FileInfo, PendingRead

MAX_REQUEST_BYTES = 8 << 20


class RangeReader(Protocol):
    """A store that reads byte ranges of objects."""

    def read_range(self, name: str, start: int, stop: int, *, info: FileInfo | None = None) -> bytes:
        """Read the bytes [start, stop) of a file, of a known size and version if there is an ``info``."""

    def read_cached(self, info: FileInfo, start: int, stop: int, *, is_sparse: bool = False) -> bytes:
        """Read the bytes [start, stop) of a file of a known size and version through the cache of this node."""

    def fetch_range(self, info: FileInfo, start: int, stop: int, *, is_sparse: bool = False) -> PendingRead:
        """Begin to read the bytes [start, stop) of a file of a known size and version."""


class _Parts:
    """A long range, fetched by several requests."""

    def __init__(self, parts: Sequence[PendingRead]) -> None:
        self._parts = parts

    def is_done(self) -> bool:
        return all(part.is_done() for part in self._parts)

    def result(self) -> bytes:
        return b"".join([part.result() for part in self._parts])


class RemoteFile(ClosesOnExit):
    """An object; each read is a request, which checks its size and version.

    Args:
        storage: The store of the object.
        info: Its name, size and version.
        is_cached: Read through the cache of this node, which fetches whole blocks.
    """

    __slots__ = ("_info", "_is_cached", "_is_sparse", "_storage", "size_bytes")

    def __init__(self, storage: RangeReader, info: FileInfo, *, is_cached: bool = False) -> None:
        self._storage = storage
        self._is_cached = is_cached
        self._is_sparse = False
        self._info = info
        self.size_bytes = info.size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        if stop <= offset:
            return b""
        if self._is_cached:
            return self._storage.read_cached(self._info, offset, stop, is_sparse=self._is_sparse)
        return self._storage.read_range(self._info.name, offset, stop, info=self._info)

    def expect_few(self) -> None:
        self._is_sparse = True

    def expect(self, offset: int, size_bytes: int) -> None:
        pass

    def fetch(self, offset: int, size_bytes: int) -> PendingRead:
        starts = range(offset, offset + size_bytes, MAX_REQUEST_BYTES)
        stop = offset + size_bytes
        parts = [
            self._storage.fetch_range(
                self._info, start, min(start + MAX_REQUEST_BYTES, stop), is_sparse=self._is_sparse
            )
            for start in starts
        ]
        return parts[0] if len(parts) == 1 else _Parts(parts)

    def close(self) -> None:
        pass
