"""Open a single JSONL, token or Parquet file as if it were the only shard of a prepared folder."""

from __future__ import annotations

import os
import zlib

from ..errors import ConfigError
from .dataset_folder import DatasetFolder
from .documents.providers import data_path, is_metadataset, is_record_file
from .filters.rows import FilterRows, open_file_filter
from .nv_meta import DATASET_YAML, SPLIT_YAML
from .records.folder_index import RecordIndex, layout_of
from .records.record_file import open_record_path


class SingleFile(DatasetFolder):
    """A file of numbered samples, without ``.nv-meta``: it has no split, columns or configuration.

    Args:
        path: The file; of a JSONL or token file, the ``.idx`` next to it is read.

    Attributes:
        file: Name of the file in its folder.

    Raises:
        FormatError: It is damaged, or its index is missing or damaged.
        StorageError: It cannot be read.
    """

    split = split_file = config = None  # a file has no documents

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = open_record_path(data_path(os.fspath(path)))
        self.storage = file.storage
        self.path = file.storage.path(file.name)
        self.shard_counts = {file.name: len(file)}
        self.file = file.name
        self._split_name, self._config_name = SPLIT_YAML, DATASET_YAML
        self._open_shard = None
        layout = layout_of(self.storage, self.shard_counts)
        self._records = RecordIndex(self.storage, f"{zlib.crc32(repr(layout.shards).encode()):08x}", layout)

    @property
    def records(self) -> RecordIndex:
        return self._records

    def column_names(self) -> list[str]:
        return []

    def samples_of_part(self, split_part: str, *, excluded_shards: bool = False) -> list[range]:  # noqa: ARG002
        """Return all samples: a file without a split serves as every split part, as in training."""
        return [range(len(self._records))]

    def open_filter(self, name: str) -> FilterRows:
        return open_file_filter(self.storage, self.file, name, len(self._records))


def open_samples(
    path: str, *, split_config: str | None = None, meta_folder: str | None = None
) -> DatasetFolder | SingleFile:
    """Open a prepared folder, or a single file of numbered samples.

    Args:
        path: The folder or file.
        split_config: Name of the split file in ``.nv-meta``; None for the default one.
        meta_folder: Folder to use instead of ``.nv-meta``.

    Raises:
        ConfigError: The path is of a metadataset.
        FormatError: The file is damaged, or its index is missing.
        StorageError: The dataset is missing or not prepared.
    """
    if is_metadataset(path):
        raise ConfigError(
            "expected a dataset, found a metadataset",
            at=path,
            hint=f"name one of its datasets, which are listed by: energon info {path}",
        )
    if is_record_file(data_path(path)):
        return SingleFile(path)
    return DatasetFolder(path, split_config=split_config or SPLIT_YAML, meta_folder=meta_folder)
