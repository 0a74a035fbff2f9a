"""A Parquet file as a file of numbered samples: each row is a sample, and each column one of its values.

Rows cannot be read alone: a row group is decoded as a whole. Shuffled reading may need more row groups in turn than the
cache holds, so the rows that were announced are taken from a group when it is decoded.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any
from weakref import finalize

import numpy as np

from ...arrays import IntArray
from ...errors import FormatError, MissingPackageError, SampleError, plural
from ...parts.other_file import refuse_other_file
from ...storage import FileInfo, FileStream, ReadableFile, Storage, map_memory
from .record_file import RecordFile
from .table_schema import labelled_columns, media_columns, name_of_class

CACHED_BYTES = 256 << 20  # limit of the decoded row groups that a process keeps; it keeps at least one

# Limit of the announced rows that a process keeps until they are read, by their mean size in their row group.
READY_BYTES = 128 << 20

_MAX_REFUSED = 10_000


Columns = tuple[str, ...] | None
"""The columns that are read; None for all."""

RowKey = tuple[int, int, Columns]
"""Serial number of a file, number of a row group or a row in it, and the columns that were read."""


class RowCache:
    """The decoded row groups of a process, up to :data:`CACHED_BYTES`; the one that was not used longest goes first.

    It also holds the announced rows, up to :data:`READY_BYTES` of these. Threads may use it at the same time: each
    change of its dicts is one step, and a row or row group that another thread has dropped is decoded again.
    """

    def __init__(self) -> None:
        self.ready_bytes = 0
        self._ready: dict[RowKey, tuple[dict[str, Any], int]] = {}
        self._refused = 0  # rows in a row that found no room
        self._groups: OrderedDict[RowKey, tuple[list[tuple[str, Any]], int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: RowKey, decode: Callable[[], Any]) -> list[tuple[str, Any]]:
        """Return names and Arrow columns of a row group; decode it if it is not here."""
        cached = self._groups.get(key)
        if cached is not None:
            with suppress(KeyError):  # another thread has dropped it
                self._groups.move_to_end(key)
            return cached[0]
        table = decode()
        columns = list(zip(table.column_names, table.columns, strict=True))
        self._groups[key] = columns, table.nbytes
        self._bytes += table.nbytes
        self.make_room(keep=1)
        return columns

    def make_room(self, size_bytes: int = 0, *, keep: int = 0) -> None:
        """Drop row groups, but for the last ones, until so many bytes more are within the limit."""
        while self._bytes + self.ready_bytes + size_bytes > CACHED_BYTES and len(self._groups) > keep:
            with suppress(KeyError):  # another thread has dropped it
                self._bytes -= self._groups.popitem(last=False)[1][1]

    def add(self, key: RowKey, size_bytes: int, read: Callable[[], dict[str, Any]]) -> None:
        """Read and keep an announced row, if there is room for it and it is not here yet.

        An iteration that ends early never reads its announced rows. So many refusals drop all of them.
        """
        if key in self._ready:
            return
        self._refused = 0 if self.ready_bytes + size_bytes <= READY_BYTES else self._refused + 1
        if not self._refused:
            self._ready[key] = read(), size_bytes
            self.ready_bytes += size_bytes
            self.make_room(keep=1)
        elif self._refused > _MAX_REFUSED:
            self._ready.clear()
            self.ready_bytes = self._refused = 0

    def take(self, key: RowKey) -> dict[str, Any] | None:
        """Remove and return an announced row; None if it is not here."""
        row, size_bytes = self._ready.pop(key, (None, 0))
        self.ready_bytes -= size_bytes
        return row

    def drop(self, serial: int) -> None:
        for key in [key for key in list(self._groups) if key[0] == serial]:
            self._bytes -= self._groups.pop(key, (None, 0))[1]


row_cache = RowCache()
serials = count()  # numbers of opened files, which are never used again in this process, unlike ids


_MAX_ROWS = 1 << 62
_MAX_GROUP_BYTES = 4 << 30  # each worker process decodes at least one
_VALUE_BITS = {"BOOLEAN": 1, "INT64": 64, "DOUBLE": 64, "INT96": 64}  # others: 32, or an offset of 32
_MAGIC = b"PAR1"
_END_BYTES = 64 << 10  # that pyarrow reads at once, too; larger footers take another read
_PIECE_BYTES = 1 << 20  # of a large read of a local file; a remote one is read by one request
_HEADER_BYTES = 1 << 20  # of the pages of a row group, which are not decoded: more than there are
_COPY_AGAIN = "copy the file again: it is truncated or damaged"


class RowGroups(ReadableFile):
    """An open Parquet file, which returns rows from decoded row groups.

    Args:
        info: Size and version of the file, if they are known.
        metadata: Its footer, if it was read before.
    """

    def __init__(self, storage: Storage, name: str, info: FileInfo | None = None, *, metadata: Any = None) -> None:
        self.path = storage.path(name)
        self.serial = next(serials)
        # Without pyarrow, fail before the file is opened.
        _import_parquet()
        self._file = storage.open(name, info)
        self._piece_bytes = self._file.size_bytes if storage.checks_versions else _PIECE_BYTES
        self.size_bytes = self._file.size_bytes
        self.metadata = metadata
        try:
            # Read the footer, by one read if it is not very large.
            parquet = self._reader(b"" if metadata is not None else self._checked_end())
            self.metadata = parquet.metadata
            self.schema: Any = parquet.schema_arrow
            self.rows: list[int] = [
                self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)
            ]
            # Row numbers are 64-bit sums, which damaged counts could overflow.
            if any(rows < 0 for rows in self.rows) or sum(self.rows) > _MAX_ROWS:
                raise ValueError(f"its row groups have {plural(sum(self.rows), 'row')}")  # noqa: TRY301 - as pyarrow's
        except (OSError, ValueError) as error:  # pyarrow's errors are of these classes
            self._file.close()
            raise self._damaged("its footer", error) from error
        except BaseException:
            self._file.close()
            raise
        finalize(self, row_cache.drop, self.serial).atexit = False  # most files are dropped without close()

    def _reader(self, end: bytes = b"") -> Any:
        """Open the file in pyarrow, for one use: a reader keeps the bytes that it read last, and serves one thread."""
        return _import_parquet().ParquetFile(_FileOfGroups(self._file, end, self._piece_bytes), metadata=self.metadata)

    def _checked_end(self) -> bytes:
        """Return the last bytes of the file, which have the footer."""
        end = self._file.read_at(max(0, self.size_bytes - _END_BYTES), min(self.size_bytes, _END_BYTES))
        if not end.endswith(_MAGIC):
            refuse_other_file(self.path, "parquet")
            raise FormatError(
                f"expected a Parquet file, which ends with {_MAGIC!r}; this one does not",
                shard=self.path,
                hint=_COPY_AGAIN,
            )
        return end

    def _damaged(self, what: str, error: Exception) -> FormatError:
        return FormatError(f"{what} cannot be read: {_first_line(error)}", shard=self.path, hint=_COPY_AGAIN)

    def checksum(self) -> int:
        try:
            return zlib.crc32(str(self.metadata.to_dict()).encode("utf-8", "surrogateescape"))
        except (ValueError, OverflowError):  # a statistic that Python cannot hold
            end = self._file.read_at(max(0, self.size_bytes - 8), 4)
            footer_bytes = min(int.from_bytes(end, "little"), self.size_bytes)
            return zlib.crc32(self._file.read_at(self.size_bytes - footer_bytes, footer_bytes))

    def row(self, group: int, row: int, names: Columns = None) -> dict[str, Any]:
        """Return a row of a row group as Python objects by column."""
        columns = row_cache.get((self.serial, group, names), lambda: self.decode(group, names))
        try:
            return {name: column[row].as_py() for name, column in columns}
        except (ValueError, OverflowError):  # of one value, which must not cost the other rows
            return PartialRow(columns, row)

    def decode(self, group: int, names: Columns = None) -> Any:
        """Return a row group as an Arrow table; only the bytes of the named columns are read."""
        size_bytes = _decoded_bytes(self.metadata.row_group(group), names)
        if size_bytes > _MAX_GROUP_BYTES:
            raise FormatError(
                f"row group {group} needs at least {size_bytes:,} bytes of memory; expected at most "
                f"{_MAX_GROUP_BYTES:,}",
                shard=self.path,
                hint="write the file again with smaller row groups: pyarrow.parquet.write_table(…, row_group_size=…)",
            )
        # Before decoding, or one group more than the limit would be in memory.
        row_cache.make_room(size_bytes - _HEADER_BYTES)
        try:
            # One thread: worker processes already use all cores.
            table = self._reader().read_row_group(group, columns=names, use_threads=False)
            # The pages of large values are as large as the group: else the allocator keeps their memory, too.
            import_module("pyarrow").default_memory_pool().release_unused()
            if table.num_rows != self.rows[group]:
                raise ValueError(f"expected {plural(self.rows[group], 'row')}, found {table.num_rows:,}")  # noqa: TRY301
            return table
        except (OSError, ValueError) as error:
            raise self._damaged(f"row group {group}", error) from error

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        return self._file.read_at(offset, size_bytes)

    def expect_few(self) -> None:
        self._file.expect_few()

    def close(self) -> None:
        row_cache.drop(self.serial)
        self._file.close()


class _FileOfGroups(FileStream):
    """A file whose last bytes are known, for pyarrow.

    Args:
        piece_bytes: Larger reads are made of pieces, in memory outside of the heap: of freed ``bytes`` of up to 32 MiB,
            the heap of glibc would keep two.
    """

    def __init__(self, file: ReadableFile, end: bytes, piece_bytes: int) -> None:
        super().__init__(file)
        self._end, self._piece_bytes = end, piece_bytes

    def read_buffer(self, size: int) -> bytes | memoryview:
        """Read the pages of a column, in place of :meth:`read`."""
        if (size := min(size, self._size - self._position)) <= self._piece_bytes:
            return self.read(size)
        memory = map_memory(size)
        while piece := self.read(min(self._piece_bytes, size - memory.tell())):
            memory.write(piece)
        return memoryview(memory)[: memory.tell()]

    def _read_here(self, wanted: int) -> bytes:
        start = self._position - (self._size - len(self._end))
        return self._end[start : start + wanted] if start >= 0 else super()._read_here(wanted)


class PartialRow(dict[str, Any]):
    """The values of a row that Python can hold, and the errors of the other ones by column."""

    def __init__(self, columns: list[tuple[str, Any]], row: int) -> None:
        super().__init__()
        self.errors: dict[str, str] = {}
        for name, column in columns:
            try:
                self[name] = column[row].as_py()
            except (ValueError, OverflowError) as error:
                self.errors[name] = _first_line(error)


def _first_line(error: Exception) -> str:
    """Return the first line of an error's text, which may quote bytes of the file."""
    lines = str(error).splitlines() or [type(error).__name__]
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in lines[0])


