"""A block of an object in a file: a header with checksums, then the bytes.

The header has 4 KiB: magic, hash of the block's name, number of bytes, CRC-32 of the header, and the CRC-32 of each
16 KiB of the bytes, so that a read of one sample checks little more than the sample.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import NamedTuple

HEADER_BYTES = 4096
_FIXED = struct.Struct("<8s32sQ")
_CHECKSUM = struct.Struct("<I")
_TABLE = _FIXED.size + _CHECKSUM.size
_MAGIC = b"energon1"
_PIECE_BYTES = 16 << 10


class BrokenBlock(Exception):  # noqa: N818 - it is no error of the caller
    """A file is not the block that its name says."""


class StoredPart(NamedTuple):
    """Bytes of a stored block."""

    data: bytes
    mtime_ns: int  # of the file


def header_of(digest: bytes, data: bytes) -> bytes:
    """Return the header of a block.

    Args:
        digest: Hash of its name.
        data: Its bytes, at most 8 MiB.
    """
    view = memoryview(data)
    pieces = (zlib.crc32(view[start : start + _PIECE_BYTES]) for start in range(0, len(data), _PIECE_BYTES))
    table = b"".join(map(_CHECKSUM.pack, pieces))
    fixed = _FIXED.pack(_MAGIC, digest, len(data))
    return (fixed + _CHECKSUM.pack(zlib.crc32(fixed + table)) + table).ljust(HEADER_BYTES, b"\0")


def read_part(fd: int, digest: bytes, size_bytes: int, start: int, stop: int) -> StoredPart:
    """Read the bytes [start, stop) of a block.

    Args:
        fd: The open file.
        digest: Hash of the block's name.
        size_bytes: Bytes of the block.
        start: First byte.
        stop: Byte after the last one, above ``start``.

    Raises:
        BrokenBlock: The file is another one, is cut, or was changed.
        OSError: The disk fails.
    """
    status = os.fstat(fd)
    if status.st_size != HEADER_BYTES + size_bytes:
        raise BrokenBlock(f"it has {status.st_size} bytes")
    header = os.pread(fd, HEADER_BYTES, 0)
    table = header[_TABLE : _TABLE + _CHECKSUM.size * -(-size_bytes // _PIECE_BYTES)]
    fixed = header[: _FIXED.size]
    known = (*_FIXED.unpack(fixed), *_CHECKSUM.unpack(header[_FIXED.size : _TABLE]))
    if known != (_MAGIC, digest, size_bytes, zlib.crc32(fixed + table)):
        raise BrokenBlock("its header is damaged")
    first = start - start % _PIECE_BYTES
    end = min(size_bytes, stop + -stop % _PIECE_BYTES)
    data = _read(fd, first, end)
    view = memoryview(data)
    for at in range(first, end, _PIECE_BYTES):
        expected = _CHECKSUM.unpack_from(table, _CHECKSUM.size * (at // _PIECE_BYTES))[0]
        if zlib.crc32(view[at - first : at - first + _PIECE_BYTES]) != expected:
            raise BrokenBlock(f"its bytes {at}–{min(at + _PIECE_BYTES, size_bytes)} are damaged")
    return StoredPart(data[start - first : stop - first], status.st_mtime_ns)


def _read(fd: int, start: int, stop: int) -> bytes:
    data = os.pread(fd, stop - start, HEADER_BYTES + start)
    while len(data) < stop - start:  # an interrupted read of a large range
        more = os.pread(fd, stop - start - len(data), HEADER_BYTES + start + len(data))
        if not more:
            raise BrokenBlock("it is cut")
        data += more
    return data
