"""A remote object as a file that is read at offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol import ClosesOnExit, PendingRead

MAX_REQUEST_BYTES = 8 << 20  # longer ranges arrive sooner by several requests at a time


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
        size_bytes: Its size.
        read: Reads the bytes [start, stop) of it. ``is_sparse=True`` announces that few of its bytes will be read.
        fetch: Begins to read such a range, in the same way.
    """

    __slots__ = ("_fetch", "_is_sparse", "_read", "size_bytes")

    def __init__(self, size_bytes: int, read: Callable[..., bytes], fetch: Callable[..., PendingRead]) -> None:
        self.size_bytes = size_bytes
        self._read, self._fetch = read, fetch
        self._is_sparse = False

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        return self._read(offset, stop, is_sparse=self._is_sparse) if stop > offset else b""

    def expect_few(self) -> None:
        self._is_sparse = True

    def expect(self, offset: int, size_bytes: int) -> None:
        pass

    def fetch(self, offset: int, size_bytes: int) -> PendingRead:
        stop = offset + size_bytes
        starts = range(offset, stop, MAX_REQUEST_BYTES)
        parts = [
            self._fetch(start, min(start + MAX_REQUEST_BYTES, stop), is_sparse=self._is_sparse) for start in starts
        ]
        return parts[0] if len(parts) == 1 else _Parts(parts)

    def close(self) -> None:
        pass
