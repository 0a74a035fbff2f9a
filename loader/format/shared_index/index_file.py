"""Write and read the file that holds the index of a dataset, and what belongs to it.

A file begins with a magic number. Then come compressed parts, and at the end a table of them with sizes and checksums.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, BinaryIO, NamedTuple
from uuid import UUID

import msgspec

from ...errors import FormatError, plural
from ...storage import ReadableFile, max_document_bytes
from ..index.layout import Layout, ShardEntry, check_layout
from ..index.shard_index import ShardIndex, ShardRows, check_shard_index
from ..nv_meta import is_shared_file
from .coding import decode_shard, encode_shard

ENDING = ".energon-index"

_MAGIC = b"energon-index-1\n"
_TRAILER = struct.Struct("<QQQI")  # the part of the table
MAX_PART_BYTES = 1 << 27
"""Limit of a part before compression, so that a small file cannot fill the memory."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]


class Part(NamedTuple):
    """A range of bytes of the file."""

    start: _Count
    size_bytes: _Count
    contents_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_PART_BYTES)]  # before compression
    checksum: int  # CRC-32 of the bytes in the file


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The table at the end of the file: which data the index is of, and where its parts are.

    Attributes:
        data: URL of the data, without credentials; empty for a folder of a machine.
        uuid: Name of the index; an index that is pulled keeps it.
        layout: The shards, each with its size and version, and the part names.
        columns: The part of each tar shard; empty for tables, which have no columns.
        files: Files of ``.nv-meta``.
    """

    data: str
    uuid: str
    layout: Layout
    columns: tuple[Part, ...] = ()
    files: dict[str, Part] = {}


def write_index_file(
    file: BinaryIO,
    layout: Layout,
    rows: Iterable[ShardRows],
    files: Iterable[tuple[str, bytes]],
    *,
    data: str,
    uuid: str,
) -> int:
    """Write an index file in one pass; return its number of bytes.

    Args:
        rows: The rows of each tar shard of the layout.
        files: Files of ``.nv-meta``: name and contents.
        data: As in :class:`Manifest`, as ``uuid``.
    """
    written = file.write(_MAGIC)

    def add(contents: bytes) -> Part:
        nonlocal written
        if len(contents) > MAX_PART_BYTES:
            raise FormatError(
                f"a shard has {len(contents):,} bytes in the index, more than {MAX_PART_BYTES:,}",
                hint="write smaller shards: energon reshard",
            )
        packed = zlib.compress(contents)
        part = Part(written, len(packed), len(contents), zlib.crc32(packed))
        written += file.write(packed)
        return part

    names = {stats.name: name_id for name_id, stats in enumerate(layout.part_stats)}
    columns = tuple(add(encode_shard(some, names)) for some in rows)
    stored = {name: add(contents) for name, contents in files}
    manifest = Manifest(data=data, uuid=uuid, layout=layout, columns=columns, files=stored)
    # The standard library writes names that are not UTF-8, unlike msgspec.
    table = add(json.dumps(msgspec.to_builtins(manifest)).encode("ascii"))
    return written + file.write(_TRAILER.pack(*table) + _MAGIC)


class IndexFile:
    """An open index file; all that is read from it is checked, because others have written it.

    Args:
        path: Its path, for messages.

    Raises:
        FormatError: It is not an index file, or damaged.
    """

    def __init__(self, file: ReadableFile, path: str) -> None:
        self._file = file
        self._path = path
        end = _TRAILER.size + len(_MAGIC)
        trailer = file.read_at(max(0, file.size_bytes - end), end)
        if file.read_at(0, len(_MAGIC)) != _MAGIC or not trailer.endswith(_MAGIC) or len(trailer) < end:
            raise self._damaged(f"it does not begin and end with {_MAGIC!r}")
        try:
            table = Part(*_TRAILER.unpack_from(trailer))
            if table.contents_bytes > max_document_bytes():
                raise self._damaged(f"its table has {table.contents_bytes:,} bytes")
            self.manifest = msgspec.convert(json.loads(self.read(table)), Manifest)
            _check(self.manifest)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise self._damaged(error) from error

    def shards(self) -> Iterator[tuple[ShardEntry, ShardIndex]]:
        """Yield the index of each tar shard, with its entry.

        Raises:
            FormatError: The columns are damaged, or contradict each other.
        """
        layout = self.manifest.layout
        names = [stats.name for stats in layout.part_stats]
        try:
            for entry, part in zip(layout.shards, self.manifest.columns, strict=True):
                index = decode_shard(self.read(part), entry, names)
                check_shard_index(index, min(entry.size_bytes, entry.end_offset))
                yield entry, index
        except (ValueError, OverflowError) as error:
            raise self._damaged(error) from error

    def read(self, part: Part) -> bytes:
        """Return the contents of a part."""
        packed = self._file.read_at(part.start, min(part.size_bytes, self._file.size_bytes))
        contents, stream = b"", zlib.decompressobj()
        if len(packed) == part.size_bytes and zlib.crc32(packed) == part.checksum:
            with suppress(zlib.error):
                contents = stream.decompress(packed, part.contents_bytes + 1)
        if len(contents) != part.contents_bytes or not stream.eof:
            raise self._damaged(f"the part at byte {part.start:,} is cut off, or its checksum or size is wrong")
        return contents

    def _damaged(self, fault: object) -> FormatError:
        return FormatError(
            f"not an index file, or a damaged one: {fault}", shard=self._path, hint="fetch it again, or push it again"
        )


def _check(manifest: Manifest) -> None:
    """Raise a ``ValueError`` for names that lead elsewhere, and numbers that contradict each other."""
    check_layout(manifest.layout)
    shards = manifest.layout.shards
    if len(manifest.columns) != len(shards) * any(shard.name.endswith(".tar") for shard in shards):
        raise ValueError(f"it has columns of {len(manifest.columns):,} of {plural(len(shards), 'shard')}")
    wrong = [name for name in manifest.files if not is_shared_file(name)]
    if wrong:
        raise ValueError(f"an index has no file {wrong[0][:99]!r}")
    UUID(manifest.uuid)  # raises
