"""Write one tar shard, and index it in the same pass."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from ...errors import StorageError
from ...format.index.shard_index import ShardIndex, index_members
from ...format.tar.header import BLOCK
from ...format.tar.scan import MemberBatch
from ...storage import FileInfo

_MODE = 0o644
_COPY_BYTES = 1 << 20
_BATCH_MEMBERS = 4096
_MAX_OCTAL_SIZE = 8**11
_MAX_SHORT_NAME = 100  # bytes; a longer name takes a header of its own
_END_BYTES = 2 * BLOCK


Readable = io.RawIOBase | BinaryIO
"""A file that is read from its position on."""


class FileContents:
    """The contents of a part that are copied from an open file, and need not fit into memory.

    Args:
        file: The file, at the start of the contents.
        size_bytes: Number of bytes to copy.
    """

    __slots__ = ("file", "size_bytes")

    def __init__(self, file: Readable, size_bytes: int) -> None:
        self.file = file
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes


PartContents = bytes | bytearray | memoryview | FileContents


def _copy(source: Readable, target: BinaryIO, size_bytes: int) -> None:
    while size_bytes > 0:
        data = source.read(min(size_bytes, _COPY_BYTES))
        if not data:
            raise StorageError(
                f"a file ended {size_bytes} bytes early while it was copied to this shard",
                path=getattr(target, "name", None),
                hint="wait until the file is written, then run the command again",
            )
        target.write(data)
        size_bytes -= len(data)


def plain_header(name: bytes, size_bytes: int) -> bytes | None:
    """Return the header of a regular file in GNU's format; None if it takes more than one block."""
    if len(name) > _MAX_SHORT_NAME or size_bytes >= _MAX_OCTAL_SIZE:
        return None
    # Fill name, size and checksum into a header that is the same otherwise.
    size = b"%011o" % size_bytes
    checksum = _EMPTY_SUM + sum(name) + sum(size)
    return b"".join(
        (name.ljust(100, b"\0"), _EMPTY[100:124], size, _EMPTY[135:148], b"%06o\0 " % checksum, _EMPTY[156:])
    )


def _empty_header() -> bytes:
    member = tarfile.TarInfo("")
    member.mode = _MODE
    header = member.tobuf(tarfile.GNU_FORMAT)
    return header[:148] + b" " * 8 + header[156:]


_EMPTY = _empty_header()
_EMPTY_SUM = sum(_EMPTY) - sum(_EMPTY[124:135])


class ShardFile:
    """A tar shard that is being written as webdataset does, with members that depend on their contents alone.

    Attributes:
        size_bytes: Bytes that are written.
        samples: Number of samples that are written.
        info: The file, when it is complete.
    """

    info: FileInfo

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._names: list[bytes] = []
        self._places: list[tuple[int, int, int]] = []  # offset of the first header, offset of the contents, size
        self.size_bytes = 0
        self.samples = 0

    def write(self, key: str, parts: Mapping[str, PartContents]) -> None:
        for part in sorted(parts):
            self._write_member(f"{key}.{part}", parts[part])
        self.samples += 1

    def _write_member(self, member: str, contents: PartContents) -> None:
        """Write a member with the bytes of ``tarfile``, which copies each object and sums headers in Python."""
        name, start, size_bytes = member.encode("utf-8", "surrogateescape"), self.size_bytes, len(contents)
        header = plain_header(name, size_bytes)
        if header is None:
            # GNU's format differs from USTAR only in long names and sizes above 8 GiB, which USTAR cannot express.
            info = tarfile.TarInfo(member)
            info.size, info.mode = size_bytes, _MODE
            header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        # Write header, contents, and zeros up to a whole block.
        self._file.write(header)
        source = contents.file if isinstance(contents, FileContents) else io.BytesIO(contents)
        _copy(source, self._file, size_bytes)
        self._file.write(bytes(-size_bytes % BLOCK))
        self.size_bytes += len(header) + size_bytes + -size_bytes % BLOCK
        # Note the member for the index.
        self._names.append(name)
        self._places.append((start, start + len(header), size_bytes))

    def finish(self) -> ShardIndex:
        end_bytes = _END_BYTES + -(self.size_bytes + _END_BYTES) % tarfile.RECORDSIZE
        self._file.write(bytes(end_bytes))
        return index_members(self._batches(), self.size_bytes)

    def _batches(self) -> list[MemberBatch]:
        names, places = self._names, np.array(self._places, np.int64).reshape(-1, 3)
        return [
            MemberBatch(
                names=np.array(names[start : start + _BATCH_MEMBERS]),
                header_offset=places[start : start + _BATCH_MEMBERS, 0],
                content_offset=places[start : start + _BATCH_MEMBERS, 1],
                size_bytes=places[start : start + _BATCH_MEMBERS, 2],
            )
            for start in range(0, len(names), _BATCH_MEMBERS)
        ]


def member_bytes(name_bytes: int, size_bytes: int) -> int:
    """Return the bytes that a member takes in a shard, headers included.

    Args:
        name_bytes: Length of its name, ``key.part``.

    >>> member_bytes(10, 513)
    1536
    """
    long_name = 0 if name_bytes <= _MAX_SHORT_NAME else BLOCK + -(-(name_bytes + 1) // BLOCK) * BLOCK
    return long_name + BLOCK + -(-size_bytes // BLOCK) * BLOCK


def sample_bytes(key: str, parts: Mapping[str, PartContents]) -> int:
    """Return the bytes that a sample takes in a shard."""
    key_bytes = len(key.encode("utf-8", "surrogateescape")) + 1
    return sum(member_bytes(key_bytes + len(name.encode()), len(contents)) for name, contents in parts.items())
