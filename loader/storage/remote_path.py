"""The methods of paths for URLs of object stores."""

from __future__ import annotations

import errno
import io
import itertools
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import IO, Any, TypeVar

from ..errors import StorageError
from .protocol import FileInfo, ReadableFile
from .remote import RemoteStorage
from .urls import open_parent, open_storage

T = TypeVar("T")

_READ_AT_ONCE = 1 << 20  # bytes of a request for small reads


def _folder(url: str) -> RemoteStorage:
    storage = open_storage(url)
    if not isinstance(storage, RemoteStorage):
        raise TypeError(f"expected the URL of an object store, found {url!r}")
    return storage


def _file(url: str) -> tuple[RemoteStorage, str]:
    folder, _, name = url.rpartition("/")
    if folder.endswith("/"):
        open_parent(url)  # raises: this is a bucket
    return _folder(folder), name


def stat(url: str) -> FileInfo:
    """Return the size, time and version of a file; raise a ``FileNotFoundError`` for a missing one."""
    return _of_file(url, RemoteStorage.stat)


def stat_any(url: str) -> FileInfo:
    """Return the size and time of a file, or of a folder, whose name and size are empty; raise as :func:`stat`."""
    try:
        return stat(url)
    except FileNotFoundError:
        newest = max((below.mtime_ns for below in _folder(url).objects()), default=None)
        if newest is None:
            raise
        return FileInfo(name="", size_bytes=0, mtime_ns=newest)


def read(url: str) -> bytes:
    """Read a whole file, in one request; raise a ``FileNotFoundError`` for a missing one."""
    return _of_file(url, RemoteStorage.read)


def _of_file(url: str, ask: Callable[[RemoteStorage, str], T]) -> T:
    """Call a method of the storage of a file; a missing file is a ``FileNotFoundError``, as for local files."""
    try:
        return ask(*_file(url))
    except StorageError as error:
        if error.is_missing:
            raise FileNotFoundError(errno.ENOENT, "this object does not exist", url) from error
        raise


def is_file(url: str) -> bool:
    """Return True if there is an object of this name."""
    if url.rpartition("/")[0].endswith("/"):
        return False  # a bucket
    try:
        stat(url)
    except FileNotFoundError:
        return False
    return True


def is_dir(url: str) -> bool:
    """Return True if there are objects below this name."""
    return _folder(url).has_objects()


def exists(url: str) -> bool:
    """Return True if there is an object of this name, or one below it."""
    return is_file(url) or is_dir(url)


def open_file(url: str, mode: str, encoding: str) -> IO[Any]:
    """Open a file. A file that is written appears when it is closed, or not at all if a ``with`` block fails.

    Raises:
        FileNotFoundError: There is no such file.
        FileExistsError: The mode is ``"x"``, and there is such a file.
        ValueError: The mode reads and writes, or appends.
    """
    # Bytes or text is chosen last: all files are opened as bytes.
    kind = mode.replace("b", "").replace("t", "")
    if kind not in ("r", "w", "x"):
        raise ValueError(f"expected a mode 'r', 'w' or 'x' for an object, found {mode!r}")
    storage, name = _file(url)
    if kind == "r":
        # Small reads would each be a request, so a buffer joins them.
        reader = io.BufferedReader(FileStream(storage.open(name, stat(url))), _READ_AT_ONCE)
        return reader if "b" in mode else io.TextIOWrapper(reader, encoding=encoding)
    if kind == "x" and is_file(url):
        raise FileExistsError(errno.EEXIST, "this object exists", url)
    # The condition of `x` is checked again by the store when the file is written.
    upload = _Upload(storage, name, if_absent=kind == "x")
    return upload if "b" in mode else _TextUpload(upload, encoding=encoding)


class _Upload(io.BufferedRandom):
    def __init__(self, storage: RemoteStorage, name: str, *, if_absent: bool) -> None:
        fd, self._path = tempfile.mkstemp(prefix="energon-upload-")
        super().__init__(io.FileIO(fd, "r+b"))
        self._place = (storage, name, if_absent)
        self.is_kept = True

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self.is_kept:
                self.flush()
                storage, name, if_absent = self._place
                if if_absent:
                    storage.put(name, Path(self._path).read_bytes(), if_absent=True)
                else:
                    storage.upload(name, self._path)
        finally:
            os.unlink(self._path)
            super().close()

    def __exit__(self, kind: object, *_: object) -> None:
        self.is_kept &= kind is None
        self.close()


class _TextUpload(io.TextIOWrapper):
    def __init__(self, upload: _Upload, *, encoding: str) -> None:
        super().__init__(upload, encoding=encoding)
        self._upload = upload

    def __exit__(self, kind: object, *_: object) -> None:
        self._upload.is_kept &= kind is None
        self.close()


def walk(url: str) -> Iterator[str]:
    """Yield the URLs of all objects below a URL, sorted as paths."""
    storage = _folder(url)
    # Some tools mark folders by empty objects.
    names = [listed.key for listed in storage.objects() if not listed.key.endswith("/")]
    return (storage.path(name) for name in sorted(names))


def glob(url: str, pattern: str) -> list[str]:
    """Return the URLs of the files and folders below a URL that match a pattern, sorted.

    As in a shell, ``*`` and ``**`` do not match names that begin with a dot.
    """
    parts = posixpath.normpath(pattern).split("/")
    # A pattern may begin above the URL.
    while parts[0] == "..":
        url, parts = url.rpartition("/")[0], parts[1:]
    # List below the folders that have no wildcard, instead of the whole bucket.
    fixed = list(itertools.takewhile(lambda part: not has_magic(part), parts[:-1]))
    storage = _folder(url)
    # Stores have no folders, so the folders in the path of each object are matched, too.
    matches = set()
    for listed in storage.objects("/".join(fixed)):
        path = listed.key.rstrip("/").split("/")
        folders = {tuple(path[:depth]) for depth in range(len(path))}
        matches |= {folder for folder in folders if _matches(folder, parts)}
        if not pattern.endswith("/") and _matches(path, parts):
            matches.add(tuple(path))
    return sorted(storage.path("/".join(path)) for path in matches)


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not path
    # `**` matches no folder, or one more folder.
    if pattern[0] == "**" and _matches(path, pattern[1:]):
        return True
    if not path or (path[0].startswith(".") and has_magic(pattern[0]) and not pattern[0].startswith(".")):
        return False
    if pattern[0] == "**":
        return _matches(path[1:], pattern)
    return fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def remove(url: str, *, missing_ok: bool) -> None:
    """Remove a file; raise a ``FileNotFoundError`` for a missing one, unless that is permitted."""
    if not missing_ok:
        stat(url)
    storage, name = _file(url)
    storage.remove_files([name])


# Files read at offsets: as a Python file with a position, or in larger pieces.


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
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._read_here(wanted) if wanted else b""
        self._position += len(data)
        return data

    def _read_here(self, wanted: int) -> bytes:
        return self._file.read_at(self._start + self._position, wanted)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class AscendingFile(ReadableFile):
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
