"""One tar header at a time: its numbers, its checksum, its PAX records. Exact, and slow next to ``tar_scan.py``.

Sources: POSIX.1-2017 ``pax`` (ustar and pax interchange formats); the GNU tar manual for base-256 numbers and long
names.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ..errors import FormatError

__all__ = [
    "BLOCK",
    "PaxRecords",
    "changes_nothing",
    "check_global",
    "check_header",
    "check_name",
    "check_not_compressed",
    "check_size",
    "header_name",
    "header_size",
    "parse_number",
    "parse_pax_records",
    "sparse_member",
]

BLOCK = 512
"""Bytes of a tar block; headers and contents start at multiples of it."""

_CHECKSUM = slice(148, 156)
_MAX_SIZE = 1 << 62
_MAX_NAME = 8192  # bytes; twice what Linux lets a path have
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip -c"),
    b"BZh": ("bzip2", "bunzip2 -c"),
    b"\xfd7zXZ\0": ("xz", "unxz -c"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd -c"),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4 -c"),
    b"PK\x03\x04": ("zip", "unzip -p"),
}


def parse_number(field: bytes) -> int:
    r"""Read a number field: octal digits, or base-256 where the first bit is set.

    Raises:
        ValueError: The field is neither.

    >>> parse_number(b"0000644\0"), parse_number(b"\x80" + bytes(10) + b"\x07")
    (420, 7)
    """
    if field[0] & 0x80:
        # Two's complement over all the field's bits but the first.
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        return value - (1 << (8 * len(field) - 1)) if field[0] & 0x40 else value
    text = field.split(b"\0", 1)[0].strip(b" ")
    if not text:
        return 0
    if text.strip(b"01234567"):
        raise ValueError(f"expected octal digits, found {field!r}")
    return int(text, 8)


def _checksums(header: bytes) -> tuple[int, int]:
    """Add a header's bytes up, its checksum field counted as spaces: as unsigned and as signed bytes."""
    counted = header[:148] + b" " * 8 + header[156:BLOCK]
    unsigned = sum(counted)
    # Some old tars (SunOS, NeXT) added up signed chars.
    return unsigned, unsigned - 256 * sum(byte > 127 for byte in counted)


def check_header(header: bytes, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` where a block is no tar header.

    Args:
        header: 512 bytes.
        shard: The shard's path, for the message.
        offset: Where in the shard they lie.
    """
    try:
        stored = parse_number(header[_CHECKSUM])
    except ValueError:
        stored = -1
    if stored not in _checksums(header):
        if offset == 0:
            check_not_compressed(header, shard=shard)
        raise FormatError(
            f"expected a tar header, found {header[:16]!r}… whose checksum (stored as {header[_CHECKSUM]!r}) is wrong",
            shard=shard,
            offset=offset,
            do="the file is damaged or was overwritten: copy the shard anew, or leave it out with --exclude",
        )


def check_not_compressed(start: bytes, *, shard: str) -> None:
    """Raise a ``FormatError`` where a file starts as compressed files do."""
    for magic, (kind, unpack) in _COMPRESSED.items():
        if start.startswith(magic):
            raise FormatError(
                f"this is a {kind} file, not a tar file",
                shard=shard,
                offset=0,
                do=f"unpack it, since a compressed file cannot be read at random: {unpack} {shlex.quote(shard)}"
                " > unpacked.tar",
            )


def header_name(header: bytes) -> bytes:
    """Give the member name that a USTAR, GNU or V7 header itself holds."""
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0", 1)[0]
        if prefix:
            return prefix + b"/" + name
    return name


def header_size(header: bytes, *, shard: str, offset: int) -> int:
    """Give the content size that a header states, in bytes; ``FormatError`` where it is nonsense."""
    try:
        size = parse_number(header[124:136])
    except ValueError:
        size = -1
    check_size(size, shard=shard, offset=offset, stated=header[124:136])
    return size


def check_size(size: int, *, shard: str, offset: int, stated: bytes | str) -> None:
    """Raise a ``FormatError`` where a content size cannot be one."""
    if not 0 <= size < _MAX_SIZE:
        raise FormatError(
            f"expected the size of a file, found {stated[:40]!r}",
            shard=shard,
            offset=offset,
            do="the header is damaged: copy the shard anew, or leave it out with --exclude",
        )


def check_name(name: bytes | None, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` where the name that an extension header gives a member cannot be one."""
    # Names stand in arrays as wide as the longest, and NUL ends them there.
    if name is not None and (not 0 < len(name) <= _MAX_NAME or b"\0" in name):
        raise FormatError(
            f"expected a member name of 1 to {_MAX_NAME} bytes without NUL, found {len(name)} bytes: {name[:40]!r}",
            shard=shard,
            offset=offset,
            do="write the shard again with another name, or leave it out with --exclude",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PaxRecords:
    """What a PAX extended header changes about the member that follows it (None: nothing)."""

    name: bytes | None = None
    size_bytes: int | None = None

    def over(self, earlier: PaxRecords) -> PaxRecords:
        """Combine with records of lower precedence (a global header)."""
        return PaxRecords(
            name=earlier.name if self.name is None else self.name,
            size_bytes=earlier.size_bytes if self.size_bytes is None else self.size_bytes,
        )


def changes_nothing(records: bytes) -> bool:
    """Tell whether PAX records surely say nothing about name, size or holes of the next member."""
    return not (b"path=" in records or b"size=" in records or b"GNU.sparse." in records)


def check_global(records: PaxRecords, *, shard: str, offset: int) -> None:
    """Raise a ``FormatError`` where a PAX global header says what only one about a single member should."""
    if records != PaxRecords():
        raise FormatError(
            "found a PAX global header that renames or resizes every member behind it",
            shard=shard,
            offset=offset,
            do="write the shard again without it",
        )


def parse_pax_records(data: bytes, *, shard: str, offset: int) -> PaxRecords:
    """Read the records ``length SP keyword = value LF`` of an extended header's contents.

    Raises:
        FormatError: A record is malformed, or the member is sparse (its bytes do not lie in one piece).
    """
    name: bytes | None = None
    size_bytes: int | None = None
    position = 0
    while position < len(data) and data[position] != 0:
        space = data.find(b" ", position, position + 20)
        digits = data[position:space] if space > 0 else b""
        length = int(digits) if digits.isdigit() else 0
        record = data[space + 1 : position + length]
        keyword, equals, value = record[:-1].partition(b"=")
        if length <= len(digits) + 1 or position + length > len(data) or record[-1:] != b"\n" or not equals:
            raise FormatError(
                f"expected a PAX record 'length keyword=value', found {data[position : position + 40]!r}",
                shard=shard,
                offset=offset + position,
                do="the header is damaged: copy the shard anew, or leave it out with --exclude",
            )
        if keyword == b"path":
            name = value
        elif keyword == b"size":
            size_bytes = int(value) if value.isdigit() and len(value) < 20 else -1
            check_size(size_bytes, shard=shard, offset=offset + position, stated=value)
        elif keyword.startswith(b"GNU.sparse."):
            raise sparse_member(shard, offset)
        position += length
    return PaxRecords(name=name, size_bytes=size_bytes)


def sparse_member(shard: str, offset: int) -> FormatError:
    """Make the error for a member with holes."""
    return FormatError(
        "found a sparse member; expected one whose bytes lie in one piece",
        shard=shard,
        offset=offset,
        do="write the shard again without --sparse",
    )
