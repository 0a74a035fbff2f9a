"""A table in a text file: CSV, TSV or JSONL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

from ...errors import ConfigError
from ..rows.row import Row
from ..tables.columns import Columns, FoundColumn, TableLayout
from ..tables.delimited import DelimitedReader
from ..tables.detect import EXAMPLE_ROWS, find_layout
from ..tables.json_lines import read_json_lines
from ..tables.records import Record, folder_of, open_text_table, table_columns
from ..tables.row_maker import RowMaker
from .source import Listing, Source

__all__ = ["TextTableSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTableSource(Source):
    """The rows of a CSV, TSV or JSONL file, which may be compressed by gzip.

    Rows that are no valid record fail alone: with another number of fields, invalid JSON, or an empty path.

    Attributes:
        path: The file, or its URL.
        kind: Its format.
        columns: The columns that the user names.
    """

    path: str
    kind: Literal["csv", "tsv", "jsonl"]
    columns: Columns = field(default_factory=Columns)

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - rows have values and paths
        """Yield the rows as samples, in their order.

        Raises:
            ConfigError: No column can be a part, a named one does not exist, or quotes are not closed.
            StorageError: The file cannot be read.
        """
        with self._read() as (layout, records):
            maker = RowMaker(layout, self._root)
            name = os.path.basename(self.path)
            for number, record in enumerate(records):
                origin = f"{name}, line {record.line}"
                if record.fault:
                    yield maker.fault(number, origin, record.fault, record.hint)
                else:
                    yield maker.make(record.values, number=number, origin=origin)

    def describe(self) -> tuple[FoundColumn, ...]:
        """Return the columns, and what becomes of each."""
        with self._read() as (layout, _):
            return layout.found

    @property
    def _root(self) -> str:
        root = self.columns.root or folder_of(self.path)
        return root if "://" in root else os.path.abspath(root)

    @contextmanager
    def _read(self) -> Iterator[tuple[TableLayout, Iterator[Record]]]:
        with open_text_table(self.path) as file:
            if self.kind == "jsonl":
                records = read_json_lines(file, path=self.path)
                first = list(islice(records, EXAMPLE_ROWS))
                names = list(dict.fromkeys(name for record in first for name in record.values))
                yield self._layout(names, first), chain(first, records)
                return
            reader = DelimitedReader(file, kind=self.kind, path=self.path)
            records = iter(reader)
            first = list(islice(records, EXAMPLE_ROWS))
            reader.find_numbers(first)
            layout = self._layout(reader.names, [reader.converted(record) for record in first])
            reader.keep_numbers(layout.object_part.columns if layout.object_part else ())
            yield layout, map(reader.converted, chain(first, records))

    def _layout(self, names: list[str], first: list[Record]) -> TableLayout:
        if all(record.fault for record in first):
            raise self._without_rows(first)
        return find_layout(table_columns(names, first), self.columns, root=self._root, at=self.path)

    def _without_rows(self, first: list[Record]) -> ConfigError:
        if not first:
            return ConfigError("this table has no rows", at=self.path, hint="name a file with rows")
        return ConfigError(
            f"none of the first {len(first):,} rows is valid; line {first[0].line:,}: {first[0].fault}",
            at=self.path,
            hint=first[0].hint or None,
        )
