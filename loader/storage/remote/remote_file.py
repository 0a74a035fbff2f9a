"""A remote object as a file that is read at offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import ClosesOnExit, FileInfo

if TYPE_CHECKING:
    from .remote_storage import RemoteStorage

__all__ = ["RemoteFile"]


class RemoteFile(ClosesOnExit):
    """An object; each read is a request, which checks its size and version.

    Args:
        storage: The store of the object.
        info: Its name, size and version.
    """

    __slots__ = ("_info", "_storage", "size_bytes")

    def __init__(self, storage: RemoteStorage, info: FileInfo) -> None:
        self._storage = storage
        self._info = info
        self.size_bytes = info.size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        stop = min(offset + size_bytes, self.size_bytes)
        if stop <= offset:
            return b""
        return self._storage.read_range(self._info.name, offset, stop, info=self._info)

    def expect(self, offset: int, size_bytes: int) -> None:
        pass

    def close(self) -> None:
        pass
