"""Check the folder to which a prepare writes."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..errors import ConfigError, EnergonError, StorageError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import read_shard_info
from ..format.nv_meta import (
    DATASET_YAML,
    FOLDER,
    INDEX_FOLDER,
    INDEX_SQLITE,
    INFO_JSON,
    INFO_YAML,
    LOCK,
    SPLIT_JSON,
    SPLIT_YAML,
    WORK_FOLDER,
)
from ..storage import Storage, is_url

_IN_FOLDER = (INFO_JSON, INFO_YAML, LOCK, WORK_FOLDER, INDEX_FOLDER, INDEX_SQLITE)
_OWN_NAMES = {DATASET_YAML, SPLIT_YAML, SPLIT_JSON, *(name.rpartition("/")[2] for name in _IN_FOLDER)}


def check_destination(
    storage: Storage, ref: DatasetRef, *, shards: Collection[str] | None = None, force: bool = False
) -> None:
    """Check that the folder used instead of ``.nv-meta``, if any, has no other use.

    Args:
        shards: Shards of the dataset; None for a folder of media files.
    """
    if ref.find_meta().origin == "data" or is_url(storage.path(FOLDER)):
        return
    # The folder must not be one around the dataset.
    dataset, folder = storage.path(""), os.path.realpath(storage.path(FOLDER))
    if not is_url(dataset) and os.path.commonpath((os.path.realpath(dataset), folder)) == folder:
        raise ConfigError(
            "expected a folder for metadata alone, found one that contains the dataset",
            at=storage.path(FOLDER),
            hint="name an empty or new folder",
        )
    # It must be new or empty, or have the names of metadata.
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder):
        raise StorageError("expected a folder, found a file", path=folder, hint="name an empty or new folder")
    others = sorted(os.listdir(folder))
    if others and _OWN_NAMES.isdisjoint(others):
        raise ConfigError(
            f"expected an empty folder or one with the metadata of a dataset, found other files, first {others[0]!r}",
            at=storage.path(FOLDER),
            hint="name an empty or new folder",
        )
    # It must not have the metadata of another dataset.
    if shards is None or force:
        return
    try:
        earlier = read_shard_info(storage)
    except EnergonError:
        return  # the file is replaced
    if earlier and not any(shard in earlier for shard in shards):
        raise ConfigError(
            f"this folder has the metadata of another dataset: its shards, first {next(iter(earlier))!r}, are not in"
            f" {storage.path('')}",
            at=storage.path(FOLDER),
            hint="name another folder, or replace the metadata with --force-overwrite",
        )
