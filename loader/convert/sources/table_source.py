"""The base class of tables: what becomes of the columns is decided once, from all rows."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...storage import is_url
from ..rows.file_access import data_folder
from ..tables.columns import Columns, FoundColumn, TableLayout
from ..tables.detect import find_layout
from ..tables.named_files import NamedFiles
from ..tables.records import folder_of
from ..tables.table_column import TableColumn
from .source import Listing, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(Source):
    """The rows of a table.

    Attributes:
        path: The file or folder, or its URL.
        columns: The columns that the user names.
        known: The layout, once it was found; workers get it with the source, so that they need not read all rows.
    """

    path: str
    columns: Columns = field(default_factory=Columns)
    known: dict[str, TableLayout] = field(default_factory=dict, repr=False, compare=False)

    @abstractmethod
    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        """Return the columns, to which the values of all rows were added.

        Args:
            files: Files that paths name.

        Raises:
            ConfigError: The table has no rows.
            FormatError: It is damaged.
            StorageError: It cannot be read.
        """

    def describe(self) -> tuple[FoundColumn, ...]:
        """Return the columns, and what becomes of each."""
        return self.layout().found

    def layout(self, listing: Listing | None = None) -> TableLayout:
        """Return what becomes of the columns; for a listing, decide it again and note what users should know.

        Raises:
            ConfigError: No column can be a part, or a named one does not exist.
        """
        if listing is not None or not self.known:
            files = self.columns.files or NamedFiles(self.root, self.columns.access, self._allowed())
            table = self.survey(files)
            self.known["layout"] = find_layout(table, self.columns, files=files, at=self.path)
        if listing is not None:
            listing.notes.extend(self.known["layout"].notes)
        return self.known["layout"]

    @property
    def root(self) -> str:
        """Folder or URL that relative paths start from."""
        is_file = is_url(self.path) or not os.path.isdir(self.path)
        root = self.columns.root or (folder_of(self.path) if is_file else self.path)
        return root if is_url(root) else os.path.abspath(root)

    def _allowed(self) -> list[str]:
        """Return the folders whose files paths may name, if they are not those below the root."""
        is_beside = self.columns.root is None and not is_url(self.path) and not os.path.isdir(self.path)
        return [data_folder(self.path)] if is_beside else []
