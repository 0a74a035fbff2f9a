"""Read the contents of the parts of rows, in a worker."""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, cast

from ...dataset.open_files import OpenFiles
from ...errors import SampleError, StorageError
from ...parts.kinds import HEADER_BYTES, MEDIA_KINDS, POINTER_STARTS, kind_of_bytes, kind_of_name
from ...storage import FileInfo, FileStream, PendingRead, ReadableFile, Storage, is_url, open_parent, open_storage
from ...storage.remote import hide_query
from ..readers.reader import About
from ..readers.registry import read_about
from ..rows.row import (
    AnnotationRef,
    CellReader,
    CellRef,
    CutRef,
    FaultRef,
    FileRef,
    PartRef,
    RangeRef,
    StoredRef,
    UrlRef,
    ValueRef,
)
from ..sources.source import ImportSource
from ..writing.shard_file import FileContents
from .cut_sounds import cut_sound

if TYPE_CHECKING:
    from ...storage.remote.fetched_files import Downloads

_LARGE_BYTES = 32 * 1024 * 1024  # larger parts are copied in pieces
_MAX_OPEN_FILES = 128
_FOLDERS = 16  # that are open at once: a sample may have its files in several
_MAX_GAP = 64 * 1024  # between ranges that one read fetches together
_MAX_READ = 8 << 20
_WINDOWS = 2  # that are kept: the rows that are read now, and the next ones
_NEVER_EMPTY = frozenset({*MEDIA_KINDS, "array", "tree"})


