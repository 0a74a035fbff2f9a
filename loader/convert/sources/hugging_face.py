"""Hugging Face datasets on this machine: saved by ``save_to_disk``, or Parquet and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...errors import ConfigError
from ...storage import is_url
from ..rows.row import FaultRef, Row
from ..tables.arrow_cells import ArrowCells
from ..tables.arrow_rows import list_table, survey_columns
from ..tables.hugging_face import SavedTable, is_saved_dataset, load_saved, saved_files
from ..tables.named_files import NamedFiles
from ..tables.names import split_part
from ..tables.table_column import TableColumn
from ..tables.table_files import EXTENSIONS
from .arrow_table import ArrowTableSource
from .source import CellReader, Listing
from .table_source import TableSource

_STATE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceSource(TableSource):
    """The rows of a Hugging Face dataset; pictures and sounds keep their bytes.

    Numbers of classes become the part ``cls``, and their names are in the part ``json``. The splits of a
    ``DatasetDict``, or of files such as ``train-00000-of-00002.parquet``, become split parts.

    Attributes:
        path: A folder that ``save_to_disk`` has written, or Parquet or Arrow files, or their folder.
    """

    kind: str = "hf"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the rows as samples: split by split, in their order.

        Raises:
            ConfigError: No column can be a part, a named one does not exist, or a library is not installed.
            FormatError: A file is damaged.
            StorageError: A file cannot be read.
        """
        if not is_saved_dataset(self.path):
            yield from self._files().rows(listing)
            return
        tables = self._load()
        layout = self.layout(listing)
        for name, table in tables.items():
            listing.account.take("files")
            yield from list_table(
                table,
                layout,
                name=name or os.path.basename(os.path.abspath(self.path)),
                file=name,
                version=self._version(name),
                key_prefix=f"{name}/" if name else "",
                split=split_part(name),
                account=listing.account,
                with_values=False,  # the files are mapped into memory, so that rows are read fast in any order
            )

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        """Read the columns of texts of all splits."""
        if not is_saved_dataset(self.path):
            return self._files().survey(files)
        columns = survey_columns(self._load().values(), files)
        if not columns:
            raise ConfigError("this dataset has no rows", at=self.path, hint="name a dataset with rows")
        return columns

    def open_cells(self) -> CellReader:
        """Open the dataset for the worker that calls."""
        if not is_saved_dataset(self.path):
            return self._files().open_cells()
        return ArrowCells(self.layout(), self._load().__getitem__)

    def _files(self) -> ArrowTableSource:
        """Return the dataset as a table. Its files are read in place: ``datasets`` would copy them to its cache."""
        if self.path.endswith(EXTENSIONS["arrow"]):
            return self._table("arrow")
        if self.path.endswith(EXTENSIONS["parquet"]) or is_url(self.path):
            return self._table("parquet")
        return self._files_of_folder()

    def _table(self, kind: Literal["parquet", "arrow"]) -> ArrowTableSource:
        return ArrowTableSource(path=self.path, kind=kind, columns=self.columns, splits_by_name=True, known=self.known)

    def _load(self) -> Mapping[str, SavedTable]:
        """Open a saved dataset, unless it names files outside of its folder.

        Raises:
            ConfigError: It does.
        """
        for path in saved_files(self.path):
            file = self.columns.access.ref(path, (self.path,))
            if isinstance(file, FaultRef):
                raise ConfigError(file.reason, at=self.path, hint="allow it with --allow-outside")
        return load_saved(self.path)

    def _files_of_folder(self) -> ArrowTableSource:
        for table in (self._table("parquet"), self._table("arrow")):
            try:
                table.table_files()
            except ConfigError:
                continue
            return table
        raise ConfigError(
            "this is no Hugging Face dataset: it has neither dataset_dict.json nor state.json, and no Parquet files",
            at=self.path,
            hint="name a folder that save_to_disk has written, or the folder of Parquet files",
        )

    def _version(self, split: str) -> str:
        """Return the fingerprint of a split, and the time of its change."""
        state = os.path.join(self.path, split, _STATE)
        try:
            with open(state, encoding="utf-8") as file:
                return f"{os.stat(state).st_mtime_ns} {file.read()}"[:200]
        except OSError:
            return ""
