"""Parse single tar headers: numbers, checksums, PAX records. Exact, and slower than ``scan.py``.

Sources: POSIX.1-2017 ``pax`` (ustar and pax interchange formats); the GNU tar manual for base-256 numbers and long
names. Also the ``.tar.idx`` files of other readers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import FormatError
from ...parts.other_file import refuse_other_file
from ...storage import Storage
from ..nv_meta import TAR_IDX_SUFFIX


def tar_idx_bytes(sample_offsets: npt.NDArray[np.int64]) -> bytes:
    """Return the file's contents: n + 1 little-endian 64-bit offsets, the last one the end of the last sample."""
    return sample_offsets.astype("<u8").tobytes()


def has_tar_idx(storage: Storage, shard: str, samples: int) -> bool:
    """Return True if a shard has a ``.tar.idx`` of the right length."""
    name = shard + TAR_IDX_SUFFIX
    return storage.exists(name) and storage.stat(name).size_bytes == 8 * (samples + 1)


def read_tar_idx(storage: Storage, shard: str, *, samples: int, shard_size: int) -> npt.NDArray[np.int64] | None:
    """Read a shard's sample offsets.

    Returns:
        Offsets in bytes, shape (samples + 1,); None if the file is missing or does not fit this shard.
    """
    if not has_tar_idx(storage, shard, samples):
        return None
    offsets = np.frombuffer(storage.read(shard + TAR_IDX_SUFFIX), dtype="<u8")
    if (offsets > shard_size).any() or (offsets % BLOCK).any():  # differences of larger ones may overflow
        return None
    signed = offsets.astype(np.int64)
    return signed if (np.diff(signed) >= BLOCK).all() else None


BLOCK = 512  # bytes of a tar block; headers and contents start at multiples of it

_CHECKSUM = slice(148, 156)
_MAX_SIZE = 1 << 62
_MAX_NAME = 8192  # bytes; twice the longest path of Linux


def parse_number(field: bytes) -> int:
    r"""Parse a number field: octal digits, or base-256 if the first bit is set.

    Raises:
        ValueError: The field is neither.

    >>> parse_number(b"0000644\0"), parse_number(b"\x80" + bytes(10) + b"\x07")
    (420, 7)
    """
    if field[0] & 0x80:
        # Two's complement of all bits of the field but the first.
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        return value - (1 << (8 * len(field) - 1)) if field[0] & 0x40 else value
    text = field.split(b"\0", 1)[0].strip(b" ")
    if not text:
        return 0
    if text.strip(b"01234567"):
        raise ValueError(f"expected octal digits, found {field!r}")
    return int(text, 8)


def _checksums(header: bytes) -> tuple[int, int]:
    """Sum a header's bytes, with spaces for its checksum field: as unsigned and as signed bytes."""
    counted = header[:148] + b" " * 8 + header[156:BLOCK]
    unsigned = sum(counted)
    # Some old tars (SunOS, NeXT) summed signed chars.
    return unsigned, unsigned if counted.isascii() else unsigned - 256 * sum(byte > 127 for byte in counted)


def damaged(message: str, shard: str, offset: int, *, cure: str = "copy the shard again") -> FormatError:
    """Return the error of a shard that cannot be read, as commands show it that do not prepare it, too."""
    hint = f"{cure}, or leave the shard out: energon prepare --exclude REGEX"
    return FormatError(message, shard=shard, offset=offset, hint=hint)


