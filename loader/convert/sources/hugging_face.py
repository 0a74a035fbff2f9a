"""Hugging Face datasets on this machine: saved by ``save_to_disk``, or Parquet and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...storage import is_url
from ..rows.row import Row
from ..tables.arrow_cells import ArrowCells
from ..tables.arrow_rows import list_table, survey_columns
from ..tables.hugging_face import is_saved_dataset, load_saved
from ..tables.named_files import NamedFiles
from ..tables.names import split_part
from ..tables.table_column import TableColumn
from ..tables.table_files import EXTENSIONS, list_table_files
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
        tables = load_saved(self.path)
        layout = self.layout(listing)
        for name, table in tables.items():
            listing.account.take("files")
            yield from list_table(
                table,
                layout,
                root=self.root,
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
        columns = survey_columns(load_saved(self.path).values(), files)
        if not columns:
            raise ConfigError("this dataset has no rows", at=self.path, hint="name a dataset with rows")
        return columns

    def open_cells(self) -> CellReader:
        """Open the dataset for the worker that calls."""
        if not is_saved_dataset(self.path):
            return self._files().open_cells()
        return ArrowCells(self.layout(), self.root, load_saved(self.path).__getitem__)

    def _files(self) -> ArrowTableSource:
        """Return the dataset as a table. Its files are read in place: ``datasets`` would copy them to its cache."""
        if self.path.endswith(EXTENSIONS["arrow"]):
            kind: str = "arrow"
        elif self.path.endswith(EXTENSIONS["parquet"]) or is_url(self.path):
            kind = "parquet"
        else:
            kind = self._kind_of_folder()
        return ArrowTableSource(
            path=self.path,
            kind="arrow" if kind == "arrow" else "parquet",
            columns=self.columns,
            splits_by_name=True,
            known=self.known,
        )

    def _kind_of_folder(self) -> str:
        for kind in EXTENSIONS:
            try:
                list_table_files(self.path, kind)
            except ConfigError:
                continue
            return kind
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
