import os
from dataclasses import dataclass
from typing import Any, Self

from loader.errors import ConfigError, EmptyDatasetError
from loader.format.dataset_folder import DatasetFolder
from loader.format.documents.dataset_files import read_shard_info
from loader.format.documents.messages import did_you_mean
from loader.format.nv_meta import FORMAT_VERSION, SPLIT_YAML
from loader.integrations.megatron_energon_names import EnergonDatasetType, get_dataset_type
from loader.storage import open_storage
from loader.storage.epath import EPath

from .structs import ShardInfo, WebdatasetInfo, WebdatasetSplits

__all__ = [
    "EPath",
    "EmptyDatasetError",
    "EnergonDatasetType",
    "ShardInfo",
    "WebdatasetInfo",
    "WebdatasetMeta",
    "WebdatasetSplits",
    "check_dataset_info_present",
    "get_dataset_info",
    "get_dataset_type",
    "get_info_shard_files",
]


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
    def from_config(cls, path: str | os.PathLike[str], *, split_part: str, split_config: str | None = None) -> Self:
        """Read the shards of a part.

        Args:
            path: Folder of a prepared dataset.
            split_part: Name of the part.
            split_config: Name of the split file in ``.nv-meta``.

        Raises:
            StorageError: The folder is missing or not prepared.
            ConfigError: The split file is invalid or missing, or has no such part.
            EmptyDatasetError: No shard of the part has samples.
        """
        folder = DatasetFolder(path, split_config=split_config or SPLIT_YAML)
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
            if (count := folder.shard_counts.get(name, 0))
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


def check_dataset_info_present(path: str | os.PathLike[str]) -> bool:
    """Return True if a folder of shards is prepared."""
    return read_shard_info(open_storage(path)) is not None


def get_dataset_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the version of the format and the number of samples of each shard.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """
    return {"energon_version": FORMAT_VERSION, "shard_counts": dict(DatasetFolder(path).shard_counts)}


def get_info_shard_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of all shards of a prepared dataset.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """
    return list(DatasetFolder(path).shard_counts)
