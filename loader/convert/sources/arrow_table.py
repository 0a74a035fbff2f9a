"""Tables in Parquet and Arrow files, and folders of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from ...accounting import Account
from ...errors import ConfigError
from ...storage import is_url
from ..file_trees.file_names import join_names
from ..file_trees.tree import FolderTree
from ..rows.row import Row
from ..tables.arrow_cells import ArrowCells
from ..tables.arrow_files import open_table
from ..tables.arrow_rows import list_table, survey_columns
from ..tables.columns import TableLayout
from ..tables.named_files import NamedFiles
from ..tables.table_column import TableColumn
from ..tables.table_files import TableFile, list_table_files
from .source import Listing
from .table_source import TableSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTableSource(TableSource):
    """The rows of Parquet or Arrow files.

    Attributes:
        kind: Format of the files.
        splits_by_name: Take the split part from the names of files, as in ``train-00000-of-00002.parquet``.
    """

    kind: Literal["parquet", "arrow"]
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
        files = self.table_files()
        layout = self.layout(listing)
        if not is_url(self.path) and os.path.isdir(self.path):
            FolderTree(self.path, self.columns.access).leave_others(listing.account, {file.name for file in files})
        else:
            listing.account.take("files", len(files))
        for file in files:
            prefix = f"{file.name.rpartition('.')[0]}/" if len(files) > 1 else ""
            with closing(open_table(file.path, self.kind)) as table:
                self._check_columns(file, table.schema.names, layout)
                split = file.split if self.splits_by_name else ""
                yield from list_table(
                    table,
                    layout,
                    name=file.name,
                    file=file.path,
                    version=file.version,
                    key_prefix=prefix,
                    split=split,
                    with_values=listing.shuffled,
                    account=listing.account,
                )

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        """Read the columns of texts of all files."""
        paths = [file.path for file in self.table_files()]
        columns = survey_columns((open_table(path, self.kind) for path in paths), files)
        if not columns:
            raise ConfigError("this table has no rows", at=self.path, hint="name a file with rows")
        return columns

    def table_files(self) -> list[TableFile]:
        """Return the files of the table; see :func:`list_table_files`."""
        if is_url(self.path) or not os.path.isdir(self.path):
            return list_table_files(self.path, self.kind)
        folders = FolderTree(self.path, self.columns.access).folders(Account())
        names = [join_names(folder, name) for folder, files in folders for name in files]
        return list_table_files(self.path, self.kind, names)

    def open_cells(self) -> ArrowCells:
        """Open the files for the worker that calls."""
        return ArrowCells(self.layout(), lambda path: open_table(path, self.kind))

    def _check_columns(self, file: TableFile, names: list[str], layout: TableLayout) -> None:
        missing = [column.name for column in layout.found if column.role != "not written" and column.name not in names]
        if missing:
            raise ConfigError(
                f"the column {missing[0]!r}, which another file has, is missing; found {', '.join(names)}",
                at=file.path,
                hint="import files with other columns one by one, then: energon merge",
            )
