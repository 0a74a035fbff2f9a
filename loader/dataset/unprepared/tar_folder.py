"""Tar shards that are not prepared: a folder of them, or one file; scanned as far as needed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...errors import StorageError
from ...format.dataset_ref import DatasetRef
from ...format.documents.next_command import command_for_folder, quoted
from ...format.documents.providers import is_tar_file
from ...format.nv_meta import FOLDER, INFO_JSON, INFO_YAML
from ...format.prepare.shards import count_text, find_shards
from ...format.unfinished import check_finished
from ...storage import FileInfo, Storage, open_parent, open_storage


def is_prepared(storage: Storage) -> bool:
    """Return True if a folder has the file that ends a prepare, ``.info.json``."""
    storage.list_once(FOLDER)
    return storage.exists(INFO_JSON) or storage.exists(INFO_YAML)


def is_unprepared(storage: Storage, ref: DatasetRef) -> bool:
    """Return True for an existing folder without a prepare; a folder named for its metadata should have one.

    Args:
        storage: The folder.
        ref: What the folder is opened by.
    """
    return not ref.has_other_folder and storage.exists("") and not is_prepared(storage)


@dataclass(frozen=True, slots=True, kw_only=True)
class TarFolder:
    """The tar shards of a folder that is not prepared, or one tar file.

    Attributes:
        path: The folder or file.
        storage: The folder of the shards.
        shards: The shards, in the order that a prepare gives them.
        is_file: The path names one tar file.
        compressed: Compressed tar files of the folder, which cannot be shards.
    """

    path: str
    storage: Storage
    shards: tuple[FileInfo, ...]
    is_file: bool
    compressed: tuple[str, ...] = ()

    @property
    def not_prepared(self) -> StorageError:
        """The error of what needs a prepare."""
        if self.is_file:
            folder = os.path.dirname(self.path) or "."
            hint = f"give its folder: {folder}" if is_prepared(self.storage) else command_for_folder(folder)
            return StorageError("a single tar file is not a dataset", path=self.path, hint=hint)
        return StorageError(
            "this folder is no prepared dataset: it has no .nv-meta/.info.json",
            path=self.storage.path(""),
            hint=f"run: energon prepare {quoted(self.path)}",
        )


def find_tars(path: str) -> TarFolder:
    """Find the tar shards that a path names.

    Args:
        path: A tar file, or a folder that is not prepared.

    Raises:
        StorageError: The path does not exist, or holds no tar files; the message names the files that it holds.
    """
    if is_tar_file(path):
        storage, name = open_parent(path)
        return TarFolder(path=path, storage=storage, shards=(storage.stat(name),), is_file=True)
    storage = open_storage(path)
    storage.list_once("")
    check_finished(storage)
    search = find_shards(storage)
    if search.format is not None:
        first = os.path.join(path, search.shards[0].name)
        alone = "a file of them is" if search.format == "parquet" else "an indexed file of them is"
        raise StorageError(
            f"this folder is not prepared: it has {count_text(search.counts)}",
            path=storage.path(""),
            hint=f"{command_for_folder(path)}; {alone} a dataset by itself, too: {first}",
        )
    return TarFolder(path=path, storage=storage, shards=search.shards, is_file=False, compressed=search.compressed)
