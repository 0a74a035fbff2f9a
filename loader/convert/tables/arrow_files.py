"""Batches of Parquet and Arrow files, in their order, at bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from ...errors import FormatError, required_package
from ...parts.other_file import refuse_other_file
from ...storage import ClosesOnExit, FileStream, LocalStorage, ReadableFile, open_parent
from ...storage.unpacked import check_ratio

_BATCH_BYTES = 16 << 20  # of the values of a batch, by their mean
_MAX_BATCH_ROWS = 8192
_MAX_BATCH_BYTES = 256 << 20  # of the values of a batch, if each were the largest of a dictionary
_MIN_BATCH_ROWS = 64  # that are decoded together in any case
_BUFFER_BYTES = 1 << 18  # larger pages are read without it
_MAX_UNIT_BYTES = 512 << 20  # of a value of Parquet or a compressed batch; it takes two to four times as much
_COPY_AGAIN = "copy the file again: it is truncated, damaged, or of another format"

Batch = tuple[int, Any]
"""The number of the first row, and an Arrow record batch."""


def import_pyarrow() -> Any:
    """Import ``pyarrow``."""
    with required_package(
        "reading Parquet and Arrow files needs pyarrow, which is not installed",
        hint="run: pip install 'energon-toolkit[tables]'",
    ):
        import pyarrow as pa
    return pa


class ArrowTable(ClosesOnExit, ABC):
    """A table that is read in batches.

    Attributes:
        is_fast_in_any_order: Rows are read fast one by one, too.
    """

    schema: Any
    num_rows: int
    is_fast_in_any_order = False

    @abstractmethod
    def batches(self, start: int, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield the rows of some columns from a batch that has the row ``start`` or precedes it."""

    @abstractmethod
    def row_sizes(self, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield, for consecutive ranges of rows, the number of rows and the mean bytes of a row in these columns."""

    @abstractmethod
    def unit_stop(self, row: int) -> int:
        """Return the end of the rows that can only be read together with a row."""

    def lengths_column(self, column: str) -> str:
        """Return the least of a column of lists that must be read to know their lengths."""
        return column

    def null_ranges(self, column: str) -> Iterator[tuple[int, int]]:  # noqa: ARG002 - some tables know it
        """Yield the half-open ranges of rows that may have nulls in a column of bytes, as far as that is known."""
        yield 0, self.num_rows


@contextmanager
def _readable(path: str, what: str) -> Iterator[None]:
    """Raise errors of pyarrow as a ``FormatError``."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError, KeyError) as error:  # pyarrow's errors derive from these
        refuse_other_file(path, "table")
        lines = str(error).splitlines() or [type(error).__name__]
        raise FormatError(f"{what} cannot be read: {lines[0]}", shard=path, hint=_COPY_AGAIN) from error


class UnitTable(ArrowTable):
    """A table in a file, in units of rows that can only be read together.

    Args:
        path: The file, or its URL.
    """

    kind: ClassVar[str]

    def __init__(self, path: str) -> None:
        import_pyarrow()
        self._path = path
        storage, name = open_parent(path)
        self._file: ReadableFile = storage.open(name)
        try:
            with _readable(path, f"this {self.kind} file"):
                self._rows = self._open(storage.path(name) if isinstance(storage, LocalStorage) else None)
        except BaseException:
            self._file.close()
            raise
        self.num_rows = sum(self._rows)

    @abstractmethod
    def _open(self, local: str | None) -> list[int]:
        """Read the schema, and return the number of rows of each unit; ``local`` is the path on this machine."""

    def unit_stop(self, row: int) -> int:
        return next(stop for stop in accumulate(self._rows) if stop > row)


class ParquetTable(UnitTable):
    """A Parquet file."""

    kind = "Parquet"

    def _open(self, local: str | None) -> list[int]:
        from pyarrow import parquet

        # A buffer: else each column of a row group is read into memory as a whole.
        self._parquet = parquet.ParquetFile(
            local or FileStream(self._file), buffer_size=_BUFFER_BYTES, pre_buffer=False
        )
        self.schema = self._parquet.schema_arrow
        self._metadata: Any = self._parquet.metadata
        # Tables of thousands of columns are followed one column at a time.
        self._leaves: dict[str, list[int]] = {}
        for leaf in range(self._metadata.num_columns):
            path = self._metadata.schema.column(leaf).path
            for name in {path, path.partition(".")[0]}:
                self._leaves.setdefault(name, []).append(leaf)
        return [self._metadata.row_group(group).num_rows for group in range(self._metadata.num_row_groups)]

    def batches(self, start: int, columns: Sequence[str]) -> Iterator[Batch]:
        first = unpacked = 0
        for group, rows in enumerate(self._rows):
            if first + rows > start:
                # Refuse columns that unpack to too much before they are read.
                for chunk in self._columns(group, columns):
                    sizes = chunk.total_uncompressed_size, chunk.total_compressed_size
                    name = f"column {chunk.path_in_schema!r}"
                    check_ratio(*sizes, path=self._path, name=name)
                    # The metadata has no more about the largest value: it is no smaller than the mean.
                    _check_size(sizes[0] // max(1, chunk.num_values), f"a value of {name}", self._path)
                batch_rows = self._batch_rows(group, columns)
                position = first
                with _readable(self._path, f"row group {group}"):
                    # One thread: the workers use all cores, and pyarrow deadlocks if two read from one Python file.
                    for batch in self._parquet.iter_batches(
                        batch_rows, row_groups=[group], columns=list(columns), use_threads=False
                    ):
                        # A few bytes may repeat a value of a dictionary in all rows.
                        unpacked += batch.nbytes
                        check_ratio(unpacked, self._file.size_bytes, path=self._path)
                        yield position, batch
                        position += batch.num_rows
            first += rows

    def row_sizes(self, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
        for group, rows in enumerate(self._rows):
            if rows:
                yield rows, -(-self._group_bytes(group, columns) // rows)

    def lengths_column(self, column: str) -> str:
        paths = (leaf.path_in_schema for leaf in self._columns(0, [column]))
        inner = (path for path in paths if path.startswith(f"{column}.") and path not in self.schema.names)
        return next((path for path in inner if path.endswith(".path")), column)

    def null_ranges(self, column: str) -> Iterator[tuple[int, int]]:
        stop = 0
        for group, rows in enumerate(self._rows):
            first, stop = stop, stop + rows
            # A row group has no nulls if the statistics of all its leaves say so.
            leaves = [leaf for leaf in self._columns(group, [column]) if not leaf.path_in_schema.endswith(".path")]
            counts = [leaf.statistics and leaf.statistics.has_null_count and leaf.statistics for leaf in leaves]
            if not all(known and known.null_count == 0 for known in counts):
                yield first, stop

    def _batch_rows(self, group: int, columns: Sequence[str]) -> int:
        size_bytes = self._group_bytes(group, columns)
        rows = max(1, min(_MAX_BATCH_ROWS, _BATCH_BYTES * self._rows[group] // max(1, size_bytes)))
        dictionaries = (column for column in self._columns(group, columns) if column.has_dictionary_page)
        largest: int = max((column.total_uncompressed_size for column in dictionaries), default=1)
        # Each row may have the largest value of a dictionary.
        return min(rows, max(_MIN_BATCH_ROWS, _MAX_BATCH_BYTES // max(1, largest)))

    def _group_bytes(self, group: int, columns: Sequence[str]) -> int:
        return sum(column.total_uncompressed_size for column in self._columns(group, columns))

    def _columns(self, group: int, columns: Sequence[str]) -> Iterator[Any]:
        metadata = self._metadata.row_group(group)
        return map(metadata.column, sorted({leaf for name in columns for leaf in self._leaves.get(name, ())}))

    def close(self) -> None:
        self._parquet.close()
        self._file.close()


class ArrowFile(UnitTable):
    """An Arrow file, in the IPC format (Feather, version 2) or in the streaming format."""

    kind = "Arrow"

    def _open(self, local: str | None) -> list[int]:
        import pyarrow as pa

        # A local file is mapped; an empty one cannot be.
        self._source = pa.memory_map(local) if local and self._file.size_bytes else FileStream(self._file)
        self._is_stream = self._source.read(6) != b"ARROW1"
        self.schema = self._reader().schema
        # Read all headers, which have the numbers of rows.
        self._batches = [*_batch_headers(self._file, self._path, is_stream=self._is_stream)]
        return [header.rows for header in self._batches]

    def _reader(self, columns: Sequence[str] | None = None) -> Any:
        from pyarrow import ipc

        self._source.seek(0)
        included = None if columns is None else [self.schema.get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(use_threads=False, included_fields=included)
        return (ipc.open_stream if self._is_stream else ipc.open_file)(self._source, options=options)

    def _read(self, reader: Any, index: int) -> Any:
        """Read a batch, of streams the next one; refuse one that becomes very large before it is decompressed."""
        header, name = self._batches[index], f"record batch {index}"
        check_ratio(header.unpacked_bytes, header.packed_bytes, path=self._path, name=name)
        if header.unpacked_bytes > header.packed_bytes:
            _check_size(header.unpacked_bytes, name, self._path)
        return reader.read_next_batch() if self._is_stream else reader.get_batch(index)

    def batches(self, start: int, columns: Sequence[str]) -> Iterator[Batch]:
        with _readable(self._path, "this Arrow file"):
            reader, unpacked = self._reader(columns), 0
            for index, end in enumerate(accumulate(self._rows)):
                batch = self._read(reader, index) if self._is_stream or end > start else None
                if batch is not None and end > start:
                    unpacked += batch.nbytes
                    check_ratio(unpacked, self._file.size_bytes, path=self._path)
                    yield end - self._rows[index], batch

    def row_sizes(self, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
        with _readable(self._path, "this Arrow file"):
            reader, is_lost = self._reader(columns), False
            for index, header in enumerate(self._batches):
                try:
                    # After damage in a stream, the next batches cannot be found: their headers must do.
                    size_bytes = header.packed_bytes if is_lost else self._read(reader, index).nbytes
                except FormatError:
                    size_bytes, is_lost = header.packed_bytes, self._is_stream
                if header.rows:
                    yield header.rows, -(-size_bytes // header.rows)

    def unit_stop(self, row: int) -> int:
        return self.num_rows if self._is_stream else super().unit_stop(row)

    def close(self) -> None:
        self._source.close()
        self._file.close()


def open_table(path: str, kind: str) -> ArrowTable:
    """Open a file of the kind ``"parquet"`` or ``"arrow"``."""
    return ParquetTable(path) if kind == "parquet" else ArrowFile(path)


class _BatchHeader(NamedTuple):
    """The rows of a record batch, and its bytes in memory and in the file."""

    rows: int
    unpacked_bytes: int
    packed_bytes: int


class _Table(NamedTuple):
    """A table of the FlatBuffers format, in which the headers of Arrow files are written."""

    data: bytes
    position: int

    def at(self, position: int, size_bytes: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.data[position : position + size_bytes], "little", signed=signed)

    def place(self, field: int) -> int:
        """Return the position of a field; 0 for one that is not written."""
        offsets = self.position - self.at(self.position, 4, signed=True)
        is_written = 4 + 2 * field < self.at(offsets, 2)
        offset = self.at(offsets + 4 + 2 * field, 2) if is_written else 0
        return self.position + offset if offset else 0

    def number(self, field: int, size_bytes: int) -> int:
        position = self.place(field)
        return self.at(position, size_bytes, signed=True) if position else 0

    def table(self, field: int) -> _Table:
        return _Table(self.data, self.place(field) + self.number(field, 4))

    def pairs(self, field: int, stride: int = 16) -> list[tuple[int, int]]:
        """Return the first two 64-bit integers of each element of a vector."""
        start = self.place(field) + self.number(field, 4)
        stop = start + 4 + stride * min(self.at(start, 4), len(self.data) // stride)
        return [(self.at(at, 8), self.at(at + 8, 8)) for at in range(start + 4, stop, stride)]


_DICTIONARY, _BATCH = 2, 3  # kinds of messages


def _batch_headers(file: ReadableFile, path: str, *, is_stream: bool) -> Iterator[_BatchHeader]:
    for position in _messages(file) if is_stream else _messages_of_footer(file):
        # A message has a header and a body; other kinds have no rows.
        message, start = _message(file, position)
        kind = message.number(1, 1)
        if kind not in (_DICTIONARY, _BATCH):
            continue
        batch = message.table(2) if kind == _BATCH else message.table(2).table(1)
        # Add the sizes of the buffers, packed and unpacked.
        buffers = batch.pairs(2)
        unpacked = packed = sum(size for _, size in buffers)
        if batch.place(3):  # each buffer begins with its size in memory
            firsts = [file.read_at(start + offset, 8) for offset, size in buffers if size]
            unpacked = sum(max(0, int.from_bytes(first, "little", signed=True)) for first in firsts)
        if kind == _BATCH:
            yield _BatchHeader(batch.number(0, 8), unpacked, packed)
        else:
            check_ratio(unpacked, packed, path=path, name="a dictionary")


def _messages(file: ReadableFile) -> Iterator[int]:
    position = 0
    while len(file.read_at(position, 8)) >= 4:
        message, start = _message(file, position)
        if start - position <= 8:  # the end of the stream
            return
        yield position
        position = start + message.number(3, 8)


def _messages_of_footer(file: ReadableFile) -> list[int]:
    # The footer lists the offsets of dictionaries and batches.
    end = file.size_bytes - 10  # the size of the footer, and ARROW1
    start = end - int.from_bytes(file.read_at(end, 4), "little")
    data = file.read_at(max(0, start), end - max(0, start))
    footer = _Table(data, int.from_bytes(data[:4], "little"))
    return [offset for field in (2, 3) for offset, _ in footer.pairs(field, 24)]


def _message(file: ReadableFile, position: int) -> tuple[_Table, int]:
    # Streams mark the size of a message since version 0.15 of Arrow; older files do not.
    head = file.read_at(position, 8)
    start = position + (8 if head.startswith(b"\xff\xff\xff\xff") else 4)
    stop = start + int.from_bytes(head[start - position - 4 : start - position], "little")
    data = file.read_at(start, max(0, min(stop, file.size_bytes) - start))
    message = _Table(data, int.from_bytes(data[:4], "little"))
    if not 0 <= message.number(3, 8) <= file.size_bytes - stop:
        raise ValueError("it ends within a message")
    return message, stop


def _check_size(size_bytes: int, name: str, path: str) -> None:
    if size_bytes > _MAX_UNIT_BYTES:
        raise FormatError(
            f"{name} has {size_bytes:,} bytes, which can be read only together; expected at most {_MAX_UNIT_BYTES:,}",
            shard=path,
            hint="write the file with smaller values or batches",
        )


def readable_batches(table: ArrowTable, columns: Sequence[str]) -> Iterator[Batch | tuple[int, FormatError]]:
    """Yield all rows of some columns; of rows that cannot be read, the number of the first and the error."""
    start = 0
    while start < table.num_rows:
        try:
            # Read until rows cannot be read, and continue after them.
            for first, batch in table.batches(start, columns):
                yield first, batch
                start = first + batch.num_rows
            return
        except FormatError as error:
            yield start, error
            start = table.unit_stop(start)
