import os
from typing import Any

from loader.compat.kinds_and_media import EnergonDatasetType, get_dataset_type
from loader.compat.webdataset_factory import WebdatasetMeta
from loader.dataset.opening import folder_at
from loader.errors import EmptyDatasetError
from loader.format.documents.dataset_files import read_shard_info
from loader.format.nv_meta import FORMAT_VERSION
from loader.storage import open_storage
from loader.storage.epath import EPath

from .config import INDEX_SQLITE_FILENAME, INFO_JSON_FILENAME, INFO_YAML_FILENAME, MAIN_FOLDER_NAME
from .structs import ShardInfo, WebdatasetInfo, WebdatasetSplits

__all__ = [
    "INDEX_SQLITE_FILENAME",
    "INFO_JSON_FILENAME",
    "INFO_YAML_FILENAME",
    "MAIN_FOLDER_NAME",
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


def check_dataset_info_present(path: str | os.PathLike[str]) -> bool:
    """Return True if a folder of shards is prepared."""
    return read_shard_info(open_storage(path)) is not None


def get_dataset_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the version of the format and the number of samples of each shard.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """
    return {"energon_version": FORMAT_VERSION, "shard_counts": dict(folder_at(path).shard_counts)}


def get_info_shard_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of all shards of a prepared dataset.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: ``.info.json`` is invalid.
    """
    return list(folder_at(path).shard_counts)