def check_header(header: bytes, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` if a block is not a tar header."""
    try:
        stored = parse_number(header[_CHECKSUM])
    except ValueError:
        stored = -1
    if stored not in _checksums(header):
        if offset == 0:
            refuse_other_file(shard, "tar", header)
        shown = f"{header[:16]!r}… with a wrong checksum (stored as {header[_CHECKSUM]!r})"
        raise damaged(f"expected a tar header, found {shown}", shard, offset)


def header_name(header: bytes) -> bytes:
    """Return the member name in a USTAR, GNU or V7 header itself."""
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0", 1)[0]
        if prefix:
            return prefix + b"/" + name
    return name


def header_size(header: bytes, *, shard: str, offset: int) -> int:
    """Return the content size that a header states, in bytes; raise a ``FormatError`` if it is invalid."""
    try:
        size = parse_number(header[124:136])
    except ValueError:
        size = -1
    check_size(size, shard=shard, offset=offset, stated=header[124:136])
    return size


def check_size(size: int, *, shard: str, offset: int, stated: bytes | str) -> None:
    """Raise a ``FormatError`` if a content size is out of range."""
    if not 0 <= size < _MAX_SIZE:
        raise damaged(f"expected the size of a file, found {stated[:40]!r}", shard, offset)


def check_name(name: bytes | None, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` if the member name of an extension header is invalid."""
    # Arrays of names are as wide as the longest name, and a NUL ends a name in them.
    if name is not None and (not 0 < len(name) <= _MAX_NAME or b"\0" in name):
        fault = f"found {len(name)} bytes: {name[:40]!r}"
        expected = f"expected a member name of 1 to {_MAX_NAME} bytes without NUL"
        raise damaged(f"{expected}, {fault}", shard, offset, cure="rewrite the shard with another name")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaxRecords:
    """The fields that a PAX extended header overrides in the member after it; None if unchanged."""

    name: bytes | None = None
    size_bytes: int | None = None
    target: bytes | None = None  # of a link

    def over(self, earlier: PaxRecords) -> PaxRecords:
        """Merge with earlier records, which have lower precedence."""
        return PaxRecords(
            name=earlier.name if self.name is None else self.name,
            size_bytes=earlier.size_bytes if self.size_bytes is None else self.size_bytes,
            target=earlier.target if self.target is None else self.target,
        )


def changes_nothing(records: bytes) -> bool:
    """Return True if PAX records certainly override no name, size or holes of the next member."""
    return not (b"path=" in records or b"size=" in records or b"GNU.sparse." in records)


def check_global(records: PaxRecords, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` if a PAX global header overrides fields of single members."""
    if records.name is not None or records.size_bytes is not None:
        fault = "found a PAX global header that renames or resizes all members after it"
        raise damaged(fault, shard, offset, cure="rewrite the shard without it")


def parse_pax_records(data: bytes, *, shard: str, offset: int) -> PaxRecords:
    """Parse the records ``length SP keyword = value LF`` of an extended header's contents."""
    name: bytes | None = None
    target: bytes | None = None
    size_bytes: int | None = None
    position = 0
    while position < len(data) and data[position] != 0:
        # Split a record at its stated length; values may have line feeds.
        space = data.find(b" ", position, position + 20)
        digits = data[position:space] if space > 0 else b""
        length = int(digits) if digits.isdigit() else 0
        record = data[space + 1 : position + length]
        keyword, equals, value = record[:-1].partition(b"=")
        if length <= len(digits) + 1 or position + length > len(data) or record[-1:] != b"\n" or not equals:
            fault = f"found {data[position : position + 40]!r}"
            raise damaged(f"expected a PAX record 'length keyword=value', {fault}", shard, offset + position)
        # Keep what changes the next member; other keywords, such as times, are not used.
        if keyword == b"path":
            name = value
        elif keyword == b"linkpath":
            target = value
        elif keyword == b"size":
            size_bytes = int(value) if value.isdigit() and len(value) < 20 else -1
            check_size(size_bytes, shard=shard, offset=offset + position, stated=value)
        elif keyword.startswith(b"GNU.sparse."):
            raise sparse_member(shard, offset)
        position += length
    return PaxRecords(name=name, size_bytes=size_bytes, target=target)


def sparse_member(shard: str, offset: int) -> FormatError:
    """Return the error for a member with holes."""
    fault = "expected a member with contiguous bytes, found a sparse one"
    return damaged(fault, shard, offset, cure="write the shard again without the option --sparse of tar")


def headers_are_plain(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Check (m, 512) headers: False for a wrong checksum or size field, and for one in an unusual format."""
    stored = headers[:, 148:156].astype(np.int64)  # (m, 8)
    # 256 bytes add up to at most 65,280: sums of 16 bits take a third of the time of longer ones.
    halves = headers.reshape(-1, 2, 256).sum(axis=2, dtype=np.uint16)
    computed = halves.sum(axis=1, dtype=np.int64) - stored.sum(axis=1) + 8 * ord(" ")
    digits = stored[:, :6] - 48
    value = digits @ (8 ** np.arange(5, -1, -1, dtype=np.int64))
    plain: npt.NDArray[np.bool_] = ((digits >= 0) & (digits <= 7)).all(axis=1) & (value == computed)
    sizes = headers[:, 124:135]
    plain &= ((sizes >= ord("0")) & (sizes <= ord("7"))).all(axis=1) & ((headers[:, 135] | ord(" ")) == ord(" "))
    return plain


def header_names(headers: npt.NDArray[np.uint8], replaced: dict[int, bytes]) -> npt.NDArray[np.bytes_]:
    """Return the names of (m, 512) headers as an array of NUL-padded byte strings.

    Args:
        replaced: Row → name, for members that an extension header renames.
    """
    if len(headers) == 0:
        return np.empty(0, dtype="S1")
    fields = np.ascontiguousarray(headers[:, :100])
    has_prefix = (headers[:, 345] != 0) & (headers[:, 257:263] == np.frombuffer(b"ustar\0", np.uint8)).all(axis=1)
    # The first NUL ends a name; numpy drops only trailing NULs.
    empty = fields == 0
    if (empty[:, :-1] & ~empty[:, 1:]).any():
        fields[np.logical_or.accumulate(empty, axis=1)] = 0
    names = fields.view("S100").reshape(-1)
    slow = {row: header_name(headers[row].tobytes()) for row in np.flatnonzero(has_prefix).tolist()} | replaced
    if not slow:
        return names
    widened = names.astype(f"S{max(100, *map(len, slow.values()))}")
    for row, name in slow.items():
        widened[row] = name
    return widened
