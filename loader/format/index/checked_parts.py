"""Compare each part that is read with its header in the shard: others may have written the index, or of other bytes."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ...errors import FormatError
from ...storage import ClosesOnExit, PendingRead, ReadableFile
from ..nv_meta import contradictory
from ..tar.header import BLOCK, check_header, header_name, header_size
from ..tar.names import decode_name, encode_name
from ..tar.scan import TarScan
from .dataset_index import DatasetIndex
from .layout import ShardEntry

_REGULAR = frozenset(b"0\x007")
_NEAR = 16 << 10  # bytes between two parts that are read with the second one: extension headers, or a small member


def parse_header(header: bytes, path: str, offset: int) -> tuple[bytes, int]:
    """Return the name and the size in a header itself; the name of no regular file is empty.

    Raises:
        FormatError: It is not a header.
    """
    check_header(header, shard=path, offset=offset)
    name = header_name(header) if header[156] in _REGULAR else b""
    return name, header_size(header, shard=path, offset=offset)


class CheckedParts(ClosesOnExit):
    """An open shard whose parts are read together with their headers, each for the first time.

    Args:
        path: Path of the shard, for messages.

    Raises:
        FormatError: Parts overlap in the index, or lead out of the shard.
    """

    def __init__(self, file: ReadableFile, index: DatasetIndex, shard: ShardEntry, path: str) -> None:
        self.size_bytes = file.size_bytes
        self._file, self._index, self._path = file, index, path
        # Find the rows of the shard, which have all parts of its samples, and sort them by their offsets.
        first, last = shard.first_sample, shard.first_sample + shard.samples
        ends = np.concatenate([[0], index.part_ends[:last]] if not first else [index.part_ends[first - 1 : last]])
        rows = slice(int(ends[0]), int(ends[-1]))
        self._row, self._names = rows.start, index.part_name
        start = index.part_offset[rows].astype(np.int64) * BLOCK
        self._order = np.argsort(start, kind="stable")
        self._start, self._size = start[self._order], index.part_size[rows].astype(np.int64)[self._order]
        self._is_checked = np.zeros(len(start), np.bool_)
        # Between two parts is a header, at least.
        self._free = np.concatenate([[0], self._start + ((self._size + BLOCK - 1) & -BLOCK)])
        if (
            (ends[1:] <= ends[:-1]).any()
            or (self._size < 0).any()
            or (self._start - self._free[:-1] < BLOCK).any()
            or self._free[-1] > self.size_bytes
            or (self._names[rows] >= len(index.part_names)).any()
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
        return free if offset - free <= _NEAR else offset - BLOCK

    def checked(self, data: bytes, start: int, offset: int, size_bytes: int) -> bytes:
        """Return the wanted bytes of a read that began at ``start``, after a check of all parts that it has."""
        low = max(0, int(np.searchsorted(self._start, offset, side="right")) - 1)
        high = int(np.searchsorted(self._start, offset + size_bytes, side="right"))
        for part in (np.flatnonzero(~self._is_checked[low:high]) + low).tolist():
            self._check(part, data, start)
            self._is_checked[part] = True
        return data[offset - start :]

    def _check(self, part: int, data: bytes, data_start: int) -> None:
        row = self._row + int(self._order[part])
        sample = int(bisect_right(self._index.part_ends.data, row))
        start, key, name = int(self._start[part]), self._index.key(sample), self._index.part_names[self._names[row]]
        expected = encode_name(f"{key}.{name}"), int(self._size[part])
        try:
            actual = self._name_and_size(part, data, data_start)
        except FormatError as error:
            shown = f"no header, {error.message}"
        else:
            if actual == expected:
                return
            shown = f"{decode_name(actual[0])!r}, {actual[1]} bytes"
        raise FormatError(
            f"the shard has changed since it was indexed, or the index is wrong: sample {key!r} has its part {name!r}"
            f" at byte {start}; expected the header of {decode_name(expected[0])!r}, {expected[1]} bytes; found "
            + shown,
            shard=self._path,
            offset=start - BLOCK,
            hint=f"run energon prepare again, or energon index pull; the index is {self._index.path}",
        )

    def _name_and_size(self, part: int, data: bytes, data_start: int) -> tuple[bytes, int]:
        """Return the name and the size that the shard has for a part, from its headers in ``data`` or in the file."""
        free, start, end = int(self._free[part]), int(self._start[part]), int(self._free[part + 1])

        def read(offset: int, size_bytes: int) -> bytes:
            first, stop = free + offset, min(free + offset + size_bytes, start)
            if data_start <= first and stop <= data_start + len(data):
                return data[first - data_start : stop - data_start]
            return self._file.read_at(first, max(0, stop - first))

        # One header alone has no extension headers before it; else all that is between the two parts is scanned.
        if start - free == BLOCK:
            return parse_header(read(0, BLOCK), self._path, free)
        scan = TarScan(end - free, self._path, is_far=True)
        requests = scan.requests()
        wanted = next(requests)
        with suppress(StopIteration):
            while True:
                wanted = requests.send(read(*wanted))
        last = scan.batches[-1]
        if not len(last.names) or last.content_offset[-1] != start - free:
            return b"", 0
        return bytes(last.names[-1]), int(last.size_bytes[-1])


@dataclass(slots=True)
class _CheckedRead:
    """A read of a checked shard that is under way."""

    shard: CheckedParts
    pending: PendingRead
    span: tuple[int, int, int]

    def is_done(self) -> bool:
        return self.pending.is_done()

    def result(self) -> bytes:
        return self.shard.checked(self.pending.result(), *self.span)