class ContentReader:
    """Reads parts of rows.

    Args:
        downloads: Fetches the files at URLs that the data names; None fails their rows.
    """

    def __init__(self, sources: Sequence[ImportSource], downloads: Downloads | None = None) -> None:
        self._sources = sources
        self._downloads = downloads
        self._downloaded: list[str] = []  # of the last row
        self._cells: dict[int, CellReader] = {}
        self._last_cell: tuple[CellRef | None, bytes] = None, b""  # a recording, of which the next row has a segment
        self._files = OpenFiles(_MAX_OPEN_FILES)
        self._about: dict[tuple[int, str, PartRef | None], About] = {}
        self._streams: list[ReadableFile] = []
        self._folder: Callable[[str], Storage] = lru_cache(_FOLDERS)(open_storage)  # of files on this machine
        # Path → start, end and read of each range that was announced; an object store fetches them at the same time.
        self._windows: deque[dict[bytes, list[tuple[int, int, PendingRead]]]] = deque(maxlen=_WINDOWS)

    def announce(self, parts: Iterable[PartRef]) -> None:
        """Announce parts that will be read soon; those announced before the last call are forgotten."""
        parts = [part.part if isinstance(part, AnnotationRef) else part for part in parts]
        if self._downloads is not None:
            self._downloads.announce(os.fsdecode(part.url) for part in parts if isinstance(part, UrlRef))
        # Ranges that are near each other are fetched by one read.
        ranges = (part for part in parts if isinstance(part, RangeRef) and part.size_bytes <= _LARGE_BYTES)
        window: dict[bytes, list[tuple[int, int, PendingRead]]] = {}
        # Whole files of object stores are fetched at the same time, if they have the listed version.
        for part in parts:
            pending = self._fetch_file(part) if isinstance(part, FileRef) else None
            if pending is not None and isinstance(part, FileRef):
                window[part.path] = [(0, part.size_bytes, pending)]
        for path, start, stop in _joined(ranges):
            pending = self._open(path).fetch(start, stop - start)  # a local disk gets advice only
            if pending is not None:
                window.setdefault(path, []).append((start, stop, pending))
        self._windows.append(window)

    def read(self, source: int, part: PartRef) -> bytes | FileContents:
        """Return the contents of a part; a large file is open until :meth:`release`."""
        match part:
            case ValueRef():
                return part.data
            case FileRef():
                return self._file(part)
            case UrlRef():
                return self._download(os.fsdecode(part.url))
            case RangeRef():
                return self._range(part)
            case CellRef():
                value = self._open_cells(source).read(part)
                return self._download(os.fsdecode(value.url)) if isinstance(value, UrlRef) else value
            case AnnotationRef():
                return self.read(source, part.part)
            case CutRef():
                return cut_sound(self._recording(source, part.recording), part.begin_s, part.end_s)
            case FaultRef():
                raise SampleError(part.reason, hint=part.hint or None, code=part.code)

    def about(self, source: int, part: AnnotationRef) -> About:
        """Return what the tree says about annotations, such as the names of classes; each file is read once."""
        known = source, part.reader, part.about
        if known not in self._about:
            data = b"" if part.about is None else self.read(source, part.about)
            if isinstance(data, FileContents):
                raise SampleError(f"the file of names of classes has {len(data):,} bytes")
            self._about[known] = read_about(part.reader, part.about_name, data)
        return self._about[known]

    def release(self) -> None:
        """Close the large files of the last row, and remove its downloads."""
        while self._streams:
            self._streams.pop().close()
        while self._downloaded and self._downloads is not None:
            self._downloads.discard(self._downloaded.pop())

    def close(self) -> None:
        self.release()
        self._files.close()
        for cells in self._cells.values():
            cells.close()
        self._cells.clear()
        if self._downloads is not None:
            self._downloads.close()

    def _open_cells(self, source: int) -> CellReader:
        if source not in self._cells:
            self._cells[source] = self._sources[source].open_cells()
        return self._cells[source]

    def _recording(self, source: int, part: StoredRef) -> BinaryIO:
        """Return a recording, to read only the bytes that are needed, unless it is compressed."""
        if isinstance(part, CellRef):
            if self._last_cell[0] != part:
                self._last_cell = part, cast("bytes", self._open_cells(source).read(part))
            return io.BytesIO(self._last_cell[1])
        if isinstance(part, ValueRef):
            return io.BytesIO(part.data)
        span = (part.offset, part.size_bytes) if isinstance(part, RangeRef) else ()
        return cast("BinaryIO", FileStream(self._open(part.path), *span))

    def _file(self, part: FileRef) -> bytes | FileContents:
        path = os.fsdecode(part.path)
        if is_url(path):
            fetched = next((window[part.path] for window in self._windows if part.path in window), None)
            return self._url(path) if fetched is None else fetched[0][2].result()
        folder, name = os.path.split(path)
        try:
            file = self._folder(folder or ".").open(name)
        except ValueError as error:  # a zero byte in the name
            raise StorageError(f"no file can have this name: {error}", path=path) from error
        if file.size_bytes > _LARGE_BYTES:
            return self._stream(file)
        # Request one byte more, so that a growing file is noticed.
        with file:
            data = file.read_at(0, file.size_bytes + 1)
        if len(data) != file.size_bytes:
            raise StorageError("this file changed while it was read", path=path, hint="wait until it is written")
        return data

    def _stream(self, file: ReadableFile) -> FileContents:
        """Return the contents of a large file, which are copied in pieces later."""
        self._streams.append(file)
        return FileContents(FileStream(file), file.size_bytes)

    def _download(self, url: str) -> bytes | FileContents:
        if self._downloads is None:
            raise SampleError(
                "this URL is not fetched", at=hide_query(url), hint="pass --download to fetch files", code="F106"
            )
        path = self._downloads.take(url)
        self._downloaded.append(url)
        return self._file(FileRef(os.fsencode(path)))

    @staticmethod
    def _fetch_file(part: FileRef) -> PendingRead | None:
        """Begin to read a whole file of an object store; None for other files, which are read when they are needed."""
        url = os.fsdecode(part.path)
        has_version = part.changed and not part.changed.isdecimal()  # else it is a time
        if not (has_version and 0 < part.size_bytes <= _LARGE_BYTES and is_url(url)):
            return None
        storage, name = open_parent(url)
        info = FileInfo(name=name, size_bytes=part.size_bytes, mtime_ns=0, etag=part.changed)
        return storage.open(name, info).fetch(0, part.size_bytes)

    def _url(self, url: str) -> bytes | FileContents:
        storage, name = open_parent(url)
        data = storage.read(name, 0, _LARGE_BYTES + 1)
        if len(data) <= _LARGE_BYTES:
            return data
        return self._stream(storage.open(name))

    def _open(self, path: bytes) -> ReadableFile:
        file = self._files.find(path)
        if file is None:
            storage, name = open_parent(os.fsdecode(path))
            file = self._files.add(path, storage.open(name))
        return file

    def _range(self, part: RangeRef) -> bytes | FileContents:
        # A large range is copied in pieces later.
        if part.size_bytes > _LARGE_BYTES:
            return FileContents(FileStream(self._open(part.path), part.offset, part.size_bytes), part.size_bytes)
        stop = part.offset + part.size_bytes
        # Take the bytes from a read that was announced, else read them now.
        reads = (read for window in self._windows for read in window.get(part.path, ()))
        read = next((read for read in reads if read[0] <= part.offset and stop <= read[1]), None)
        if read is None:
            data = self._open(part.path).read_at(part.offset, part.size_bytes)
        else:
            data = read[2].result()[part.offset - read[0] : stop - read[0]]
        if len(data) != part.size_bytes:
            raise SampleError(
                f"expected {part.size_bytes} bytes, found {len(data)}: the file ends early",
                source=f"{os.fsdecode(part.path)}, byte {part.offset}",
            )
        return data


def check_contents(name: str, contents: bytes | FileContents) -> None:
    """Check that a part may be what its name says, as far as a missing or failed download shows; texts may be empty."""
    kind = kind_of_name(name)
    if not len(contents) and kind in _NEVER_EMPTY:
        raise SampleError(f"the part {name!r} is empty: its file has 0 bytes", code="F103")
    # A failed download leaves a page of HTML or a pointer of Git LFS; a page may be a text.
    if isinstance(contents, FileContents) or not (kind in MEDIA_KINDS or contents.startswith(POINTER_STARTS)):
        return
    contents_kind = kind_of_bytes(contents[:HEADER_BYTES], len(contents))
    if contents_kind.kind in ("pointer", "page"):
        raise SampleError(f"the part {name!r} is {contents_kind.description}", code="F104")


def _joined(refs: Iterable[RangeRef]) -> list[tuple[bytes, int, int]]:
    """Return path, start and end of the reads of some ranges, sorted; near ranges are read together."""
    reads: list[tuple[bytes, int, int]] = []
    for path, start, stop in sorted((ref.path, ref.offset, ref.offset + ref.size_bytes) for ref in refs):
        if reads:
            last_path, last_start, last_stop = reads[-1]
            if path == last_path and start - last_stop <= _MAX_GAP and stop - last_start <= _MAX_READ:
                reads[-1] = (path, last_start, max(stop, last_stop))
                continue
        reads.append((path, start, stop))
    return reads
