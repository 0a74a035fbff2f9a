"""Write the columns and filters of a dataset for the same samples in other shards."""

from __future__ import annotations

import numpy as np

from ...arrays import IntArray
from ...errors import EnergonError
from ...format.columns.column import open_column, write_column
from ...format.columns.column_files import column_names
from ...format.dataset_folder import DatasetFolder
from ...format.filters.files import FilterFiles, filter_names
from ...format.index.layout import ShardEntry
from ...format.unprepared.tar_index import TarIndex, tar_layout
from ..importing.plan import WrittenRows


class CarriedValues:
    """The columns and filters of a dataset, for a new one.

    Args:
        folder: The dataset.
        samples: The sample of each row, shape (rows,).
    """

    def __init__(self, folder: DatasetFolder, samples: IntArray) -> None:
        self._folder = folder
        self._samples = samples
        self.columns: list[str] = []
        self.filters: list[str] = []
        self.warnings: list[str] = []

    def write(self, written: WrittenRows) -> None:
        """Write them to a dataset that is not committed yet; damaged and stale ones stay behind, with a warning."""
        index, storage = _index_of(written), self._folder.storage
        samples = self._samples[written.order]
        for name in column_names(storage):
            try:
                column = open_column(storage, self._folder.index, name)
            except EnergonError as error:
                self.warnings.append(error.message)
                continue
            write_column(
                written.storage,
                index,
                name,
                column.values[samples],
                missing=column.record.missing,
                categories=column.record.categories,
                unit=column.record.unit,
                description=column.record.description,
                made_by=column.record.made_by,
            )
            self.columns.append(name)
        of_parts = self._folder.split.sample_filters.values() if self._folder.split else ()
        for name in filter_names(storage):
            if name in of_parts:
                continue  # parts have shards of their own now
            try:
                kept = self._folder.open_filter(name).keeps(samples)
            except EnergonError as error:
                self.warnings.append(error.message)
                continue
            _write_filter(FilterFiles.of_dataset(written.storage, name), kept, index)
            self.filters.append(name)


def _index_of(written: WrittenRows) -> TarIndex:
    """Return an index that has the shards, which columns name."""
    shards, first = [], 0
    for name, size_bytes, _, samples in written.files:
        shards.append(
            ShardEntry(
                name=name,
                size_bytes=size_bytes,
                mtime_ns=0,
                samples=samples,
                first_sample=first,
                end_offset=size_bytes,
                plain=True,
            )
        )
        first += samples
    return TarIndex(written.storage, tar_layout(shards), path=written.storage.path(""))


def _write_filter(files: FilterFiles, kept: np.ndarray[tuple[int], np.dtype[np.bool_]], index: TarIndex) -> None:
    starts = [shard.first_sample for shard in index.shards]
    counts = np.add.reduceat(kept.astype(np.int64), starts)
    names = (shard.name for shard in index.shards)
    files.write(dict(zip(names, counts.tolist(), strict=True)), iter([np.flatnonzero(kept)]))
