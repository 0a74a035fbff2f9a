"""Read the contents of the parts of rows, in a worker."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...accounting.kinds import HEADER_BYTES, MEDIA_KINDS, kind_of_bytes, kind_of_name
from ...errors import EnergonError, SampleError, StorageError
from ...storage import FileStream, ReadableFile, is_url, open_parent, raise_storage_error
from ..rows.row import CellRef, FaultRef, FileRef, PartRef, RangeRef, ValueRef
from ..sources.source import CellReader, Source
from ..writing.shard_file import FileContents, Readable
from .read_ahead import ReadAhead

_LARGE_BYTES = 32 * 1024 * 1024  # larger parts are copied in pieces
_MAX_OPEN_FILES = 128
_NEVER_EMPTY = frozenset({*MEDIA_KINDS, "array", "tree"})


class ContentReader:
    """Reads parts of rows.

    Args:
        sources: The sources of the rows.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._cells: dict[int, CellReader] = {}
        self._files: dict[bytes, ReadableFile] = {}
        self._streams: list[Readable] = []
        self._ahead = ReadAhead(self._open)

    def announce(self, parts: Iterable[PartRef]) -> None:
        """Announce parts that will be read soon; those announced before the last call are forgotten.

        Raises:
            EnergonError: A file cannot be opened.
        """
        self._ahead.announce(part for part in parts if isinstance(part, RangeRef) and part.size_bytes <= _LARGE_BYTES)

    def read(self, source: int, part: PartRef) -> bytes | FileContents:
        """Return the contents of a part; a large file is open until :meth:`release`.

        Args:
            source: Number of its source.
            part: The reference.

        Raises:
            EnergonError: The contents cannot be read.
        """
        match part:
            case ValueRef():
                return part.data
            case FileRef():
                return self._file(part)
            case RangeRef():
                return self._range(part)
            case CellRef():
                return self._open_cells(source).read(part)
            case FaultRef():
                raise SampleError(part.reason, hint=part.hint or None, code=part.code)

    def release(self) -> None:
        """Close the large files of the last row."""
        while self._streams:
            self._streams.pop().close()

    def close(self) -> None:
        """Close everything."""
        self.release()
        for file in self._files.values():
            file.close()
        self._files.clear()
        for cells in self._cells.values():
            cells.close()
        self._cells.clear()

    def _open_cells(self, source: int) -> CellReader:
        if source not in self._cells:
            self._cells[source] = self._sources[source].open_cells()
        return self._cells[source]

    def _file(self, part: FileRef) -> bytes | FileContents:
        path = os.fsdecode(part.path)
        if is_url(path):
            return self._url(path)
        try:
            file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115 - closed by release() if large
        except OSError as error:
            raise_storage_error("open this file", path, error)
        except ValueError as error:  # a zero byte in the name
            raise StorageError(f"no file can have this name: {error}", path=path) from error
        try:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                file.close()
                raise StorageError("expected a file, found a pipe, device or socket", path=path)
            size_bytes = status.st_size
            if size_bytes > _LARGE_BYTES:
                self._streams.append(file)
                return FileContents(file, size_bytes)
            with file:
                data = file.read(size_bytes + 1)
        except OSError as error:
            raise_storage_error("read this file", path, error)
        if data is None or len(data) != size_bytes:
            raise StorageError("this file changed while it was read", path=path, hint="wait until it is written")
        return data

    def _url(self, url: str) -> bytes | FileContents:
        storage, name = open_parent(url)
        file = storage.open(name)
        if file.size_bytes <= _LARGE_BYTES:
            with file:
                return file.read_at(0, file.size_bytes)
        stream = FileStream(file)
        self._streams.append(stream)
        return FileContents(stream, file.size_bytes)

    def _open(self, path: bytes) -> ReadableFile:
        file = self._files.get(path)
        if file is None:
            while len(self._files) >= _MAX_OPEN_FILES:
                with suppress(EnergonError):
                    self._files.pop(next(iter(self._files))).close()
            storage, name = open_parent(os.fsdecode(path))
            file = self._files[path] = storage.open(name)
        return file

    def _range(self, part: RangeRef) -> bytes | FileContents:
        if part.size_bytes > _LARGE_BYTES:
            stream = FileStream(self._open(part.path), part.offset, part.size_bytes)
            self._streams.append(stream)
            return FileContents(stream, part.size_bytes)
        data = self._ahead.take(part)
        if data is None:
            data = self._open(part.path).read_at(part.offset, part.size_bytes)
        if len(data) != part.size_bytes:
            raise SampleError(
                f"expected {part.size_bytes} bytes, found {len(data)}: the file ends early",
                source=f"{os.fsdecode(part.path)}, byte {part.offset}",
            )
        return data


def check_contents(name: str, contents: bytes | FileContents) -> None:
    """Check that a part may be what its name says, as far as a missing or failed download shows; texts may be empty.

    Raises:
        SampleError: The part is empty, a Git LFS pointer, or an error page of a web server.
    """
    kind = kind_of_name(name)
    if not len(contents) and kind in _NEVER_EMPTY:
        raise SampleError(f"the part {name!r} is empty: its file has 0 bytes", code="F103")
    if kind not in MEDIA_KINDS or isinstance(contents, FileContents):
        return
    found = kind_of_bytes(contents[:HEADER_BYTES], len(contents))
    if found.kind in ("pointer", "page"):
        raise SampleError(f"the part {name!r} is {found.description}", code="F104")


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer, too, which would block."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
