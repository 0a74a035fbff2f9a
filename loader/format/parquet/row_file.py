"""A Parquet file as a file of numbered samples: each row is a sample, and each column one of its values.

Rows cannot be read alone: a row group is decoded as a whole. The groups that were used last are kept as Arrow tables,
together at most ``CACHED_BYTES`` in a process, and at least one.
"""

from __future__ import annotations

import io
import zlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from ...arrays import IntArray
from ...errors import FormatError
from ...storage import ReadableFile, Storage

__all__ = ["CACHED_BYTES", "RowFile", "RowGroups", "import_parquet"]

CACHED_BYTES = 256 << 20
"""Limit of the decoded row groups that a process keeps."""

_MAGIC = b"PAR1"
_COPY_AGAIN = "copy the file again: it is truncated or damaged"


def import_parquet() -> Any:
    """Import ``pyarrow.parquet``.

    Raises:
        ImportError: pyarrow is not installed; the message has the command that installs it.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError("Parquet files need the package pyarrow: pip install 'energon-toolkit[tables]'") from None
    return parquet


class RowFile:
    """The rows of a Parquet file. Opening reads the footer.

    Args:
        storage: Folder of the file.
        name: Name of the file in it.

    Raises:
        FormatError: It is not a Parquet file, or it is truncated.
        ImportError: pyarrow is not installed.
        StorageError: It cannot be read.
    """

    decodes = False

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage
        self.name = name
        with RowGroups(storage, name) as groups:
            metadata = groups.metadata
            self.size_bytes = groups.size_bytes
            self.ends = np.cumsum([metadata.row_group(one).num_rows for one in range(metadata.num_row_groups)])
            self.group_bytes = [metadata.row_group(one).total_byte_size for one in range(metadata.num_row_groups)]
            self.columns = {field.name: str(field.type) for field in groups.schema}
            self._column_bytes = _column_bytes(metadata)
            self._footer = zlib.crc32(str(metadata.to_dict()).encode())

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return -1 bytes for each row: rows are not byte ranges."""
        return np.zeros(len(numbers), np.int64), np.full(len(numbers), -1, np.int64)

    def open(self) -> ReadableFile:
        """Open the file.

        Raises:
            FormatError: Its size has changed since the dataset was opened.
            StorageError: It is missing or cannot be read.
        """
        groups = RowGroups(self.storage, self.name)
        if groups.size_bytes != self.size_bytes:
            groups.close()
            raise FormatError(
                f"the file has changed since it was opened: it had {self.size_bytes:,} bytes, "
                f"now {groups.size_bytes:,}",
                shard=self.storage.path(self.name),
                hint="restart the program when the file is complete",
            )
        return groups

    def read(self, file: ReadableFile, number: int) -> dict[str, Any]:
        """Read one row; neighbours in its row group are then in memory.

        Raises:
            FormatError: The row group is damaged.
        """
        if not isinstance(file, RowGroups):
            raise TypeError(f"expected the file that open() returned, found {file!r}")
        group = int(np.searchsorted(self.ends, number, side="right"))
        first = int(self.ends[group - 1]) if group else 0
        return file.row(group, number - first)

    def values(self, parts: Mapping[str, Any], number: int) -> dict[str, Any]:  # noqa: ARG002 - rows are final
        """Return the values of the row as Python objects."""
        return dict(parts)

    def part_bytes(self) -> dict[str, int]:
        """Return the uncompressed size of each column."""
        return dict(self._column_bytes)

    def facts(self) -> dict[str, Any]:
        """Return the types of the columns, and the number and size of the row groups."""
        return {
            "columns": dict(self.columns),
            "row_groups": {"count": len(self.group_bytes), "largest_bytes": max(self.group_bytes, default=0)},
        }

    def fingerprint(self) -> bytes:
        """Return a checksum of the footer, which has the statistics of all columns."""
        return self._footer.to_bytes(4, "little")


