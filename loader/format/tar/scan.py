"""Scan the headers of a tar file without reading its contents.

The size in a header leads to the next header, so the scan is a short Python loop over two fields a header. Checksums
and names are processed afterwards in numpy, for thousands of collected headers at a time. Rare headers (PAX, GNU long
names, links, the end of the archive) leave the loop for :mod:`.header`.

The scan itself reads nothing: it is a generator of requests (offset, size) that is sent the bytes, so that one process
can wait for the bytes of many scans.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...parts.other_file import refuse_other_file
from ...storage import ReadableFile
from .header import (
    BLOCK,
    PaxRecords,
    changes_nothing,
    check_global,
    check_header,
    check_name,
    check_size,
    damaged,
    header_name,
    header_names,
    header_size,
    headers_are_plain,
    parse_pax_records,
    sparse_member,
)

Request = tuple[int, int]  # offset and size of bytes that a scan needs; at the end of the file it is sent fewer

_BATCH_ROWS = 4096  # 2 MiB of headers, which fit the processor's cache
_WIDE_WINDOW = 256 * 1024  # for members of some KiB: many headers a read
_NARROW_WINDOW = 4096  # for large members: one page has the header, and those of small neighbours
_MAX_EXTENSION = 1024 * 1024  # contents of a PAX header or a GNU long name; those of a million records take seconds
_REGULAR = frozenset(b"0\x007")
_PAX = ord("x")
_HARD_LINK, _SYMBOLIC_LINK, _FOLDER = b"125"
_WITHOUT_CONTENTS = frozenset(b"123456")  # links, devices, folders and pipes, for any size field
_ZEROS = bytes(BLOCK)
_END_BYTES = 20 * BLOCK + BLOCK  # tar programs pad the archive to a multiple of 20 blocks
_NEAR_END = 16 * 1024  # a window from here on has the rest of the file, with what follows the archive


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBatch:
    """Consecutive regular files of a tar, in order of offset; all arrays of shape (m,)."""

    names: npt.NDArray[np.bytes_]
    header_offset: npt.NDArray[np.int64]  # of the first header, extension headers included
    content_offset: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]


class TarLink(NamedTuple):
    """A member without contents: a link, a device or a pipe; folders are not among them."""

    name: bytes
    target: bytes  # of a link, as written; empty for others
    is_hard: bool


@dataclass(slots=True)
class _Rows:
    """Headers that were collected and not yet checked."""

    blocks: list[npt.NDArray[np.uint8]] = field(default_factory=list)  # each (k, 512)
    offsets: list[int] = field(default_factory=list)  # of the header itself
    sizes: list[int] = field(default_factory=list)
    first_offsets: dict[int, int] = field(default_factory=dict)  # row → offset of its first extension header
    names: dict[int, bytes] = field(default_factory=dict)  # row → name from an extension header
    parsed: set[int] = field(default_factory=set)  # rows with a size that `header_size` parsed


def read_members(file: ReadableFile, scan: TarScan) -> Iterator[MemberBatch]:
    """Drive a scan, which has not begun, by reads of a file; yield its batches."""
    requests = scan.requests()
    wanted: Request | None = next(requests)
    while wanted is not None:
        data = file.read_at(*wanted)
        try:
            wanted = requests.send(data)
        except StopIteration:  # the scan has seen the whole file
            wanted = None
        yield from scan.batches
        scan.batches.clear()


class TarScan:
    """The regular files of a tar, in batches.

    Args:
        is_far: Each request takes a round trip: begin with a narrow window.

    Attributes:
        batches: The batches that are complete and not yet taken.
        end_offset: End of the last member's contents and padding, set after the scan.
    """

    def __init__(self, size_bytes: int, shard: str, *, is_far: bool = False) -> None:
        self.batches: list[MemberBatch] = []
        self.warnings: list[str] = []
        self.links: list[TarLink] = []
        self.end_offset = 0
        self._size_bytes = size_bytes
        self._shard = shard
        self._rows = _Rows()
        self._window = b""
        self._window_offset = 0
        self._window_size = _NARROW_WINDOW if is_far else _WIDE_WINDOW

    def requests(self) -> Generator[Request, bytes, None]:
        """Yield requests for bytes, which must be sent, until all batches are complete."""
        if self._size_bytes == 0:
            raise damaged("the file is empty; expected a tar file", self._shard, 0)
        offset: int | None = 0
        size_bytes = self._size_bytes
        near_end = size_bytes - _NEAR_END
        try:
            while offset is not None:
                # Move the window if the next header is outside.
                if not self._window_offset <= offset <= self._window_offset + len(self._window) - BLOCK:
                    self._window = yield offset, self._window_size if offset < near_end else _NEAR_END
                    self._window_offset = offset
                # Collect headers up to a rare one, the end of the window, or the end of the file.
                next_offset = self._collect(offset)
                if next_offset == offset or next_offset + BLOCK <= self._window_offset + len(self._window):
                    offset = yield from self._step(next_offset)  # a rare header, or the end
                elif next_offset < size_bytes:
                    headers = len(self._rows.blocks[-1])
                    self._window_size = _WIDE_WINDOW if headers * 4096 >= next_offset - offset else _NARROW_WINDOW
                    offset = next_offset
                else:
                    yield from self._check_end(next_offset)
                    offset = None
                if len(self._rows.offsets) >= _BATCH_ROWS and self._rows.blocks[-1][-1, 156] != _PAX:
                    self.batches.append(self._flush())
        except FormatError:
            self._verified_headers()  # the damage may be in an earlier header
            raise
        self.batches.append(self._flush())

    def _collect(self, offset: int) -> int:
        """Collect plain headers in the window from ``offset`` on; return the offset after them and their contents."""
        window, base = self._window, self._window_offset
        local = offset - base
        limit = len(window) - BLOCK
        starts: list[int] = []
        sizes: list[int] = []
        try:
            # This loop runs once per member, so it reads only the size and the type of each header.
            while local <= limit:
                size = int(window[local + 124 : local + 135], 8)
                kind = window[local + 156]
                if size < 0:
                    break
                if kind not in _REGULAR and not (kind == _PAX and self._is_harmless(local + BLOCK, size)):
                    break
                starts.append(local)
                sizes.append(size)
                local += BLOCK + ((size + 511) & -BLOCK)
        except ValueError:
            pass  # no octal size: an empty block, a base-256 size or damage, which _step distinguishes
        # Copy the headers out of the window; they are checked together in flush().
        if starts:
            blocks = np.frombuffer(window, dtype=np.uint8, count=len(window) & -BLOCK).reshape(-1, BLOCK)
            self._rows.blocks.append(blocks[np.fromiter(starts, np.int64, len(starts)) >> 9])
            self._rows.offsets.extend([base + start for start in starts])
            self._rows.sizes.extend(sizes)
        return base + local

    def _is_harmless(self, start: int, size: int) -> bool:
        """Return True if the window has all of a PAX header's contents, and they change nothing."""
        records = self._window[start : start + size]
        return len(records) == size and changes_nothing(records)

    def _read(self, offset: int, size: int) -> Generator[Request, bytes, bytes]:
        """Return bytes of the file, from the window if it has them."""
        local = offset - self._window_offset
        ends_file = self._window_offset + len(self._window) == self._size_bytes
        if local >= 0 and (local + size <= len(self._window) or ends_file):
            return self._window[local : local + size]
        return (yield offset, size)

    def _step(self, offset: int) -> Generator[Request, bytes, int | None]:
        """Parse the member at ``offset`` exactly; return the offset after it, or None at the end of the archive."""
        first_offset = offset
        changes = PaxRecords()
        while True:
            # The archive ends with an empty block, or with the file.
            header = yield from self._read(offset, BLOCK)
            if len(header) < BLOCK:
                yield from self._check_end(offset, expecting_member=offset != first_offset)
                return None
            if header == _ZEROS and offset == first_offset and not self._awaits_member(offset):
                yield from self._end(offset)
                return None
            # Collect what extension headers change, up to the header of the member.
            check_header(header, shard=self._shard, offset=offset)
            kind = header[156:157]
            size = header_size(header, shard=self._shard, offset=offset)
            if kind in (b"x", b"X", b"g", b"L", b"K"):
                data = yield from self._extension(offset + BLOCK, size)
                next_offset = offset + BLOCK + ((size + 511) & -BLOCK)
                if kind == b"g":
                    records = parse_pax_records(data, shard=self._shard, offset=offset + BLOCK)
                    check_global(records, shard=self._shard, offset=offset)
                    if offset == first_offset:
                        return next_offset  # it is not part of the member after it
                elif kind == b"L":
                    changes = PaxRecords(name=data.split(b"\0", 1)[0]).over(changes)
                elif kind == b"K":
                    changes = PaxRecords(target=data.split(b"\0", 1)[0]).over(changes)
                else:
                    changes = parse_pax_records(data, shard=self._shard, offset=offset + BLOCK).over(changes)
                check_name(changes.name, shard=self._shard, offset=offset)
                offset = next_offset
                continue
            return self._member(header, first_offset, offset, size, changes)

    def _member(self, header: bytes, first_offset: int, offset: int, size: int, changes: PaxRecords) -> int:
        kind = header[156]
        if kind == ord("S"):
            raise sparse_member(self._shard, offset)
        # Remember links, devices and pipes; the size field of such members has no meaning.
        if kind in _WITHOUT_CONTENTS:
            if kind != _FOLDER:
                is_link = kind in (_HARD_LINK, _SYMBOLIC_LINK)
                target = (header[157:257].split(b"\0", 1)[0] if changes.target is None else changes.target) * is_link
                name = changes.name if changes.name is not None else header_name(header)
                self.links.append(TarLink(name, target, kind == _HARD_LINK))
            return offset + BLOCK
        # A PAX record overrides the size, for example above 8 GiB.
        if changes.size_bytes is not None:
            size = changes.size_bytes
        self._check_fits(offset, size)
        # Add a row, whose size and name need no second parse.
        if kind in _REGULAR:
            rows = self._rows
            row = len(rows.offsets)
            rows.blocks.append(np.frombuffer(header, dtype=np.uint8).reshape(1, BLOCK))
            rows.offsets.append(offset)
            rows.sizes.append(size)
            rows.parsed.add(row)
            rows.names[row] = changes.name if changes.name is not None else header_name(header)
            rows.first_offsets[row] = first_offset
        return offset + BLOCK + ((size + 511) & -BLOCK)

    def _extension(self, offset: int, size: int) -> Generator[Request, bytes, bytes]:
        if size > _MAX_EXTENSION:
            fault = f"an extension header has {size:,} bytes, more than the limit of {_MAX_EXTENSION:,}"
            raise damaged(fault, self._shard, offset - BLOCK, cure="rewrite the shard without it")
        data = yield from self._read(offset, size)
        if len(data) < size:
            self._check_fits(offset - BLOCK, size)
        return data

    def _check_fits(self, offset: int, size: int) -> None:
        end = offset + BLOCK + size
        if end > self._size_bytes:
            where = f"a member with contents up to byte {end}"
            raise damaged(f"the file ends at byte {self._size_bytes}, inside {where}", self._shard, offset)

    def _check_end(self, offset: int, *, expecting_member: bool = False) -> Generator[Request, bytes, None]:
        """Check a file that ends at or before ``offset``, where a header or two empty blocks are expected."""
        if self._rows.offsets:
            self._check_fits(self._rows.offsets[-1], self._rows.sizes[-1])
        left = self._size_bytes - offset
        if expecting_member or left != 0 or self._awaits_member(offset):
            refuse_other_file(self._shard, "tar", (yield from self._read(0, BLOCK)))
            where = "the padding after a member" if left < 0 else "a tar header"
            fault = f"the file ends at byte {self._size_bytes}, inside {where}"
            raise damaged(fault, self._shard, min(offset, self._size_bytes))
        self.end_offset = offset
        self.warnings.append("the end-of-archive blocks are missing; the file may have been cut between two members")

    def _end(self, offset: int) -> Generator[Request, bytes, None]:
        """Record the end of the archive at an empty block, and warn if anything is odd about it."""
        self.end_offset = offset
        if offset == 0:
            self.warnings.append("the tar file has no members")
        trailing = (yield from self._read(offset, _END_BYTES)).lstrip(b"\0")
        if trailing:
            start = min(offset + _END_BYTES, self._size_bytes) - len(trailing)
            self.warnings.append(
                f"the archive ends at byte {offset}; the data from byte {start} on is not read: "
                "were two tar files concatenated?"
            )

    def _awaits_member(self, offset: int) -> bool:
        """Return True if the last collected header is a PAX header of the member that should start at ``offset``."""
        rows = self._rows
        if not rows.blocks or rows.blocks[-1][-1, 156] != _PAX:
            return False
        return rows.offsets[-1] + BLOCK + ((rows.sizes[-1] + 511) & -BLOCK) == offset

    def _flush(self) -> MemberBatch:
        """Return the members that were collected since the last batch."""
        rows, headers = self._rows, self._verified_headers()  # headers: (m, 512)
        self._rows = _Rows()
        offsets = np.fromiter(rows.offsets, np.int64, len(rows.offsets))
        sizes = np.fromiter(rows.sizes, np.int64, len(rows.sizes))
        first_offsets = offsets.copy()
        for row, first in rows.first_offsets.items():
            first_offsets[row] = first
        names = header_names(headers, rows.names)
        is_pax = headers[:, 156] == _PAX
        if is_pax.any():
            # A PAX header that changes nothing is still the first header of the member after it.
            ends = offsets + BLOCK + ((sizes + 511) & -BLOCK)
            follows = np.append(False, is_pax[:-1] & (ends[:-1] == first_offsets[1:]))
            first_offsets = first_offsets[np.maximum.accumulate(np.where(follows, 0, np.arange(len(offsets))))]
            members = ~is_pax
            offsets, sizes, first_offsets, names = (
                offsets[members],
                sizes[members],
                first_offsets[members],
                names[members],
            )
        return MemberBatch(names=names, header_offset=first_offsets, content_offset=offsets + BLOCK, size_bytes=sizes)

    def _verified_headers(self) -> npt.NDArray[np.uint8]:
        """Return the collected headers, shape (m, 512), after a check of checksums and size fields.

        Raises:
            FormatError: A header is bad; the message describes the first one exactly.
        """
        blocks = self._rows.blocks
        headers = np.concatenate(blocks) if blocks else np.empty((0, BLOCK), np.uint8)
        for row in np.flatnonzero(~headers_are_plain(headers)).tolist():
            header, offset = headers[row].tobytes(), self._rows.offsets[row]
            check_header(header, shard=self._shard, offset=offset)
            if row not in self._rows.parsed:
                stated = header_size(header, shard=self._shard, offset=offset)
                check_size(
                    stated if stated == self._rows.sizes[row] else -1,
                    shard=self._shard,
                    offset=offset,
                    stated=header[124:136],
                )
        return headers
