"""Which of the index folders of a dataset is the one to read."""

from __future__ import annotations

import re

from ..errors import FormatError
from ..storage import Storage
from .dataset_index import DatasetIndex
from .nv_meta import INDEX_FOLDER, INDEX_UUID

__all__ = ["index_folders", "index_in_force", "read_uuid"]

_UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


def read_uuid(storage: Storage) -> str | None:
    """Read ``index.uuid``; None where it is missing, or is no name of an index."""
    if not storage.exists(INDEX_UUID):
        return None
    uuid = storage.read(INDEX_UUID).decode("ascii", "replace").strip()
    return uuid if _UUID.fullmatch(uuid) else None  # it becomes the name of a folder


def index_folders(storage: Storage) -> list[str]:
    """List the uuids of all index folders, newest first."""
    if not storage.exists(INDEX_FOLDER):
        return []
    depth = INDEX_FOLDER.count("/") + 2
    files = [file for file in storage.list(INDEX_FOLDER) if file.name.count("/") == depth]
    layouts = [file for file in files if file.name.endswith("/layout.json")]
    layouts.sort(key=lambda file: -file.mtime_ns)
    return [file.name.split("/")[-2] for file in layouts]


def index_in_force(storage: Storage, shard_counts: dict[str, int]) -> DatasetIndex | None:
    """Open the index that ``index.uuid`` names, or else one that fits ``.info.json``.

    The two disagree only when a prepare was killed while it renamed its files: then the earlier index, which is kept,
    is the one that fits.

    Args:
        storage: The dataset.
        shard_counts: What ``.info.json`` says.

    Returns:
        None where no index is about these shards: another tool prepared the dataset.
    """
    named = read_uuid(storage)
    if named is not None and storage.exists(f"{INDEX_FOLDER}/{named}/layout.json"):
        index = DatasetIndex(storage, named)
        if _fits(index, shard_counts):
            return index
    folders = index_folders(storage)
    if named is not None and named not in folders:
        return None  # ours come before their name does: another tool has prepared the dataset since
    for uuid in folders:
        if uuid == named:
            continue  # it does not fit
        try:
            index = DatasetIndex(storage, uuid)
        except FormatError:
            continue
        if _fits(index, shard_counts):
            return index
    return None


def _fits(index: DatasetIndex, shard_counts: dict[str, int]) -> bool:
    """Tell whether an index is about the shards of an ``.info.json``, in its order."""
    return [(shard.name, shard.samples) for shard in index.shards] == list(shard_counts.items())
