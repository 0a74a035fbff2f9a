"""Values of the rows of Arrow tables, read in the workers a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import FormatError, SampleError
from ..rows.row import CellRef, UrlRef
from .arrow_files import ArrowTable, Batch
from .columns import PartColumns, TableLayout
from .part_values import media_bytes, part_bytes


def cell_columns(layout: TableLayout) -> list[str]:
    """Return the columns that :class:`ArrowCells` reads."""
    cells = [part for part in layout.parts if part.role not in ("path", "url")]
    return list(dict.fromkeys(column for part in cells for column in part.columns))


def column_of_cell(part: PartColumns, index: int | None) -> str:
    """Return what a :class:`CellRef` has as its column."""
    return part.name if index is None else f"{part.name}#{index}"


class ArrowCells:
    """Reads the parts of rows. Rows that follow each other come from one pass over their file.

    Args:
        layout: What becomes of the columns.
        open_file: Opens a file of the table by its name.
    """

    def __init__(self, layout: TableLayout, open_file: Callable[[str], ArrowTable]) -> None:
        self._layout = layout
        self._open_file = open_file
        self._columns = cell_columns(layout)
        self._parts = {part.name: part for part in layout.parts}
        self._name: str | None = None
        self._table: ArrowTable | None = None
        self._batches: Iterator[Batch] = iter(())
        self._first = self._stop = 0  # rows of the present batch
        self._batch = BatchValues(None)
        self._damaged = range(0)  # rows of which no more is tried, and the error of the first of them
        self._fault = FormatError("")

    def read(self, cell: CellRef) -> bytes | UrlRef:
        """Return the contents of a part, or the URL of its file.

        Raises:
            SampleError: The value is missing, or cannot be written as a part.
            FormatError: The file is damaged.
            StorageError: It cannot be read.
        """
        if cell.file != self._name or not self._first <= cell.row < self._stop:
            self._move_to(cell.file, cell.row)
        name, _, index = cell.column.partition("#")
        part, row = self._parts[name], cell.row - self._first
        column = part.columns[0]
        if part.role != "bytes":
            values = {column: self._batch.value(column, row) for column in part.columns}
            return part_bytes(part, values, self._layout.class_names)
        data = self._batch.contents(column, row) if not part.is_list else None
        if isinstance(data, bytes):
            return data
        value = self._batch.value(column, row)
        return media_bytes(value[int(index)] if part.is_list else value, column, self._layout.files)

    def _move_to(self, name: str, row: int) -> None:
        """Read on to the batch with a row; from its row group, if it is not one of the next."""
        if name != self._name:
            self.close()
            self._table, self._name = self._open_file(name), name
        if self._table is None or row >= self._table.num_rows:
            raise SampleError(f"expected row {row:,} in {name}, which has fewer", hint="do not change it meanwhile")
        if row in self._damaged:
            raise FormatError(self._fault.message, shard=name, hint=self._fault.hint)
        try:
            self._read_to(name, row)
        except FormatError as error:
            self._damaged, self._fault = range(row, self._table.unit_stop(row)), error
            self._first = self._stop = 0
            raise

    def _read_to(self, name: str, row: int) -> None:
        table = self._table
        if table is None:
            return
        if not self._stop or row < self._first or row - self._stop >= self._stop - self._first:
            self._batches = table.batches(row, self._columns)
            self._first = self._stop = 0
        while not self._first <= row < self._stop:
            following = next(self._batches, None)
            if following is None:
                raise FormatError("the file ends before the last of its rows", shard=name, hint="copy the file again")
            self._first, batch = following
            self._stop = self._first + batch.num_rows
            self._batch = BatchValues(batch)

    def close(self) -> None:
        """Close the file."""
        self._batches, self._batch, self._name = iter(()), BatchValues(None), None
        self._first = self._stop = 0
        self._damaged = range(0)
        if self._table is not None:
            self._table.close()
            self._table = None


class BatchValues:
    """The values of a batch by column and row."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._columns: dict[str, Any] = {}
        self._contents: dict[str, Any] = {}

    def value(self, column: str, row: int) -> Any:
        """Return a value as Python's."""
        values = self._columns.get(column)
        if values is None:
            values = self._columns[column] = self._batch.column(column)
        try:
            return values[row].as_py()
        except (ValueError, OverflowError) as error:
            raise SampleError(f"a value of column {column!r} cannot be read: {error}") from error

    def contents(self, column: str, row: int) -> bytes | str | None:
        """Return the bytes or text of a value, or of the field ``bytes`` of a struct; None if there are none."""
        values = self._contents.get(column)
        if values is None:
            values = self._batch.column(column)
            if hasattr(values, "field"):
                values = values.field("bytes")
            self._contents[column] = values
        contents: bytes | str | None = values[row].as_py()
        return contents
