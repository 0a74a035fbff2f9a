"""A run of bytes within a file, as a Python file: what is not asked for is not read."""

from __future__ import annotations

import io

from ..storage import ReadableFile

__all__ = ["FileRegion"]

_FIRST_READ = 4 * 1024
_LARGEST_READ = 1024 * 1024


class FileRegion(io.RawIOBase):
    """Reads bytes ``[offset, offset + size_bytes)`` of an open file.

    It reads a little ahead: first 4 KiB, four times as much whenever a read goes on where the last one ended.

    Args:
        file: Stays open when this is closed.
        offset: Where the region starts.
        size_bytes: Its length.
    """

    def __init__(self, file: ReadableFile, offset: int, size_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._start = offset
        self._size = size_bytes
        self._position = 0
        self._ahead = _FIRST_READ
        self._buffer = b""
        self._buffer_start = 0
        self.bytes_read = 0
        """How many bytes of the file were read."""
        self.most_bytes: int | None = None
        """How many may be read; None: all, as often as is wanted."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the start of the file")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes, fewer only at the end.

        Raises:
            ValueError: That is more than may be read.
        """
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        data = b""
        if wanted:
            start = self._position - self._buffer_start
            if start < 0 or start + wanted > len(self._buffer):
                self._fill(wanted)
                start = 0
            data = self._buffer[start : start + wanted]
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _fill(self, wanted: int) -> None:
        """Read from the position on, at least what is wanted."""
        goes_on = self._buffer_start <= self._position <= self._buffer_start + len(self._buffer)
        if self._buffer and goes_on:
            self._ahead = min(4 * self._ahead, _LARGEST_READ)
        size = min(max(wanted, self._ahead), self._size - self._position)
        if self.most_bytes is not None and self.bytes_read + size > self.most_bytes:
            raise ValueError(f"more than {self.most_bytes >> 20} MiB would have to be read")
        self._buffer = self._file.read_at(self._start + self._position, size)
        self._buffer_start = self._position
        self.bytes_read += len(self._buffer)
