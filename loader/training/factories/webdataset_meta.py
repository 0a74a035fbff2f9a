"""The shards of one part of a dataset's split, for code that lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from ...errors import ConfigError, EmptyDatasetError
from ...format.dataset_folder import DatasetFolder
from ...format.documents.messages import did_you_mean
from ...format.nv_meta import SPLIT_YAML
from ...storage import EPath


@dataclass(slots=True, kw_only=True)
class ShardInfo:
    """A shard of a dataset.

    Attributes:
        name: Path below the dataset's folder.
        path: Path of the file.
        count: Number of its samples.
    """

    name: str
    path: EPath
    count: int


@dataclass(kw_only=True)
class WebdatasetMeta:
    """The shards of one part of a dataset's split.

    Attributes:
        sample_excludes: Samples that the split excludes, as ``shard/key``.
        shards: Shards of the part, without excluded ones.
        split_part_files: Names of the part's shards.
        info_shard_files: Names of all shards of the dataset.
    """

    sample_excludes: set[str]
    shards: list[ShardInfo]
    split_part_files: list[str]
    info_shard_files: list[str]

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str],
        *,
        split_part: str,
        split_config: str | None = None,
        meta_folder: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read the shards of a part.

        Args:
            path: Folder of a prepared dataset.
            split_part: Name of the part.
            split_config: Name of the split file in ``.nv-meta``.
            meta_folder: Folder to use instead of ``.nv-meta``.

        Raises:
            StorageError: The folder is missing or not prepared.
            ConfigError: The split file is invalid or missing, or has no such part.
            EmptyDatasetError: No shard of the part has samples.
        """
        folder = DatasetFolder(path, split_config=split_config or SPLIT_YAML, meta_folder=meta_folder)
        split = folder.split
        if split is None or split_part not in split.split_parts:
            parts = list(split.split_parts) if split else []
            raise ConfigError(
                f"there is no split part {split_part!r}{did_you_mean(split_part, parts)}; found {parts}",
                file=folder.meta_folder,
            )
        excluded = split.excluded_shards()
        names = [name for name in split.split_parts[split_part] if name not in excluded]
        shards = [
            ShardInfo(name=name, path=EPath(path) / name, count=count)
            for name in names
            if name in folder.shard_counts and (count := len(split.samples_of(split_part, folder.shard_counts[name])))
        ]
        if not shards:
            raise EmptyDatasetError(f"no shard of the split part {split_part!r} has samples", file=folder.meta_folder)
        samples = {f"{shard}/{key}" for shard, keys in split.excluded_samples().items() for key in keys}
        return cls(
            sample_excludes=samples,
            shards=shards,
            split_part_files=names,
            info_shard_files=list(folder.shard_counts),
        )
