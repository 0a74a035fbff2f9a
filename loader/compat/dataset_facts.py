"""Kinds, files and contents of datasets and metadatasets, as code written for megatron-energon asks for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from posixpath import basename
from typing import Any

from ..dataset.opening import folder_at
from ..errors import ConfigError, StorageError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import read_shard_info
from ..format.nv_meta import (
    FORMAT_VERSION,
    INDEX_SQLITE,
    INDEX_UUID,
    INFO_JSON,
    INFO_YAML,
)
from ..storage import open_parent, open_storage
from ..storage.epath import EPath
from ..stores.system_file_store import SystemFileStore

INDEX_SQLITE_FILENAME = basename(INDEX_SQLITE)
INDEX_UUID_FILENAME = basename(INDEX_UUID)
INFO_JSON_FILENAME = basename(INFO_JSON)
INFO_YAML_FILENAME = basename(INFO_YAML)


class EnergonDatasetType(Enum):
    """Kinds of datasets."""

    METADATASET = "metadataset"
    WEBDATASET = "webdataset"
    JSONL = "jsonl"
    BINIDX = "binidx"
    PARQUET = "parquet"
    FILESYSTEM = "filesystem"
    INVALID = "invalid"


def get_dataset_type(path: str | os.PathLike[str]) -> EnergonDatasetType:
    """Return the kind of a dataset, without opening it.

    Returns:
        ``FILESYSTEM`` for a folder that ``energon prepare-media`` has prepared; ``INVALID`` if the path is no prepared
        dataset.

    >>> get_dataset_type("/no/such/folder").value
    'invalid'
    """
    ref = DatasetRef.of(path)
    text = ref.path
    try:
        if ref.kind.format != "folder":
            storage, name = open_parent(text.rstrip("/"))
            if not storage.exists(name):
                return EnergonDatasetType.INVALID
            return EnergonDatasetType(ref.kind.format)
        exists = open_storage(text).exists
        if exists(INFO_JSON) or exists(INFO_YAML):
            return EnergonDatasetType.WEBDATASET
        return EnergonDatasetType.FILESYSTEM if exists(INDEX_SQLITE) else EnergonDatasetType.INVALID
    except StorageError:  # a URL that this machine cannot read
        return EnergonDatasetType.INVALID


@dataclass(slots=True, kw_only=True)
class WebdatasetInfo:
    """The content of ``.nv-meta/.info.json``.

    Attributes:
        energon_version: Version of the format.
        shard_counts: Shard → number of its samples.
    """

    energon_version: str | None = None
    shard_counts: dict[str, int]


@dataclass(slots=True, kw_only=True)
class WebdatasetSplits:
    """The content of ``.nv-meta/split.yaml``.

    Attributes:
        split_parts: Part → shards, with patterns such as ``s_{0..9}.tar``.
        exclude: Shards, and samples as ``shard/key``.
    """

    split_parts: dict[str, list[str]]
    exclude: list[str] = field(default_factory=list)


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


@dataclass(slots=True, kw_only=True)
class AuxFilesystemReference:
    """An auxiliary ``filesystem://`` of a metadataset: a folder whose files are read by their paths.

    Attributes:
        fs_path: The folder, relative to the metadataset's folder; absolute after :meth:`post_initialize`.
    """

    fs_path: str | os.PathLike[str]

    def post_initialize(self, mds_path: EPath | None = None) -> None:
        """Resolve the path.

        Args:
            mds_path: Path of the metadataset.

        Raises:
            ConfigError: The path is relative, and there is no metadataset.
        """
        if mds_path is not None:
            self.fs_path = mds_path.parent / os.fspath(self.fs_path)
        elif not os.path.isabs(self.fs_path):
            raise ConfigError(f"expected an absolute path without a metadataset, found {self.fs_path!s}")
        self.fs_path = EPath(self.fs_path)

    def get_file_store(self) -> SystemFileStore:
        """Return the store of the folder's files.

        Raises:
            ConfigError: :meth:`post_initialize` was not called.
        """
        if not isinstance(self.fs_path, EPath):
            raise ConfigError("expected post_initialize() to be called before get_file_store()")
        return SystemFileStore(self.fs_path)
