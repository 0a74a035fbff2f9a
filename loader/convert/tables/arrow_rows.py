"""The rows of an Arrow table as samples, listed and read a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from ...engine import Account
from ...errors import ConfigError, EnergonError, FormatError, SampleError, plural
from ...format.records.table_schema import class_names, features_of, is_bytes, is_list, is_media
from ..rows.row import CellReader, CellRef, Row, UrlRef
from .arrow_files import ArrowTable, Batch, readable_batches
from .columns import EXAMPLE_ROWS, ColumnType, PartColumns, TableColumn, TableLayout
from .named_files import NamedFiles
from .part_values import CellOf, RowMaker, media_bytes, part_bytes
from .table_files import TableFile

_EXAMPLE_BYTES = 32 << 20


def survey_columns(tables: Iterable[ArrowTable], files: NamedFiles) -> list[TableColumn]:
    """Return the columns of tables with the same columns, and what their values are in all rows.

    Only columns of texts, and columns that may be keys or splits, are read to their ends. Tables are closed one by one;
    without rows in any of them, no column is returned.
    """
    fault: FormatError | None = None
    columns: dict[str, TableColumn] = {}
    for table in tables:
        if table.num_rows:
            for column in arrow_columns(table.schema, files):
                # Tables of one dataset have the same columns, but one without values has no type.
                earlier = columns.setdefault(column.name, column)
                if earlier.type != column.type and not earlier.examples:  # it had no values to tell its type by
                    columns[column.name] = column
            fault = _follow_table(table, [columns[name] for name in table.schema.names]) or fault
        table.close()
    # Without a single value, the fault of the rows is the reason.
    if fault is not None and not any(column.examples for column in columns.values()):
        raise fault
    return list(columns.values())


def _follow_table(table: ArrowTable, columns: Sequence[TableColumn]) -> FormatError | None:
    fault: FormatError | None = None
    # Follow the columns of which all values matter.
    followed = [column for column in columns if column.type in ("text", "text list") or column.follows_all]
    for _, batch in readable_batches(table, [column.name for column in followed]) if followed else ():
        if isinstance(batch, FormatError):
            fault = fault or batch
            continue
        for column in followed:
            column.add(python_values(batch.column(column.name)))
    # Other columns need examples only.
    for column in columns:
        if not column.examples:
            fault = _add_examples(column, table) or fault
        if column.type == "number list":
            _add_lengths(column, table)
    return fault


def _add_lengths(column: TableColumn, table: ArrowTable) -> None:
    """Add the lengths of lists of numbers, as long as all of them may be short and equal."""
    from pyarrow import compute

    for _, batch in readable_batches(table, [column.name]):
        if not isinstance(batch, FormatError):
            column.lengths |= {*compute.list_value_length(batch.column(0)).unique().drop_null().to_pylist()}
        if not column.has_short_lists:
            return


def _add_examples(column: TableColumn, table: ArrowTable) -> FormatError | None:
    """Add the first values that are not null, of a row group after the first if need be."""
    fault: FormatError | None = None
    _, mean = next(table.row_sizes([column.name]), (0, 1))
    # Of larger values, fewer examples fit into memory.
    rows = max(1, min(EXAMPLE_ROWS, _EXAMPLE_BYTES // max(1, mean)))
    for first, batch in readable_batches(table, [column.name]):
        if isinstance(batch, FormatError):
            fault = batch
            continue
        values = batch.column(column.name)
        column.values = column.values or python_values(values.slice(0, rows))
        # Skip nulls without decoding the values.
        is_known = (
            [*map(bool, present_values(values))] if column.type in ("bytes", "media") else values.is_valid().to_pylist()
        )
        known = (values[row].as_py() for row in np.flatnonzero(is_known)[:rows].tolist())
        column.examples += [value for value in known if value not in ("", [])]
        if column.examples and first + batch.num_rows >= rows:
            break
    return fault


def list_table(
    table: ArrowTable, layout: TableLayout, file: TableFile, *, with_values: bool, account: Account
) -> Iterator[Row]:
    """Yield the rows of a table that become samples.

    Args:
        with_values: Yield the values; False yields cells, which the workers read.
        account: Gets the rows that are left out.
    """
    with_values = with_values or layout.group is not None
    maker = RowMaker(layout, key_prefix=file.key_prefix)
    cell_of = None if with_values else _cell_maker(table, layout, file)
    listed = _values(table, layout) if with_values else _listed_values(table, layout)
    # A row becomes a sample, a failure, or is left out.
    for row_index, values in listed:
        origin = f"{file.name}, row {row_index}"
        if isinstance(values, EnergonError):
            yield maker.fault(row_index, origin, values.message)
            continue
        cell = None if cell_of is None else cell_of(row_index, values)
        row = maker.make(values, row=row_index, origin=origin, split=file.split, cell=cell)
        if row is None:
            account.lose("rows", "L120", origin)
        else:
            yield row


def _cell_maker(table: ArrowTable, layout: TableLayout, file: TableFile) -> Callable[[int, Mapping[str, Any]], CellOf]:
    """Return a function that makes the references to the cells of a row; rows ascend, sizes are means over ranges."""
    # Read the ranges of rows and the mean sizes of their cells.
    parts = [part for part in layout.parts if part.role not in ("path", "url")]
    columns = [[*table.row_sizes(part.columns)] for part in parts]  # at once: tables share one open file
    ranges = iter([*zip(*columns, strict=True)])
    means: dict[str, int] = {}
    stop = 0

    def cell_of(row: int, values: Mapping[str, Any]) -> CellOf:
        # Move on to the range of the row.
        nonlocal stop
        while row >= stop and (sizes := next(ranges, None)):
            stop += sizes[0][0]
            means.update({part.name: mean for part, (_, mean) in zip(parts, sizes, strict=True)})

        def cell(part: PartColumns, index: int | None) -> CellRef:
            elements = 1 if index is None else len(values[part.columns[0]])
            return CellRef(
                row=row,
                column=part.name if index is None else f"{part.name}#{index}",
                size_bytes=means.get(part.name, 0) // elements,
                file=file.path,
                changed=file.version,
                named_by_contents=part.named_by_contents,
            )

        return cell

    return cell_of


def _listed_columns(layout: TableLayout) -> list[str]:
    columns = [layout.key, layout.split, *(part.columns[0] for part in layout.parts if part.role in ("path", "url"))]
    if layout.segment is not None:
        columns += [layout.segment.begin, layout.segment.end]
    return list(dict.fromkeys(column for column in columns if column))


def _listed_values(table: ArrowTable, layout: TableLayout) -> Iterator[tuple[int, Mapping[str, Any] | EnergonError]]:
    """Yield the numbers of rows with the values that the list of rows needs.

    Of columns of bytes these are lengths of lists, and whether there is a value.
    """
    # Choose what must be read: of cells only whether they exist, and of lists their lengths.
    columns = _listed_columns(layout)
    cells = [part for part in layout.parts if part.role in ("bytes", "array")]
    lists = [part.columns[0] for part in cells if part.is_list]
    present = {part.columns[0]: _present_rows(table, part.columns[0]) for part in cells if not part.is_list}
    read = [*columns, *map(table.lengths_column, lists)]
    batches: Iterator[Any] = readable_batches(table, read) if read else iter([(0, None)])
    # Yield the values of each row, with what exists.
    for first, batch in batches:
        if isinstance(batch, FormatError):
            yield from ((row, batch) for row in range(first, table.unit_stop(first)))
            continue
        values: dict[str, Sequence[Any]] = {name: python_values(batch.column(name)) for name in columns}
        values |= {name: _present_elements(batch.column(name)) for name in lists}
        for row in range(table.num_rows if batch is None else batch.num_rows):
            there = {name: rows[first + row] for name, rows in present.items()}
            yield first + row, {name: column[row] for name, column in values.items()} | there


def _present_rows(table: ArrowTable, column: str) -> list[Any]:
    """Return for each row True for a value of bytes, a struct of its path alone, or None for no value.

    Only rows that may be null are read.
    """
    present: list[Any] = [True] * table.num_rows
    # Rows are assumed to have a value where the file shows that nulls are impossible.
    for start, stop in table.null_ranges(column):
        with suppress(FormatError):  # reading the rows reports it
            for first, batch in table.batches(start, [column]):
                if first >= stop:
                    break
                present[first : first + batch.num_rows] = present_values(batch.column(column))
    return present


def _present_elements(column: Any) -> list[list[bool | None]]:
    """Return for each list of a column True for elements, and None for those that are null."""
    from pyarrow import compute

    if column.type == "null":
        return [[] for _ in range(len(column))]
    present = iter(column.flatten().is_valid().to_pylist())
    return [
        [is_present or None for is_present in islice(present, length or 0)]
        for length in compute.list_value_length(column).to_pylist()
    ]


def _values(table: ArrowTable, layout: TableLayout) -> Iterator[tuple[int, Mapping[str, Any] | EnergonError]]:
    columns = list(dict.fromkeys([*_listed_columns(layout), *cell_columns(layout)]))
    arrays = {part.columns[0] for part in layout.parts if part.role == "array"}
    for first, batch in readable_batches(table, columns):
        if isinstance(batch, FormatError):
            yield from ((row, batch) for row in range(first, table.unit_stop(first)))
            continue
        values = BatchValues(batch)
        for row in range(batch.num_rows):
            try:
                yield first + row, {name: values.value(name, row, as_array=name in arrays) for name in columns}
            except SampleError as error:
                yield first + row, error


def cell_columns(layout: TableLayout) -> list[str]:
    """Return the columns that :class:`ArrowCells` reads."""
    cells = [part for part in layout.parts if part.role not in ("path", "url")]
    return list(dict.fromkeys(column for part in cells for column in part.columns))


class ArrowCells(CellReader):
    """Reads the parts of rows. Rows that follow each other come from one pass over their file."""

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
        self._damaged = range(0)  # rows that are not tried again, and the error of the first one
        self._fault = FormatError("")

    def read(self, cell: CellRef) -> bytes | UrlRef:
        if cell.file != self._name or not self._first <= cell.row < self._stop:
            self._move_to(cell.file, cell.row)
        name, _, index = cell.column.partition("#")
        part, row = self._parts[name], cell.row - self._first
        column = part.columns[0]
        # Texts and JSON are made of the values of their columns.
        if part.role != "bytes":
            is_array = part.role == "array"
            values = {column: self._batch.value(column, row, as_array=is_array) for column in part.columns}
            return part_bytes(part, values, self._layout.class_names)
        # Bytes are taken as they are; structs and elements of lists one by one.
        data = self._batch.contents(column, row) if not part.is_list else None
        if isinstance(data, bytes):
            return data
        value = self._batch.value(column, row)
        return media_bytes(value[int(index)] if part.is_list else value, column, self._layout.files)

    def _move_to(self, name: str, row: int) -> None:
        """Read on to the batch with a row; from its row group, if it is not one of the next."""
        if self._table is None or name != self._name:
            self.close()
            self._table, self._name = self._open_file(name), name
        if row >= self._table.num_rows:
            raise SampleError(f"expected row {row:,} in {name}, which has fewer", hint="do not change it meanwhile")
        if row in self._damaged:
            raise FormatError(self._fault.message, shard=name, hint=self._fault.hint)
        # Begin again for a row that is behind, or far ahead.
        if not self._stop or row < self._first or row - self._stop >= self._stop - self._first:
            self._batches = self._table.batches(row, self._columns)
            self._first = self._stop = 0
        # Remember rows that cannot be read together, so that each of them fails at once.
        try:
            while not self._first <= row < self._stop:
                following = next(self._batches, None)
                if following is None:
                    fault = "the file ends before the last of its rows"
                    raise FormatError(fault, shard=name, hint="copy the file again")  # noqa: TRY301 - as pyarrow's
                self._first, batch = following
                self._stop = self._first + batch.num_rows
                self._batch = BatchValues(batch)
        except FormatError as error:
            self._damaged, self._fault = range(row, self._table.unit_stop(row)), error
            self._first = self._stop = 0
            raise

    def close(self) -> None:
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

    def value(self, column: str, row: int, *, as_array: bool = False) -> Any:
        values = self._columns.get(column)
        if values is None:
            values = self._columns[column] = self._batch.column(column)
        if as_array:
            return _array_of(values[row].values, column)
        try:
            return values[row].as_py()
        except (ValueError, OverflowError) as error:
            raise SampleError(f"a value of column {column!r} cannot be read: {error}") from error

    def contents(self, column: str, row: int) -> bytes | str | None:
        values = self._contents.get(column)
        if values is None:
            values = self._batch.column(column)
            if hasattr(values, "field"):
                values = values.field("bytes")
            self._contents[column] = values
        contents: bytes | str | None = values[row].as_py()
        return contents


def _array_of(numbers: Any, column: str) -> Any:
    """Return the numbers of a list as a NumPy array of their type; None for no list."""
    if numbers is None or not numbers.null_count:
        return None if numbers is None else numbers.to_numpy(zero_copy_only=False)
    hint = f"write the lists as JSON: --part {column}.json={column}"
    raise SampleError(f"a list of numbers in column {column!r} has null among them", hint=hint)


# Columns of Arrow tables, with what Hugging Face datasets note about them in the schema.


def arrow_columns(schema: Any, files: NamedFiles) -> list[TableColumn]:
    """Return the columns of a table, without values."""
    name, count = Counter(schema.names).most_common(1)[0] if schema.names else ("", 1)
    if count > 1:
        raise ConfigError(
            f"the name {name!r} is that of {plural(count, 'column')}, so that their values cannot be told apart",
            hint="rename the columns",
        )
    features = features_of(schema)
    columns = []
    for field in schema:
        feature: Any = features.get(field.name) or {}
        names, type_ = class_names(feature), _type_of(field.type)
        if type_ == "number list" and names:
            type_ = "nested"  # the numbers of classes
        is_label = isinstance(names, tuple) and feature.get("_type") == "ClassLabel"
        column = TableColumn(field.name, files, type=type_, inner_names=() if is_label else names)
        column.class_names = (*names,) if is_label else ()
        columns.append(column)
    return columns


def python_values(values: Any) -> list[Any]:
    """Return the values of an Arrow array as Python's; of texts that are not UTF-8, what can be read."""
    try:
        listed: list[Any] = values.to_pylist()
    except (ValueError, OverflowError):
        listed = [_python_value(value) for value in values]
    return listed