def _decoded_bytes(group: Any, names: Columns) -> int:
    """Return the least memory that the values of a row group take; compressed, they may have far fewer bytes."""
    columns = map(group.column, range(group.num_columns))
    read = (column for column in columns if names is None or column.path_in_schema.split(".", 1)[0] in names)
    sizes = ((c.num_values * _VALUE_BITS.get(c.physical_type, 32) // 8, c.total_uncompressed_size) for c in read)
    return sum(map(max, sizes))


def _import_parquet() -> Any:
    """Import ``pyarrow.parquet``.

    Raises:
        ImportError: pyarrow is not installed; the message has the command that installs it.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        message = "Parquet files need the package pyarrow: pip install 'energon-toolkit[tables]'"
        raise MissingPackageError(message) from None
    return parquet


class RowFile(RecordFile):
    """The rows of a Parquet file; opening it needs pyarrow, and reads the footer."""

    decodes = False

    def __init__(self, storage: Storage, name: str, info: FileInfo | None = None) -> None:
        info = info or storage.stat(name)
        with RowGroups(storage, name, info) as groups:
            metadata = groups.metadata
            self._metadata = metadata if storage.checks_versions else None  # a file of this machine may be replaced
            self.ends = np.cumsum(groups.rows)
            self.group_bytes = [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]
            self.schema: Any = groups.schema
            self.columns = {field.name: str(field.type) for field in groups.schema}
            # Names of classes are values of a column next to their numbers.
            labels = {f"{name}_name": (name, names) for name, names in labelled_columns(groups.schema).items()}
            self._labels = {part: label for part, label in labels.items() if part not in self.columns}
            names = (*self.columns, *self._labels)
            super().__init__(storage, name, info, size_bytes=groups.size_bytes, part_names=names)
            self.media = media_columns(groups.schema)
            self.path_only = _rows_with_paths_only(metadata) if self.media else {}
            self._column_bytes = {**_column_bytes(metadata), **dict.fromkeys(self._labels, 0)}
            self._expected: dict[int, list[int]] = {}  # row group → its announced rows
            self._serial = next(serials)
            self._footer = groups.checksum()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return -1 bytes for each row: rows are not byte ranges."""
        return np.zeros(len(numbers), np.int64), np.full(len(numbers), -1, np.int64)

    def expect(self, numbers: IntArray) -> None:
        """Announce rows that will be read soon: they are decoded together with the first one of their row group."""
        if len(numbers) > 1:
            groups = np.searchsorted(self.ends, numbers, side="right")
            for sample, group in zip(numbers.tolist(), groups.tolist(), strict=True):
                self._expected.setdefault(group, []).append(sample)

    def _open(self) -> ReadableFile:
        return RowGroups(self.storage, self.name, self._info, metadata=self._metadata)

    def _columns_of(self, wanted: Callable[[str], bool] | None) -> Columns:
        """Return the columns from which the wanted parts are made; None for all."""
        if wanted is None:
            return None
        needed = {self._labels[part][0] for part in self._labels if wanted(part)}
        names = tuple(name for name in self.columns if name in needed or wanted(name))
        return None if len(names) == len(self.columns) else names

    def read(self, file: ReadableFile, sample: int, wanted: Callable[[str], bool] | None = None) -> dict[str, Any]:
        """Read one row; neighbours in its row group are then in memory."""
        if not isinstance(file, RowGroups):
            raise TypeError(f"expected the file that open() returned, found {file!r}")
        names = self._columns_of(wanted)
        if (ready := row_cache.take((self._serial, sample, names))) is not None:
            return ready
        group = int(np.searchsorted(self.ends, sample, side="right"))
        first = int(self.ends[group - 1]) if group else 0
        size_bytes = self.group_bytes[group] // max(1, int(self.ends[group]) - first)  # mean of a row
        for other in self._expected.pop(group, ()):
            if other != sample:
                row_cache.add((self._serial, other, names), size_bytes, partial(file.row, group, other - first, names))
        return file.row(group, sample - first, names)

    def values(self, parts: Mapping[str, Any], sample: int) -> dict[str, Any]:
        if isinstance(parts, PartialRow):
            name, error = next(iter(parts.errors.items()))
            raise SampleError(
                f"column {name!r} cannot be read: {error}",
                key=f"{self.name}/{sample}",
                part=name,
                source=self.path,
                hint="correct the value, or write the column with another type",
            )
        names = {
            part: name_of_class(parts[name], names) for part, (name, names) in self._labels.items() if name in parts
        }
        return {**parts, **names}

    def part_bytes(self) -> dict[str, int]:
        """Return the uncompressed size of each column."""
        return dict(self._column_bytes)

    def row_groups(self) -> list[tuple[int, int]]:
        return [*zip(np.diff(self.ends, prepend=0).tolist(), self.group_bytes, strict=True)]

    def facts(self) -> dict[str, Any]:
        """Return the types of the columns, and the number and size of the row groups."""
        return {
            "columns": dict(self.columns),
            "row_groups": {"count": len(self.group_bytes), "largest_bytes": max(self.group_bytes, default=0)},
        }

    def fingerprint(self) -> bytes:
        """Return a checksum of the footer, which has the statistics of all columns."""
        return self._footer.to_bytes(4, "little")


def _rows_with_paths_only(metadata: Any) -> dict[str, int]:
    """Return the least number of rows of each column that have a path and no bytes, by what the footer counts."""
    nulls: dict[str, Counter[str]] = {"bytes": Counter(), "path": Counter()}
    for row_group in range(metadata.num_row_groups):
        group = metadata.row_group(row_group)
        for position in range(group.num_columns):
            column = group.column(position)
            name, _, field = column.path_in_schema.rpartition(".")
            if field in nulls and column.is_stats_set and column.statistics.has_null_count:
                nulls[field][name] += column.statistics.null_count
    return dict(nulls["bytes"] - nulls["path"])


def _column_bytes(metadata: Any) -> dict[str, int]:
    """Return the uncompressed bytes of each column; nested values count for their outermost column."""
    sizes: Counter[str] = Counter()
    for row_group in range(metadata.num_row_groups):
        group = metadata.row_group(row_group)
        for position in range(group.num_columns):
            column = group.column(position)
            sizes[column.path_in_schema.split(".", 1)[0]] += column.total_uncompressed_size
    return dict(sizes)
