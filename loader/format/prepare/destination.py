"""Check the folder to which a prepare writes, before it writes anything."""

from __future__ import annotations

import os
from collections.abc import Collection

from ...errors import ConfigError, EnergonError, StorageError
from ...storage import Storage, is_url
from ..dataset_ref import DatasetRef
from ..documents.dataset_files import read_shard_info
from ..nv_meta import (
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

_IN_FOLDER = (INFO_JSON, INFO_YAML, LOCK, WORK_FOLDER, INDEX_FOLDER, INDEX_SQLITE)
_OWN_NAMES = {DATASET_YAML, SPLIT_YAML, SPLIT_JSON, *(name.rpartition("/")[2] for name in _IN_FOLDER)}


def unwritable_folder(storage: Storage) -> StorageError | None:
    """Return the error that a prepare of a dataset would end with; None if its ``.nv-meta`` can be written."""
    if storage.is_writable(FOLDER):
        return None
    is_own = storage.path(FOLDER) == os.path.join(storage.path(""), FOLDER)
    return StorageError(
        f"no permission to write {'.nv-meta in this folder' if is_own else 'to this folder'}",
        path=storage.path("") if is_own else storage.path(FOLDER),
        hint="keep it in another folder: --meta-folder DIR; or run as a user who has the permission"
        if is_own
        else "name another folder, or run as a user who has the permission",
    )


def check_destination(
    storage: Storage, ref: DatasetRef, *, shards: Collection[str] | None = None, force: bool = False
) -> None:
    """Check that the folder used instead of ``.nv-meta``, if any, has no other use.

    Args:
        storage: The dataset, opened with that folder.
        ref: What it is opened by.
        shards: Shards of the dataset; None for a folder of media files.
        force: Replace the metadata of another dataset.

    Raises:
        ConfigError: It contains the dataset's folder, files of another kind, or the metadata of another dataset.
        StorageError: It is a file.
    """
    if not ref.has_other_folder or is_url(storage.path(FOLDER)):
        return
    dataset, folder = storage.path(""), os.path.realpath(storage.path(FOLDER))
    if not is_url(dataset) and os.path.commonpath((os.path.realpath(dataset), folder)) == folder:
        raise ConfigError(
            "expected a folder for metadata alone, found one that contains the dataset",
            at=storage.path(FOLDER),
            hint="name an empty or new folder",
        )
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