def _column_bytes(metadata: Any) -> dict[str, int]:
    """Return the uncompressed bytes of each column; those of nested values count for their outermost column."""
    sizes: Counter[str] = Counter()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            sizes[column.path_in_schema.split(".", 1)[0]] += column.total_uncompressed_size
    return dict(sizes)


class RowGroups:
    """An open Parquet file, which returns rows from decoded row groups.

    Args:
        storage: Folder of the file.
        name: Name of the file in it.

    Raises:
        FormatError: It is not a Parquet file, or it is truncated.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self.path = storage.path(name)
        parquet = import_parquet()
        self._file = storage.open(name)
        self.size_bytes = self._file.size_bytes
        try:
            self._check_end()
            self._parquet = parquet.ParquetFile(_Stream(self._file))
            self.metadata = self._parquet.metadata
            self.schema = self._parquet.schema_arrow
        except (OSError, ValueError) as error:  # pyarrow's errors are of these classes
            self._file.close()
            raise self._damaged("its footer", error) from error
        except BaseException:
            self._file.close()
            raise

    def _check_end(self) -> None:
        if self._file.read_at(max(0, self.size_bytes - len(_MAGIC)), len(_MAGIC)) != _MAGIC:
            raise FormatError(
                f"expected a Parquet file, which ends with {_MAGIC!r}; this one does not",
                shard=self.path,
                hint=_COPY_AGAIN,
            )

    def _damaged(self, what: str, error: Exception) -> FormatError:
        return FormatError(f"{what} cannot be read: {str(error).splitlines()[0]}", shard=self.path, hint=_COPY_AGAIN)

    def row(self, group: int, number: int) -> dict[str, Any]:
        """Return a row of a row group as Python objects by column.

        Raises:
            FormatError: The row group is damaged.
        """
        columns = _cache.get(self, group)
        return {name: column[number].as_py() for name, column in columns}

    def decode(self, group: int) -> Any:
        """Return a row group as an Arrow table.

        Raises:
            FormatError: The row group is damaged.
        """
        try:
            # One thread: worker processes already use all cores.
            return self._parquet.read_row_group(group, use_threads=False)
        except (OSError, ValueError) as error:
            raise self._damaged(f"row group {group}", error) from error

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Read bytes of the file."""
        return self._file.read_at(offset, size_bytes)

    def expect(self, offset: int, size_bytes: int) -> None:
        """Ignore the announcement: rows are not byte ranges."""

    def close(self) -> None:
        """Close the file, and drop its decoded row groups."""
        _cache.drop(self)
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _GroupCache:
    """The decoded row groups of a process, up to :data:`CACHED_BYTES`; the one that was not used longest goes first."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[int, int], tuple[list[tuple[str, Any]], int]] = OrderedDict()
        self._bytes = 0

    def get(self, file: RowGroups, group: int) -> list[tuple[str, Any]]:
        """Return names and Arrow columns of a row group; decode it if it is not here."""
        key = (id(file), group)
        found = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found[0]
        table = file.decode(group)
        columns = list(zip(table.column_names, table.columns, strict=True))
        self._groups[key] = columns, table.nbytes
        self._bytes += table.nbytes
        while self._bytes > CACHED_BYTES and len(self._groups) > 1:
            _, (_, size_bytes) = self._groups.popitem(last=False)
            self._bytes -= size_bytes
        return columns

    def drop(self, file: RowGroups) -> None:
        """Drop the row groups of a file that is closed."""
        for key in [key for key in self._groups if key[0] == id(file)]:
            self._bytes -= self._groups.pop(key)[1]


_cache = _GroupCache()


class _Stream(io.RawIOBase):
    """A file with a position, as pyarrow reads it, over positioned reads."""

    def __init__(self, file: ReadableFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = max(0, self._file.size_bytes - self._position)
        data = self._file.read_at(self._position, size)
        self._position += len(data)
        return data
