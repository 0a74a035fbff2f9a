"""Tables in Parquet and Arrow files, and folders of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from ...errors import ConfigError
from ...storage import is_url
from ..file_trees.tree import FolderTree
from ..rows.row import Row
from ..tables.arrow_cells import ArrowCells
from ..tables.arrow_files import open_table
from ..tables.arrow_rows import example_layout, list_table
from ..tables.columns import Columns, FoundColumn, TableLayout
from ..tables.records import folder_of
from ..tables.table_files import TableFile, list_table_files
from .source import Listing, Source

__all__ = ["ArrowTableSource"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTableSource(Source):
    """The rows of Parquet or Arrow files.

    Attributes:
        path: A file, or a folder of files with the same columns; or its URL.
        kind: Format of the files.
        columns: The columns that the user names.
        splits_by_name: Take the split part from the names of files, as in ``train-00000-of-00002.parquet``.
    """

    path: str
    kind: Literal["parquet", "arrow"]
    columns: Columns = field(default_factory=Columns)
    splits_by_name: bool = False

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the rows as samples: file by file, in their order.

        Args:
            shuffled: Yield values instead of cells. Decoding a batch of rows for each row would take thousands of times
                as long as reading all rows once.

        Raises:
            ConfigError: No column can be a part, a named one does not exist, or pyarrow is not installed.
            FormatError: A file is damaged.
            StorageError: A file cannot be read.
        """
        files = list_table_files(self.path, self.kind)
        layout = self._layout(files)
        if not is_url(self.path) and os.path.isdir(self.path):
            FolderTree(self.path).leave_others(listing.account, {file.name for file in files})
        for file in files:
            prefix = f"{file.name.rpartition('.')[0]}/" if len(files) > 1 else ""
            with closing(open_table(file.path, self.kind)) as table:
                self._check_columns(file, table.schema.names, layout)
                split = file.split if self.splits_by_name else ""
                yield from list_table(
                    table,
                    layout,
                    root=self._root,
                    name=file.name,
                    file=file.path,
                    version=file.version,
                    key_prefix=prefix,
                    split=split,
                    with_values=listing.shuffled,
                )

    def describe(self) -> tuple[FoundColumn, ...]:
        """Return the columns, and what becomes of each."""
        return self._layout(list_table_files(self.path, self.kind)).found

    def open_cells(self) -> ArrowCells:
        """Open the files for the worker that calls."""
        layout = self._layout(list_table_files(self.path, self.kind))
        return ArrowCells(layout, self._root, lambda path: open_table(path, self.kind))

    @property
    def _root(self) -> str:
        is_file = is_url(self.path) or not os.path.isdir(self.path)
        root = self.columns.root or (folder_of(self.path) if is_file else self.path)
        return root if is_url(root) else os.path.abspath(root)

    def _layout(self, files: list[TableFile]) -> TableLayout:
        """Return what becomes of the columns, from the first file that has rows."""
        for file in files:
            with closing(open_table(file.path, self.kind)) as table:
                if table.num_rows:
                    return example_layout(table, self.columns, root=self._root, at=file.path)
        raise ConfigError("this table has no rows", at=self.path, hint="name a file with rows")

    def _check_columns(self, file: TableFile, names: list[str], layout: TableLayout) -> None:
        missing = [column.name for column in layout.found if column.role != "not written" and column.name not in names]
        if missing:
            raise ConfigError(
                f"the column {missing[0]!r}, which the first file has, is missing; found {', '.join(names)}",
                at=file.path,
                hint="import files with other columns one by one, then: energon merge",
            )
