"""Write and read the file that holds the index of a dataset, and what belongs to it.

A file begins with a magic number. Then come the parts, which a table at the end names with their sizes and checksums.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec

from ...errors import FormatError
from ...storage import ReadableFile, max_document_bytes
from ..index.layout import Layout, ShardEntry, check_layout
from ..index.shard_index import ShardIndex, ShardRows, check_shard_index
from ..nv_meta import is_shared_file
from .coding import COLUMNS, MAX_ROWS, BlockRows, decode_block, decompress, encode_block

ENDING = ".energon-index"

_MAGIC = b"energon-index-1\n"
_TRAILER = struct.Struct("<QQII")  # start and compressed bytes of the table, its bytes, its CRC-32
_SAMPLES_OF_BLOCK = 1 << 17
_MAX_FILE_BYTES = 1 << 30

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
_Rows = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A range of bytes of the file."""

    start: _Count
    size_bytes: _Count
    checksum: int  # CRC-32


class _Block(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of consecutive shards."""

    shards: _Rows
    samples: _Rows
    parts: _Rows
    key_bytes: Annotated[int, msgspec.Meta(ge=0, le=8 * MAX_ROWS)]
    columns: tuple[Part, ...]


class _StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ``.nv-meta``."""

    name: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=_MAX_FILE_BYTES)]
    part: Part  # compressed


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The table at the end of the file: which data the index is of, and where its parts are.

    Attributes:
        data: URL of the data, without credentials; empty for a folder of a machine.
        revision: Commit of the data, if its store has commits.
        uuid: Name of the index; an index that is pulled keeps it.
        layout: The shards, each with its size and version, and the part names.
        blocks: The columns of tar shards; empty for tables, which have none.
    """

    data: str
    revision: str = ""
    uuid: str
    layout: Layout
    blocks: tuple[_Block, ...] = ()
    files: tuple[_StoredFile, ...] = ()


class IndexFileWriter:
    """Writes an index file in one pass: blocks and files, then :meth:`finish`."""

    def __init__(self, file: BinaryIO, layout: Layout) -> None:
        self._file = file
        self._layout = layout
        self._part_names = {stats.name: number for number, stats in enumerate(layout.part_stats)}
        self._blocks: list[_Block] = []
        self._files: list[_StoredFile] = []
        self._waiting: list[ShardRows] = []
        self._samples = 0
        self.size_bytes = file.write(_MAGIC)

    def add_shard(self, rows: ShardRows) -> None:
        """Add the rows of the next shard of the layout."""
        self._waiting.append(rows)
        self._samples += len(rows.part_ends)
        if self._samples >= _SAMPLES_OF_BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        if not self._waiting:
            return
        rows, columns = encode_block(self._waiting, self._part_names)
        if max(rows.parts, rows.samples, rows.key_bytes // 8) > MAX_ROWS:
            raise FormatError(f"a shard has more than {MAX_ROWS:,} parts", hint="split it into smaller ones")
        parts = tuple(map(self._add, columns))
        self._blocks.append(_Block(shards=len(self._waiting), **rows._asdict(), columns=parts))
        self._waiting, self._samples = [], 0

    def add_file(self, name: str, data: bytes) -> None:
        """Add a file of ``.nv-meta``."""
        if len(data) <= _MAX_FILE_BYTES:
            self._files.append(_StoredFile(name=name, size_bytes=len(data), part=self._add(zlib.compress(data))))

    def _add(self, data: bytes) -> Part:
        part = Part(self.size_bytes, len(data), zlib.crc32(data))
        self.size_bytes += self._file.write(data)
        return part

    def finish(self, *, data: str, uuid: str) -> None:
        """Write the last block and the table."""
        self._end_block()
        manifest = Manifest(
            data=data, uuid=uuid, layout=self._layout, blocks=tuple(self._blocks), files=tuple(self._files)
        )
        # The standard library writes names that are not UTF-8, unlike msgspec.
        table = json.dumps(msgspec.to_builtins(manifest)).encode("ascii")
        part = self._add(zlib.compress(table))
        self._add(_TRAILER.pack(part.start, part.size_bytes, len(table), part.checksum) + _MAGIC)


class IndexFile:
    """An open index file; all that is read from it is checked, because others have written it.

    Args:
        path: Its path, for messages.

    Raises:
        FormatError: It is no index file, or damaged.
    """

    def __init__(self, file: ReadableFile, path: str) -> None:
        self._file = file
        self._path = path
        end = _TRAILER.size + len(_MAGIC)
        trailer = file.read_at(max(0, file.size_bytes - end), end)
        if file.read_at(0, len(_MAGIC)) != _MAGIC or not trailer.endswith(_MAGIC) or len(trailer) < end:
            raise self._damaged(f"it does not begin and end with {_MAGIC!r}")
        start, compressed, size_bytes, checksum = _TRAILER.unpack_from(trailer)
        if size_bytes > max_document_bytes():
            raise self._damaged(f"its table has {size_bytes:,} bytes")
        try:
            table = decompress(self._read(Part(start, compressed, checksum)), size_bytes)
            self.manifest = msgspec.convert(json.loads(table), Manifest)
            _check(self.manifest)
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise self._damaged(error) from error

    def shards(self) -> Iterator[tuple[ShardEntry, ShardIndex]]:
        """Yield the index of each tar shard, with its entry.

        Raises:
            FormatError: The columns are damaged, or contradict each other.
        """
        manifest, first = self.manifest, 0
        names = [stats.name for stats in manifest.layout.part_stats]
        for block in manifest.blocks:
            entries = manifest.layout.shards[first : (first := first + block.shards)]
            try:
                columns = [self._read(part) for part in block.columns]
                rows = BlockRows(block.samples, block.parts, block.key_bytes)
                for entry, index in zip(entries, decode_block(rows, columns, entries, names), strict=True):
                    check_shard_index(index, min(entry.size_bytes, entry.end_offset))
                    yield entry, index
            except (ValueError, IndexError, OverflowError) as error:
                raise self._damaged(error) from error

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of ``.nv-meta``: name and contents."""
        for file in self.manifest.files:
            try:
                yield file.name, decompress(self._read(file.part), file.size_bytes)
            except ValueError as error:
                raise self._damaged(error) from error

    def _read(self, part: Part) -> bytes:
        if part.start + part.size_bytes > self._file.size_bytes:
            raise ValueError("a part ends behind the end of the file")
        data = self._file.read_at(part.start, part.size_bytes)
        if len(data) != part.size_bytes or zlib.crc32(data) != part.checksum:
            raise ValueError(f"the checksum of the part at byte {part.start:,} is wrong")
        return data

    def _damaged(self, fault: object) -> FormatError:
        return FormatError(
            f"not an index file, or a damaged one: {fault}", shard=self._path, hint="fetch it again, or push it again"
        )


def is_uuid(text: str) -> bool:
    """Return True for the name of an index of ours."""
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def _check(manifest: Manifest) -> None:
    """Raise a ``ValueError`` for names that lead elsewhere, and numbers that contradict each other."""
    check_layout(manifest.layout)
    if not is_uuid(manifest.uuid):
        raise ValueError(f"expected a uuid, found {manifest.uuid[:40]!r}")
    shards = manifest.layout.shards
    is_tar = any(shard.name.endswith(".tar") for shard in shards)
    in_blocks = sum(block.shards for block in manifest.blocks)
    if in_blocks != len(shards) * is_tar or any(len(block.columns) != len(COLUMNS) for block in manifest.blocks):
        raise ValueError(f"its blocks have {in_blocks:,} of {len(shards):,} shards")
    for file in manifest.files:
        if not is_shared_file(file.name):
            raise ValueError(f"an index has no file {file.name[:100]!r}")
