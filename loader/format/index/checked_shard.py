"""Compare each part that is read with its header in the shard: others may have written the index, or of other bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import FormatError
from ...storage import ClosesOnExit, PendingRead, ReadableFile
from ..nv_meta import contradictory
from ..tar.header import BLOCK, check_header, header_name, header_size
from ..tar.names import decode_name, encode_name
from ..tar.scan import TarScan, read_members
from .dataset_index import DatasetIndex
from .layout import ShardEntry

_REGULAR = frozenset(b"0\x007")
_NEAR = 16 << 10  # bytes between two parts that are read with the second one: extension headers, or a small member


def header_at(file: ReadableFile, offset: int, path: str) -> tuple[bytes, int]:
    """Return the name and the size in a header itself; the name of no regular file is empty.

    Raises:
        FormatError: There is no header.
    """
    header = file.read_at(offset, BLOCK)
    check_header(header, shard=path, offset=offset)
    name = header_name(header) if header[156] in _REGULAR else b""
    return name, header_size(header, shard=path, offset=offset)


class CheckedShard(ClosesOnExit):
    """An open shard whose parts are read together with their headers, each for the first time.

    Args:
        path: Path of the shard, for messages.

    Raises:
        FormatError: Parts overlap in the index, or lead out of the shard.
    """

    def __init__(self, file: ReadableFile, index: DatasetIndex, shard: ShardEntry, path: str) -> None:
        self.size_bytes = file.size_bytes
        self._file, self._index, self._path, self._is_plain = file, index, path, shard.plain
        # Find the rows of the shard, which have all parts of its samples, and sort them by their offsets.
        first, last = shard.first_sample, shard.first_sample + shard.samples
        ends = np.concatenate([[0], index.part_ends[:last]] if not first else [index.part_ends[first - 1 : last]])
        rows = slice(int(ends[0]), int(ends[-1]))
        self._row = rows.start
        start = index.part_offset[rows].astype(np.int64) * BLOCK
        self._order = np.argsort(start, kind="stable")
        self._start, self._size = start[self._order], index.part_size[rows].astype(np.int64)[self._order]
        self._stop = self._start + np.maximum(self._size, 1)
        self._is_checked = np.zeros(len(start), np.bool_)
        # Between two parts is a header, at least.
        self._free = np.concatenate([[0], self._start + ((self._size + BLOCK - 1) & -BLOCK)])
        if (
            (ends[1:] <= ends[:-1]).any()
            or (self._size < 0).any()
            or (self._start - self._free[:-1] < BLOCK).any()
            or self._free[-1] > self.size_bytes
            or (index.part_name[rows] >= len(index.part_names)).any()
        ):
            raise contradictory("parts of a shard overlap, lead out of it, or have no name", index.path)

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        start = self._start_of_read(offset)
        return self.checked(self._file.read_at(start, offset + size_bytes - start), start, offset, size_bytes)

    def fetch(self, offset: int, size_bytes: int) -> PendingRead | None:
        start = self._start_of_read(offset)
        pending = self._file.fetch(start, offset + size_bytes - start)
        return None if pending is None else _CheckedRead(self, pending, (start, offset, size_bytes))

    def expect(self, offset: int, size_bytes: int) -> None:
        start = self._start_of_read(offset)
        self._file.expect(start, offset + size_bytes - start)

    def expect_few(self) -> None:
        self._file.expect_few()

    def close(self) -> None:
        self._file.close()

    def _start_of_read(self, offset: int) -> int:
        """Return the offset from which to read, so that a part that begins at ``offset`` comes with its headers."""
        part = int(np.searchsorted(self._start, offset))
        if part == len(self._start) or self._start[part] != offset or self._is_checked[part]:
            return offset
        free = int(self._free[part])
        return offset - BLOCK if self._is_plain or offset - free > _NEAR else free

    def checked(self, data: bytes, start: int, offset: int, size_bytes: int) -> bytes:
        """Return the wanted bytes of a read that began at ``start``, after a check of all parts that it has."""
        low = int(np.searchsorted(self._stop, offset, side="right"))
        high = int(np.searchsorted(self._start, offset + size_bytes, side="right"))
        for part in (np.flatnonzero(~self._is_checked[low:high]) + low).tolist():
            self._check(part, _Bytes(self._file, data, start))
            self._is_checked[part] = True
        return data[offset - start :]

    def _check(self, part: int, file: _Bytes) -> None:
        # Find the name and the size that the shard has for these bytes.
        start, size = int(self._start[part]), int(self._size[part])
        row = self._row + int(self._order[part])
        sample = int(np.searchsorted(self._index.part_ends, row, side="right"))
        part_name = self._index.part_names[int(self._index.part_name[row])]
        expected = encode_name(f"{self._index.key(sample)}.{part_name}")
        try:
            found = header_at(file, start - BLOCK, self._path) if self._is_plain else self._member(part, file)
        except FormatError as error:
            shown = f"no header, {error.message}"
        else:
            if found == (expected, size):
                return
            shown = f"{decode_name(found[0])!r}, {found[1]} bytes"
        raise FormatError(
            f"the shard has changed since it was indexed, or the index is wrong: sample {self._index.key(sample)!r} has"
            f" its part {part_name!r} at byte {start}; expected the header of {decode_name(expected)!r}, {size} bytes;"
            f" found {shown}",
            shard=self._path,
            offset=start - BLOCK,
            hint=f"run energon prepare again, or energon index pull; the index is {self._index.path}",
        )

    def _member(self, part: int, file: _Bytes) -> tuple[bytes, int]:
        """Return name and size as the extension headers before the header change them."""
        free, start, size = int(self._free[part]), int(self._start[part]), int(self._free[part + 1])
        scan = TarScan(size - free, self._path, is_far=True)
        between = _Bytes(file, file.read_at(free, min(start - free, _NEAR)), free, origin=free, end=start)
        members = list(read_members(between, scan))
        name, offset, size = (members[-1].names[-1], members[-1].content_offset[-1], members[-1].size_bytes[-1])
        return (bytes(name) if offset == start - free else b"", int(size))


@dataclass(slots=True)
class _Bytes(ReadableFile):
    """Bytes of a file that were read, from ``start`` on; others are read from the file.

    Offsets count from ``origin``. No bytes from ``end`` on are read.
    """

    file: ReadableFile
    data: bytes
    start: int
    origin: int = 0
    end: int | None = None
    size_bytes: int = 0

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        first = offset + self.origin
        stop = first + size_bytes if self.end is None else min(first + size_bytes, self.end)
        if self.start <= first and stop <= self.start + len(self.data):
            return self.data[first - self.start : stop - self.start]
        return self.file.read_at(first, max(0, stop - first))


@dataclass(slots=True)
class _CheckedRead:
    """A read of a checked shard that is under way."""

    shard: CheckedShard
    pending: PendingRead
    span: tuple[int, int, int]

    def is_done(self) -> bool:
        return self.pending.is_done()

    def result(self) -> bytes:
        return self.shard.checked(self.pending.result(), *self.span)
