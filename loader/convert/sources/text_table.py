"""A table in a text file: CSV, TSV or JSONL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ...errors import ConfigError
from ..annotations.json_elements import read_elements
from ..rows.row import Row
from ..tables.columns import TableLayout
from ..tables.delimited import DelimitedReader
from ..tables.json_lines import parse_record, read_json_lines
from ..tables.named_files import NamedFiles
from ..tables.records import Record, open_text_table
from ..tables.row_maker import RowMaker
from ..tables.table_column import TableColumn
from .source import Listing
from .table_source import TableSource

_ROWS_OF_STEP = 1024
_MAX_COLUMNS = 1000  # lines of JSON may each have their own; the others are in the object of JSON, too
_NUMBERS: Mapping[str, type] = {"integer": int, "number": float}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTableSource(TableSource):
    """The rows of a CSV, TSV or JSONL file, which may be compressed by gzip; or the objects of a list in a JSON file.

    Rows that are no valid record fail alone: with another number of fields, or invalid JSON.

    Attributes:
        kind: Its format.
    """

    kind: Literal["csv", "tsv", "jsonl"]

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the rows as samples, in their order.

        Raises:
            ConfigError: No column can be a part, or a named one does not exist.
            StorageError: The file cannot be read.
        """
        layout = self.layout(listing)
        maker = RowMaker(layout)
        name = os.path.basename(self.path)
        with self._read(layout, listing) as (_, records):
            listing.account.take("files")
            unit = "element" if self._is_list else "line"
            for number, record in enumerate(records):
                origin = f"{name}, {unit} {record.line}"
                if record.fault:
                    yield maker.fault(number, origin, record.fault, record.hint)
                    continue
                row = maker.make(record.values, number=number, origin=origin)
                if row is None:
                    listing.account.see("rows")
                    listing.account.leave("rows", "L120", origin)
                else:
                    yield row

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        """Read all rows."""
        columns: dict[str, TableColumn] = {}
        rows, fault = 0, None
        with self._read() as (names, records):
            while step := [*islice(records, _ROWS_OF_STEP)]:
                rows += len(step)
                fault = fault or next((record for record in step if record.fault), None)
                valid = [record.values for record in step if not record.fault]
                for column in names or dict.fromkeys(name for values in valid for name in values):
                    if column not in columns and len(columns) < _MAX_COLUMNS:
                        columns[column] = TableColumn(column, files, is_text=self.kind != "jsonl")
                        columns[column].rows = rows - len(step)
                for column, one in columns.items():
                    one.add([values.get(column) for values in valid])
        if not rows:
            raise ConfigError("this table has no rows", at=self.path, hint="name a file with rows")
        if fault is not None and not any(column.rows for column in columns.values()):
            raise ConfigError(
                f"none of the {rows:,} rows is valid; line {fault.line:,}: {fault.fault}",
                at=self.path,
                hint=fault.hint or None,
            )
        return list(columns.values())

    @property
    def _is_list(self) -> bool:
        return self.path.lower().endswith(".json")

    @contextmanager
    def _read(
        self, layout: TableLayout | None = None, listing: Listing | None = None
    ) -> Iterator[tuple[list[str], Iterator[Record]]]:
        """Open the file; yield the names of its columns, of which JSONL has none, and its records.

        Args:
            layout: What becomes of the columns: those of numbers are converted for the object of JSON.
            listing: Gets notes on how the file was read.
        """
        notes = listing.notes if listing is not None else []
        if self._is_list:
            yield [], (parse_record(number, element.data) for number, element in enumerate(read_elements(self.path)))
            return
        with open_text_table(self.path, notes) as file:
            if self.kind == "jsonl":
                yield [], read_json_lines(file)
                return
            reader = DelimitedReader(file, kind=self.kind, path=self.path)
            if not reader.has_header:
                notes.append(
                    f"the first line of {self.path} is data and names no columns: they are {', '.join(reader.names)}"
                )
            names = layout.object_part.columns if layout is not None and layout.object_part is not None else ()
            types = {column.name: column.type for column in layout.found} if layout is not None else {}
            yield reader.names, reader.records({n: _NUMBERS[types[n]] for n in names if types[n] in _NUMBERS})
            if reader.open_quotes:
                notes.append(
                    f"lines of {self.path} with a quote that is not closed were read as they are:"
                    f" {len(reader.open_quotes):,}, the first is line {reader.open_quotes[0]:,}"
                )
