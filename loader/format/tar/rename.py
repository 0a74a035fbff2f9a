"""Rename a tar member by rewriting its headers; nothing else about the member changes."""

from __future__ import annotations

import tarfile

from .header import BLOCK, check_header, header_size, parse_pax_records

_NAME, _SIZE, _CHECKSUM, _PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), slice(345, 500)
_POSIX = b"ustar\0"
_PATH = b"path"


def rename_headers(headers: bytes, name: bytes, *, shard: str, offset: int) -> bytes:
    """Rewrite a member's headers for another name.

    The new name replaces the old one if it fits: in the header's own field, or in the PAX record. Otherwise a PAX
    record (POSIX archives) or a GNU long name (all others) is added. Other extension headers are preserved.

    Args:
        headers: All blocks of the member from its first extension header to its contents.
        name: The new name.
        shard: Path of the shard, for messages.
        offset: Offset of the headers in the shard.

    Returns:
        The new blocks, a multiple of 512 bytes.

    Raises:
        FormatError: An extension header is damaged.
    """
    extensions: list[tuple[bytes, list[bytes] | None]] = []  # unchanged blocks and None, or a block and its PAX records
    in_record = False
    position = 0
    while position < len(headers) - BLOCK:
        header = headers[position : position + BLOCK]
        check_header(header, shard=shard, offset=offset + position)
        size = header_size(header, shard=shard, offset=offset + position)
        data = headers[position + BLOCK : position + BLOCK + size]
        end = position + BLOCK + _padded(size)
        if header[156:157] in (b"x", b"X"):
            parse_pax_records(data, shard=shard, offset=offset + position + BLOCK)  # reports damage
            records = _split_records(data)
            others = [record for record in records if _keyword(record) != _PATH]
            in_record = in_record or len(others) < len(records)
            extensions.append((header, others))
        elif header[156:157] != b"L":
            extensions.append((headers[position:end], None))
        position = end
    own = bytearray(headers[-BLOCK:])
    posix = own[257:263] == _POSIX
    fits = _put_name(own, name, posix=posix) and not in_record
    written = [b"" if fits else _long_name(extensions, name, posix=posix or in_record)]
    for header, others_or_none in extensions:
        if others_or_none is None:
            written.append(header)
        elif others_or_none:
            written.append(_with_contents(header, b"".join(others_or_none)))
    return b"".join([*written, _with_checksum(own)])


def _put_name(own: bytearray, name: bytes, *, posix: bool) -> bool:
    """Write the name into the member's own header; return False if it had to be cut."""
    prefix = b""
    if posix and len(name) > 100:
        # POSIX: a prefix of at most 155 bytes, a slash that is not stored, a name of at most 100.
        slash = name.find(b"/", len(name) - 101)
        if 0 < slash <= 155 and slash < len(name) - 1:
            prefix, name = name[:slash], name[slash + 1 :]
    own[_NAME] = name[:100].ljust(100, b"\0")
    if posix:
        own[_PREFIX] = prefix.ljust(155, b"\0")
    return len(name) <= 100


def _long_name(extensions: list[tuple[bytes, list[bytes] | None]], name: bytes, *, posix: bool) -> bytes:
    """Add the name to existing PAX records, or return the blocks of a new extension header."""
    if not posix:
        return _with_contents(_extension_header(b"L"), name + b"\0")
    record = _record(_PATH, name)
    for _, records in reversed(extensions):
        if records is not None:
            records.append(record)
            return b""
    return _with_contents(_extension_header(b"x"), record)


def _extension_header(kind: bytes) -> bytes:
    gnu = kind == b"L"
    info = tarfile.TarInfo("././@LongLink" if gnu else "././@PaxHeader")
    info.type = kind
    return info.tobuf(tarfile.GNU_FORMAT if gnu else tarfile.USTAR_FORMAT)


def _with_contents(header: bytes, data: bytes) -> bytes:
    changed = bytearray(header)
    changed[_SIZE] = b"%011o\0" % len(data)
    return _with_checksum(changed) + data.ljust(_padded(len(data)), b"\0")


def _with_checksum(header: bytearray) -> bytes:
    header[_CHECKSUM] = b" " * 8
    header[_CHECKSUM] = b"%06o\0 " % sum(header)
    return bytes(header)


def _split_records(data: bytes) -> list[bytes]:
    records = []
    while data.strip(b"\0"):
        length = int(data[: data.index(b" ")])
        records.append(data[:length])
        data = data[length:]
    return records


def _keyword(record: bytes) -> bytes:
    return record[record.index(b" ") + 1 : record.index(b"=")]


def _record(keyword: bytes, value: bytes) -> bytes:
    """Write ``length keyword=value``; the length includes its own digits."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _padded(size: int) -> int:
    return (size + BLOCK - 1) & -BLOCK
