"""Walk the headers of a tar file without reading its contents.

Finding the next header takes the size in this one, so the walk itself is a short Python loop over two fields a
header. All else (checksums, names) is done afterwards on the collected headers, some thousands at a time, in numpy.
Headers that are rare (PAX, GNU long names, links, the end of the archive) leave the loop for :mod:`.tar_header`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..storage import ReadableFile
from .header_arrays import checksums_match, header_names
from .tar_header import (
    BLOCK,
    PaxRecords,
    changes_nothing,
    check_global,
    check_header,
    check_name,
    check_not_compressed,
    check_size,
    header_name,
    header_size,
    parse_pax_records,
    sparse_member,
)

__all__ = ["MemberBatch", "TarScan"]

_BATCH_ROWS = 4096  # 2 MiB of headers: they stay in the processor's cache
_NEAR_WINDOW = 256 * 1024  # for members of some KiB: many headers a read
_FAR_WINDOW = 4096  # for large members: one page holds the header, and small neighbours' headers
_MAX_EXTENSION = 16 * 1024 * 1024  # contents of a PAX header or a GNU long name
_REGULAR = frozenset(b"0\x007")
_PAX = ord("x")
_WITHOUT_CONTENTS = frozenset(b"123456")  # links, devices, folders and pipes, whatever their size field says
_ZEROS = bytes(BLOCK)
_END_BYTES = 20 * BLOCK + BLOCK  # tar programs fill the last 20 blocks up with empty ones
_TRUNCATED = "copy the shard anew, or leave it out with --exclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBatch:
    """Some neighbouring regular files of a tar, in order of offset; all arrays of shape (m,)."""

    names: npt.NDArray[np.bytes_]
    header_offset: npt.NDArray[np.int64]  # of the first header, extension headers included
    content_offset: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]


@dataclass(slots=True)
class _Rows:
    """Headers collected by the walk and not yet checked."""

    blocks: list[npt.NDArray[np.uint8]] = field(default_factory=list)  # each (k, 512)
    offsets: list[int] = field(default_factory=list)  # of the header itself
    sizes: list[int] = field(default_factory=list)
    first_offsets: dict[int, int] = field(default_factory=dict)  # row → offset of its first extension header
    names: dict[int, bytes] = field(default_factory=dict)  # row → name from an extension header
    stated_elsewhere: set[int] = field(default_factory=set)  # rows whose size field was read the slow way


class TarScan:
    """The regular files of a tar, in batches.

    Args:
        file: The open shard.
        shard: Its path, for messages.

    Attributes:
        warnings: What is odd and harmless, known once the scan is done.
        end_offset: Where the last member's contents and padding end, known once the scan is done.

    Raises:
        FormatError: While iterating; with the shard and the byte offset of what is wrong.
    """

    def __init__(self, file: ReadableFile, shard: str) -> None:
        self.warnings: list[str] = []
        self.end_offset = 0
        self._file = file
        self._shard = shard
        self._rows = _Rows()
        self._window = b""
        self._window_offset = 0
        self._window_size = _NEAR_WINDOW

    def __iter__(self) -> Iterator[MemberBatch]:
        if self._file.size_bytes == 0:
            raise FormatError("the file is empty; expected a tar file", shard=self._shard, offset=0, do=_TRUNCATED)
        offset: int | None = 0
        try:
            while offset is not None:
                offset = self._advance(offset)
                if len(self._rows.offsets) >= _BATCH_ROWS and self._rows.blocks[-1][-1, 156] != _PAX:
                    yield self._flush()
        except FormatError:
            self._verify(self._headers())  # an earlier header may be the one that is damaged
            raise
        yield self._flush()

    def _advance(self, offset: int) -> int | None:
        """Collect the headers from ``offset`` on that the window holds; give the next one's offset, None at the end."""
        if not self._window_offset <= offset <= self._window_offset + len(self._window) - BLOCK:
            self._window_offset, self._window = offset, self._file.read_at(offset, self._window_size)
        behind = self._collect(offset)
        if behind == offset or behind + BLOCK <= self._window_offset + len(self._window):
            return self._step(behind)  # a rare header, or the end
        if behind >= self._file.size_bytes:
            self._check_end(behind)
            return None
        headers = len(self._rows.blocks[-1])
        self._window_size = _NEAR_WINDOW if headers * 4096 >= behind - offset else _FAR_WINDOW
        return behind

    def _collect(self, offset: int) -> int:
        """Take plain headers from ``offset`` on while the window lasts; give the offset behind them and their data."""
        window, base = self._window, self._window_offset
        local = offset - base
        limit = len(window) - BLOCK
        starts: list[int] = []
        sizes: list[int] = []
        try:
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
            pass  # an empty block, a base-256 size or damage: the slow way tells them apart
        if starts:
            blocks = np.frombuffer(window, dtype=np.uint8, count=len(window) & -BLOCK).reshape(-1, BLOCK)
            self._rows.blocks.append(blocks[np.array(starts) >> 9])
            self._rows.offsets.extend([base + start for start in starts])
            self._rows.sizes.extend(sizes)
        return base + local

    def _is_harmless(self, start: int, size: int) -> bool:
        """Tell whether the window holds a PAX header's contents whole, and they change nothing."""
        records = self._window[start : start + size]
        return len(records) == size and changes_nothing(records)

    def _read(self, offset: int, size: int) -> bytes:
        """Read a piece of the file, from the window where it lies there."""
        local = offset - self._window_offset
        if local >= 0 and local + size <= len(self._window):
            return self._window[local : local + size]
        return self._file.read_at(offset, size)

    def _step(self, offset: int) -> int | None:
        """Take the member at ``offset`` the slow way; give the offset behind it, or None at the end of the archive."""
        first_offset = offset
        changes = PaxRecords()
        while True:
            header = self._read(offset, BLOCK)
            if len(header) < BLOCK:
                self._check_end(offset, expecting_member=offset != first_offset)
                return None
            if header == _ZEROS and offset == first_offset and not self._awaits_member(offset):
                self._end(offset)
                return None
            check_header(header, shard=self._shard, offset=offset)
            kind = header[156:157]
            size = header_size(header, shard=self._shard, offset=offset)
            if kind in (b"x", b"X", b"g", b"L", b"K"):
                data = self._extension(offset + BLOCK, size)
                behind = offset + BLOCK + ((size + 511) & -BLOCK)
                if kind == b"g":
                    records = parse_pax_records(data, shard=self._shard, offset=offset + BLOCK)
                    check_global(records, shard=self._shard, offset=offset)
                    if offset == first_offset:
                        return behind  # it stands for itself: no part of the member behind it
                elif kind == b"L":
                    changes = PaxRecords(name=data.split(b"\0", 1)[0]).over(changes)
                elif kind != b"K":
                    changes = parse_pax_records(data, shard=self._shard, offset=offset + BLOCK).over(changes)
                check_name(changes.name, shard=self._shard, offset=offset)
                offset = behind
                continue
            return self._member(header, first_offset, offset, size, changes)

    def _member(self, header: bytes, first_offset: int, offset: int, size: int, changes: PaxRecords) -> int:
        kind = header[156]
        if kind == ord("S"):
            raise sparse_member(self._shard, offset)
        if kind in _WITHOUT_CONTENTS:
            return offset + BLOCK
        if changes.size_bytes is not None:
            size = changes.size_bytes
        self._check_fits(offset, size)
        if kind in _REGULAR:
            rows = self._rows
            row = len(rows.offsets)
            rows.blocks.append(np.frombuffer(header, dtype=np.uint8).reshape(1, BLOCK))
            rows.offsets.append(offset)
            rows.sizes.append(size)
            rows.stated_elsewhere.add(row)
            rows.names[row] = changes.name if changes.name is not None else header_name(header)
            rows.first_offsets[row] = first_offset
        return offset + BLOCK + ((size + 511) & -BLOCK)

    def _extension(self, offset: int, size: int) -> bytes:
        if size > _MAX_EXTENSION:
            check_size(-1, shard=self._shard, offset=offset - BLOCK, stated=f"an extension header of {size} bytes")
        data = self._read(offset, size)
        if len(data) < size:
            self._check_fits(offset - BLOCK, size)
        return data

    def _check_fits(self, offset: int, size: int) -> None:
        end = offset + BLOCK + size
        if end > self._file.size_bytes:
            raise FormatError(
                f"the file ends at byte {self._file.size_bytes}, inside a member whose contents reach to byte {end}",
                shard=self._shard,
                offset=offset,
                do=_TRUNCATED,
            )

    def _check_end(self, offset: int, *, expecting_member: bool = False) -> None:
        """Judge a file that ends at or before ``offset``, where a header or two empty blocks were expected."""
        if self._rows.offsets:
            self._check_fits(self._rows.offsets[-1], self._rows.sizes[-1])
        left = self._file.size_bytes - offset
        if expecting_member or left != 0 or self._awaits_member(offset):
            check_not_compressed(self._read(0, BLOCK), shard=self._shard)
            where = "the empty bytes behind a member" if left < 0 else "a tar header"
            raise FormatError(
                f"the file ends at byte {self._file.size_bytes}, inside {where}",
                shard=self._shard,
                offset=min(offset, self._file.size_bytes),
                do=_TRUNCATED,
            )
        self.end_offset = offset
        self.warnings.append("the end-of-archive blocks are missing; the file may have been cut between two members")

    def _end(self, offset: int) -> None:
        """Note the end of the archive at an empty block, and what is odd about it."""
        self.end_offset = offset
        if offset == 0:
            self.warnings.append("the tar file has no members")
        behind = self._read(offset, _END_BYTES).lstrip(b"\0")
        if behind:
            start = min(offset + _END_BYTES, self._file.size_bytes) - len(behind)
            self.warnings.append(
                f"the archive ends at byte {offset}, but there is more from byte {start} on, which is not read: "
                "were two tar files joined into one?"
            )

    def _awaits_member(self, offset: int) -> bool:
        """Tell whether the last header taken is a PAX header of the member that should start at ``offset``."""
        rows = self._rows
        if not rows.blocks or rows.blocks[-1][-1, 156] != _PAX:
            return False
        return rows.offsets[-1] + BLOCK + ((rows.sizes[-1] + 511) & -BLOCK) == offset

    def _headers(self) -> npt.NDArray[np.uint8]:
        blocks = self._rows.blocks
        return np.concatenate(blocks) if blocks else np.empty((0, BLOCK), np.uint8)

    def _flush(self) -> MemberBatch:
        rows, headers = self._rows, self._headers()  # headers: (m, 512)
        self._verify(headers)
        self._rows = _Rows()
        offsets = np.array(rows.offsets, dtype=np.int64)
        sizes = np.array(rows.sizes, dtype=np.int64)
        first_offsets = offsets.copy()
        for row, first in rows.first_offsets.items():
            first_offsets[row] = first
        names = header_names(headers, rows.names)
        is_pax = headers[:, 156] == _PAX
        if is_pax.any():
            # A PAX header that changes nothing still belongs to the member behind it, whose first header it is.
            behind = offsets + BLOCK + ((sizes + 511) & -BLOCK)
            follows = np.append(False, is_pax[:-1] & (behind[:-1] == first_offsets[1:]))
            first_offsets = first_offsets[np.maximum.accumulate(np.where(follows, 0, np.arange(len(offsets))))]
            members = ~is_pax
            offsets, sizes, first_offsets, names = (
                offsets[members],
                sizes[members],
                first_offsets[members],
                names[members],
            )
        return MemberBatch(names=names, header_offset=first_offsets, content_offset=offsets + BLOCK, size_bytes=sizes)

    def _verify(self, headers: npt.NDArray[np.uint8]) -> None:
        """Check checksums and size fields; report the first bad header exactly."""
        suspicious = ~checksums_match(headers)
        digits = headers[:, 124:135]
        suspicious |= ((digits < 48) | (digits > 55)).any(axis=1) | ((headers[:, 135] | 32) != 32)
        for row in np.flatnonzero(suspicious).tolist():
            header, offset = headers[row].tobytes(), self._rows.offsets[row]
            check_header(header, shard=self._shard, offset=offset)
            if row not in self._rows.stated_elsewhere:
                stated = header_size(header, shard=self._shard, offset=offset)
                check_size(
                    stated if stated == self._rows.sizes[row] else -1,
                    shard=self._shard,
                    offset=offset,
                    stated=header[124:136],
                )
