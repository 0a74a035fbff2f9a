"""A remote object as a file that is read at offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import ClosesOnExit

if TYPE_CHECKING:
    from .remote_storage import RemoteStorage

__all__ = ["RemoteFile"]


class RemoteFile(ClosesOnExit):
    """An object; each read is a request.

    Args:
        storage: The store of the object.
        name: Its name there.
        size_bytes: Its size.
        etag: Its version; empty reads any version.
    """

    __slots__ = ("_etag", "_name", "_storage", "size_bytes")

    def __init__(self, storage: RemoteStorage, name: str, size_bytes: int, etag: str) -> None:
        self._storage = storage
        self._name = name
        self._etag = etag
        self.size_bytes = size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        return self._storage.read_range(self._name, offset, stop, etag=self._etag) if stop > offset else b""

    def expect(self, offset: int, size_bytes: int) -> None:
        pass

    def close(self) -> None:
        pass
