"""Hugging Face datasets on this machine: saved by ``save_to_disk``, or Parquet and Arrow files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import ConfigError, FormatError, required_package
from ...storage import is_url
from ..rows.row import CellReader, FaultRef, Row
from ..tables.arrow_files import ArrowTable, Batch
from ..tables.arrow_rows import ArrowCells, list_table, survey_columns
from ..tables.columns import TableColumn
from ..tables.named_files import NamedFiles
from ..tables.split_names import split_part
from ..tables.table_files import EXTENSIONS
from .source import Listing
from .table_source import ArrowTableSource, TableSource

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
        if not is_saved_dataset(self.path):
            yield from self._files().rows(listing)
            return
        # A saved dataset has a table for each split.
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

    def records(self) -> Iterator[Mapping[str, object]]:
        return self._files().records()

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        if not is_saved_dataset(self.path):
            return self._files().survey(files)
        columns = survey_columns(self._load().values(), files)
        if not columns:
            raise ConfigError("this dataset has no rows", at=self.path, hint="name a dataset with rows")
        return columns

    def open_cells(self) -> CellReader:
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
        state = os.path.join(self.path, split, _STATE)
        try:
            with open(state, encoding="utf-8") as file:
                return f"{os.stat(state).st_mtime_ns} {file.read()}"[:200]
        except OSError:
            return ""


_BATCH_BYTES = 16 << 20
_MAX_BATCH_ROWS = 1000
_MARKS = ("dataset_dict.json", "state.json")
_SAMPLED_ROWS = 64


def is_saved_dataset(path: str) -> bool:
    """Return True for a folder that ``save_to_disk`` has written."""
    return not is_url(path) and any(os.path.isfile(os.path.join(path, name)) for name in _MARKS)


def load_saved(path: str) -> dict[str, SavedTable]:
    """Open a folder that ``save_to_disk`` has written; return its tables by the name of the split.

    A ``Dataset`` has one table, whose name is ``""``.
    """
    with required_package(
        "reading this dataset needs the library datasets, which is not installed",
        at=path,
        hint="run: pip install 'energon-toolkit[hf]'",
    ):
        import datasets
    try:
        loaded: Any = datasets.load_from_disk(path, keep_in_memory=False)
    except (OSError, ValueError, KeyError, TypeError) as error:  # as it and pyarrow raise them
        lines = str(error).splitlines() or [type(error).__name__]
        raise FormatError(
            f"this dataset cannot be loaded: {lines[0]}",
            shard=path,
            hint="save it again with save_to_disk, or copy it again",
        ) from error
    # A single dataset has no name of a split.
    tables: Mapping[str, Any] = loaded if isinstance(loaded, Mapping) else {"": loaded}
    return {str(name): SavedTable(table, path) for name, table in tables.items()}


def saved_files(path: str) -> Iterator[str]:
    """Yield the files that a saved dataset names, as far as its documents can be read."""
    try:
        # Read the documents without the library, which would open the files.
        splits = _read_json(os.path.join(path, _MARKS[0])).get("splits", [""])
        for folder in (os.path.join(path, split) for split in splits):
            yield os.path.join(folder, _MARKS[1])
            for file in _read_json(os.path.join(folder, _MARKS[1]))["_data_files"]:
                yield os.path.join(folder, file["filename"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # the library reports it


def _read_json(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.load(file)
    except OSError:
        return {}


class SavedTable(ArrowTable):
    """A ``datasets.Dataset``, read as Arrow: pictures and sounds are not decoded."""

    def __init__(self, dataset: Any, path: str) -> None:
        self._dataset = dataset.with_format("arrow")
        self._path = path
        self.schema: Any = dataset.features.arrow_schema
        self.num_rows: int = len(dataset)

    def batches(self, start: int, columns: Sequence[str]) -> Iterator[Batch]:
        # Bound the bytes of a batch by the mean size of rows.
        chosen = self._dataset.select_columns(list(columns))
        _, mean = next(self.row_sizes(columns), (0, 1))
        most = max(1, min(_MAX_BATCH_ROWS, _BATCH_BYTES // max(1, mean)))
        rows = 1  # few at first: shuffled rows are read one by one
        while start < self.num_rows:
            try:
                table = chosen[start : min(start + rows, self.num_rows)]
                batch = table.combine_chunks().to_batches()[0]
            except (OSError, ValueError, IndexError) as error:
                raise FormatError(f"row {start} cannot be read: {error}", shard=self._path) from error
            yield start, batch
            start += batch.num_rows
            rows = min(2 * rows, most)

    def row_sizes(self, columns: Sequence[str]) -> Iterator[tuple[int, int]]:
        if self.num_rows:
            # Measure some rows at equal distances.
            rows = min(_SAMPLED_ROWS, self.num_rows)
            step = max(1, self.num_rows // rows)
            chosen = self._dataset.select_columns(list(columns))
            size_bytes = sum(chosen[row : row + 1].nbytes for row in range(0, rows * step, step))
            yield self.num_rows, -(-size_bytes // rows)

    def unit_stop(self, row: int) -> int:
        return row + 1  # rows are read one by one if need be

    def null_ranges(self, column: str) -> Iterator[tuple[int, int]]:
        # All rows if any of them is null: reading rows would copy the pictures.
        chunks = self._dataset.data.column(column).chunks
        if any(chunk.null_count or (hasattr(chunk, "field") and chunk.field("bytes").null_count) for chunk in chunks):
            yield 0, self.num_rows
