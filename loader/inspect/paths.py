"""Open what a path names, and recognise folders of media files."""

from __future__ import annotations

import os

from ..format.nv_meta import FOLDER, INDEX_SQLITE, INDEX_UUID, INFO_JSON, INFO_YAML, SPLIT_YAML
from ..storage import Storage, open_storage

__all__ = ["is_media_folder", "is_only_media_folder", "open_parent"]


def is_media_folder(storage: Storage) -> bool:
    """Return True if a folder has media metadata of its files and is not a prepared dataset of shards."""
    return storage.exists(INDEX_SQLITE) and not any(map(storage.exists, (INFO_JSON, INFO_YAML)))


def is_only_media_folder(storage: Storage) -> bool:
    """Return True for a media folder that also has no remains of a dataset of shards, which lint must report."""
    remains = (INDEX_UUID, f"{FOLDER}/{SPLIT_YAML}")
    return is_media_folder(storage) and not any(map(storage.exists, remains))


def open_parent(path: str) -> tuple[Storage, str]:
    """Open the folder of a file; return it and the file's name."""
    folder, name = os.path.split(path)
    return open_storage(folder or "."), name
