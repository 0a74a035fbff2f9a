"""The rows of an Arrow table as samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...errors import FormatError, SampleError
from ..rows.row import CellRef, Row
from .arrow_cells import BatchValues, cell_columns, column_of_cell
from .arrow_columns import arrow_columns, import_pyarrow
from .arrow_files import ArrowTable
from .columns import Columns, PartColumns, TableLayout
from .detect import EXAMPLE_ROWS, find_layout
from .row_maker import CellOf, RowMaker

__all__ = ["example_layout", "list_table"]

_EXAMPLE_BYTES = 32 << 20


def example_layout(table: ArrowTable, columns: Columns, *, root: str, at: str) -> TableLayout:
    """Return what becomes of the columns of a table, from its first rows.

    Raises:
        ConfigError: No column can be a part, or a named one does not exist.
    """
    names = table.schema.names
    _, mean = next(table.row_sizes(names), (0, 1))
    rows = max(1, min(EXAMPLE_ROWS, _EXAMPLE_BYTES // max(1, mean)))
    batches: list[Any] = []
    try:
        for first, batch in table.batches(0, names):
            batches.append(batch.slice(0, rows - first))
            if first + batch.num_rows >= rows:
                break
    except FormatError:
        if not batches:
            raise
    examples = import_pyarrow().Table.from_batches(batches)
    return find_layout(arrow_columns(table.schema, examples), columns, root=root, at=at)


def list_table(
    table: ArrowTable,
    layout: TableLayout,
    *,
    root: str,
    name: str,
    file: str,
    version: str,
    key_prefix: str,
    split: str,
    with_values: bool,
) -> Iterator[Row]:
    """Yield the rows of a table.

    Args:
        table: The table.
        layout: What becomes of its columns.
        root: Folder or URL that relative paths start from.
        name: Its name, for reports.
        file: Its name for the workers.
        version: Its version.
        key_prefix: Begin of the keys that are numbers of rows.
        split: Split part, if there is no column of them.
        with_values: Yield the values; False yields cells, which the workers read.
    """
    maker = RowMaker(layout, root, key_prefix=key_prefix)
    if with_values:
        columns = list(dict.fromkeys([*_listed_columns(layout), *cell_columns(layout)]))
        for number, values in _values(table, columns):
            origin = f"{name}, row {number}"
            if isinstance(values, SampleError):
                yield maker.fault(number, origin, values.message)
            else:
                yield maker.make(values, number=number, origin=origin, split=split)
        return
    cells = _Cells(table, layout, file, version)
    for number, values in _listed_values(table, layout):
        cells.move_to(number)
        origin = f"{name}, row {number}"
        yield maker.make(values, number=number, origin=origin, split=split, cell=cells.cell_of(values))


class _Cells:
    """Creates the references to the cells of a row, with sizes that are means over ranges of rows."""

    def __init__(self, table: ArrowTable, layout: TableLayout, file: str, version: str) -> None:
        parts = [part for part in layout.parts if part.role not in ("path", "url")]
        sizes = [list(table.row_sizes(part.columns)) for part in parts]
        self._ranges = [
            (one[0][0], {part.name: mean for part, (_, mean) in zip(parts, one, strict=True)})
            for one in zip(*sizes, strict=True)
        ]
        self._file = file
        self._version = version
        self._next_range = 0
        self._stop = 0
        self._row = 0
        self._means: dict[str, int] = {}

    def move_to(self, row: int) -> None:
        """Set the row; rows ascend."""
        self._row = row
        while row >= self._stop and self._next_range < len(self._ranges):
            rows, self._means = self._ranges[self._next_range]
            self._stop += rows
            self._next_range += 1

    def cell_of(self, values: Mapping[str, Any]) -> CellOf:
        """Return the function that makes the references of this row."""
        row = self._row

        def cell(part: PartColumns, index: int | None) -> CellRef:
            elements = 1 if index is None else len(values[part.columns[0]])
            return CellRef(
                row=row,
                column=column_of_cell(part, index),
                size_bytes=self._means.get(part.name, 0) // elements,
                file=self._file,
                changed=self._version,
                named_by_contents=part.named_by_contents,
            )

        return cell


def _listed_columns(layout: TableLayout) -> list[str]:
    """Return the columns whose values the list of rows has: keys, splits, paths and URLs."""
    columns = [layout.key, layout.split, *(part.columns[0] for part in layout.parts if part.role in ("path", "url"))]
    return list(dict.fromkeys(column for column in columns if column is not None))


def _listed_values(table: ArrowTable, layout: TableLayout) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the numbers of rows with the values that the list of rows needs; of lists, which elements are there."""
    columns = _listed_columns(layout)
    lists = [part.columns[0] for part in layout.parts if part.is_list and part.role == "bytes"]
    if not columns and not lists:
        nothing: dict[str, Any] = {}
        yield from ((number, nothing) for number in range(table.num_rows))
        return
    for first, batch in table.batches(0, [*columns, *map(table.lengths_column, lists)]):
        values = {name: batch.column(name).to_pylist() for name in columns}
        values |= {name: _present_elements(batch.column(name)) for name in lists}
        for row in range(batch.num_rows):
            yield first + row, {name: column[row] for name, column in values.items()}


def _present_elements(column: Any) -> list[list[bool | None]]:
    """Return for each list of a column True for elements, and None for those that are null."""
    from pyarrow import compute

    present = iter(column.flatten().is_valid().to_pylist())
    return [
        [is_present or None for is_present in islice(present, length or 0)]
        for length in compute.list_value_length(column).to_pylist()
    ]


def _values(table: ArrowTable, columns: list[str]) -> Iterator[tuple[int, Mapping[str, Any] | SampleError]]:
    for first, batch in table.batches(0, columns):
        values = BatchValues(batch)
        for row in range(batch.num_rows):
            try:
                yield first + row, {name: values.value(name, row) for name in columns}
            except SampleError as error:
                yield first + row, error
