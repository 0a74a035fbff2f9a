"""Files read at offsets: as a Python file with a position, or in larger pieces."""

from __future__ import annotations

import io

from .protocol import ClosesOnExit, ReadableFile


class FileStream(io.RawIOBase):
    """A region of an open file as a Python file: bytes ``[offset, offset + size_bytes)``.

    Args:
        file: Open file. It stays open when the stream is closed.
        offset: First byte of the region.
        size_bytes: Length of the region; None: all bytes that follow.
    """

    def __init__(self, file: ReadableFile, offset: int = 0, size_bytes: int | None = None) -> None:
        super().__init__()
        self._file = file
        self._start = offset
        self._size = file.size_bytes - offset if size_bytes is None else size_bytes
        self._position = 0

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
        """Read up to ``size`` bytes, fewer only at the end."""
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._read_here(wanted) if wanted else b""
        self._position += len(data)
        return data

    def _read_here(self, wanted: int) -> bytes:
        """Read bytes at the current position, which do not reach beyond the end."""
        return self._file.read_at(self._start + self._position, wanted)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class UnannouncedReads(ClosesOnExit):
    """A file that ignores announced reads: it fetches its bytes by a rule of its own."""

    def expect(self, offset: int, size_bytes: int) -> None:
        pass

    def expect_few(self) -> None:
        pass

    def fetch(self, offset: int, size_bytes: int) -> None:
        pass


class AscendingFile(UnannouncedReads):
    """A file for many small reads at ascending offsets, which it fetches together: of an object, by few requests.

    Args:
        file: Open file, which is closed with this one.
        size_bytes: Bytes of a read of it.
    """

    def __init__(self, file: ReadableFile, size_bytes: int = 8 << 20) -> None:
        self._file = file
        self._stream = io.BufferedReader(FileStream(file), size_bytes)
        self.size_bytes = file.size_bytes

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        self._stream.seek(offset)
        return self._stream.read(size_bytes)

    def close(self) -> None:
        self._file.close()