def _python_value(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "replace") if hasattr(value, "as_buffer") else None
    except (ValueError, OverflowError):
        return None  # writing the row reports it


def present_values(values: Any) -> list[Any]:
    """Return True, a struct of a path alone, or None for each value of a column of bytes, media or texts."""
    from pyarrow import compute, types

    if not types.is_struct(values.type):
        is_text = _type_of(values.type) == "text"
        present = python_values(values) if is_text else compute.is_valid(values).to_pylist()
        return [bool(value) or None for value in present]
    # A struct has bytes, or a path alone, or neither.
    has_bytes: list[bool] = compute.is_valid(compute.struct_field(values, "bytes")).to_pylist()
    if values.type.get_field_index("path") < 0:
        return [has or None for has in has_bytes]
    paths = python_values(compute.struct_field(values, "path"))
    return [has or ({"path": path} if path else None) for has, path in zip(has_bytes, paths, strict=True)]


def _type_of(type_: Any) -> ColumnType:
    from pyarrow import types

    # Unpack types that only wrap another one.
    if types.is_dictionary(type_):
        return _type_of(type_.value_type)
    if hasattr(type_, "storage_type"):  # an extension
        inner = _type_of(type_.storage_type)
        return "nested" if inner == "number list" else inner  # it has a shape of its own
    # Media come first: their structs would be nested values.
    if is_bytes(type_):
        return "bytes"
    if is_media(type_):
        return "media"
    if is_list(type_):
        inner = _type_of(type_.value_type)
        if types.is_integer(type_.value_type) or types.is_floating(type_.value_type):
            return "number list"
        return "media list" if inner in ("bytes", "media") else "text list" if inner == "text" else "nested"
    if types.is_string(type_) or types.is_large_string(type_) or str(type_) == "string_view":
        return "text"
    if types.is_null(type_):
        return "empty"
    if types.is_integer(type_):
        return "integer"
    return "number" if types.is_floating(type_) or types.is_decimal(type_) else "nested"
