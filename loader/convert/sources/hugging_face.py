"""Hugging Face datasets on this machine: saved by ``save_to_disk``, or Parquet and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, FormatError, required_package
from ...storage import is_url
from ..rows.file_access import file_version
from ..rows.row import FaultRef
from ..tables.arrow_files import ArrowTable, Batch, open_table
from ..tables.split_names import split_part
from ..tables.table_files import EXTENSIONS, TableFile
from .foreign_chunks import read_object
from .table_source import ArrowTableSource

_STATE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceSource(ArrowTableSource):
    """The rows of a Hugging Face dataset; pictures and sounds keep their bytes.

    Numbers of classes become the part ``cls``, and their names are in the part ``json``. The splits of a
    ``DatasetDict``, or of files such as ``train-00000-of-00002.parquet``, become split parts. These files are read in
    place: ``datasets`` would copy them to its cache.

    Attributes:
        path: A folder that ``save_to_disk`` has written, or Parquet or Arrow files, or their folder.
    """

    kind: str = "hf"

    def table_files(self) -> list[TableFile]:
        if is_saved_dataset(self.path):
            return self._saved_splits()
        is_arrow = self.path.endswith(EXTENSIONS["arrow"])
        if is_arrow or self.path.endswith(EXTENSIONS["parquet"]) or is_url(self.path):
            return self.files_of("arrow" if is_arrow else "parquet")
        for kind in ("parquet", "arrow"):
            with suppress(ConfigError):
                return self.files_of(kind)
        raise ConfigError(
            "this is no Hugging Face dataset: it has neither dataset_dict.json nor state.json, and no Parquet files",
            at=self.path,
            hint="name a folder that save_to_disk has written, or the folder of Parquet files",
        )

    def open_file(self, path: str) -> ArrowTable:
        if is_saved_dataset(self.path):
            return SavedTable(path)
        return open_table(path, "arrow" if path.endswith(EXTENSIONS["arrow"]) else "parquet")

    def _saved_splits(self) -> list[TableFile]:
        for path in saved_files(self.path):
            file = self.columns.access.ref(path, (self.path,))
            if isinstance(file, FaultRef):
                raise ConfigError(file.reason, at=self.path, hint="allow it with --allow-outside")
        return [
            TableFile(
                path=os.path.join(self.path, split),
                name=split or os.path.basename(os.path.abspath(self.path)),
                version=file_version(state) if os.path.isfile(state) else "",
                split=split_part(split),
                key_prefix=f"{split}/" if split else "",
            )
            for split in saved_splits(self.path)
            for state in [os.path.join(self.path, split, _STATE)]
        ]


_BATCH_BYTES = 16 << 20
_MAX_BATCH_ROWS = 1000
_MARKS = ("dataset_dict.json", _STATE)
_SAMPLED_ROWS = 64


def is_saved_dataset(path: str) -> bool:
    """Return True for a folder that ``save_to_disk`` has written."""
    return not is_url(path) and any(os.path.isfile(os.path.join(path, name)) for name in _MARKS)


def saved_splits(path: str) -> list[str]:
    """Return the names of the splits of a saved dataset; an empty one for a dataset without splits."""
    splits = read_object(os.path.join(path, _MARKS[0])).get("splits")
    return [*map(str, splits)] if isinstance(splits, list) else [""]  # the library reports other values


def saved_files(path: str) -> Iterator[str]:
    """Yield the files that a saved dataset names, as far as its documents can be read."""
    try:
        # Read the documents without the library, which would open the files.
        for folder in (os.path.join(path, split) for split in saved_splits(path)):
            yield os.path.join(folder, _STATE)
            for file in read_object(os.path.join(folder, _STATE))["_data_files"]:
                yield os.path.join(folder, file["filename"])
    except (KeyError, TypeError):
        return  # the library reports it


class SavedTable(ArrowTable):
    """A ``datasets.Dataset`` in its folder, read as Arrow: pictures and sounds are not decoded."""

    is_fast_in_any_order = True  # it is mapped into memory

    def __init__(self, path: str) -> None:
        with required_package(
            "reading this dataset needs the library datasets, which is not installed",
            at=path,
            hint="run: pip install 'energon-toolkit[hf]'",
        ):
            import datasets
        try:
            # A split that has splits itself would name files that were not checked.
            dataset: Any = datasets.Dataset.load_from_disk(path, keep_in_memory=False)
        except (OSError, ValueError, KeyError, TypeError) as error:  # as it and pyarrow raise them
            lines = str(error).splitlines() or [type(error).__name__]
            raise FormatError(
                f"this dataset cannot be loaded: {lines[0]}",
                shard=path,
                hint="save it again with save_to_disk, or copy it again",
            ) from error
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
