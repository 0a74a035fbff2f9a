"""Resolve the paths in a metadataset, and check that datasets exist there."""

from __future__ import annotations

import os
from functools import cache

from ...errors import EnergonError, StorageError
from ...format.data_kind import FILESYSTEM, files_folder
from ...format.dataset_ref import DatasetRef
from ...format.documents.dataset_files import is_prepared
from ...format.documents.next_command import command_for_folder, command_for_ref, fault_of_file
from ...format.nv_meta import INFO_JSON, INFO_YAML
from ...storage import is_url, missing_folder, open_parent, resolve_path

_MAX_LETTERS = 1000


def resolve_aux(store: DatasetRef, folder: str) -> DatasetRef:
    """Resolve the paths of an auxiliary store relative to the folder of its document, which may be a URL.

    >>> resolve_aux(DatasetRef("filesystem://./files"), "/data").path, resolve_aux(DatasetRef("images"), "/data").path
    ('filesystem:///data/files', '/data/images')
    >>> resolve_aux(DatasetRef("filesystem://./files"), "s3://bucket").path
    'filesystem+s3://bucket/files'
    """
    files = files_folder(store.path)
    if files is None:
        return store.resolved(folder)
    path = resolve_path(files, folder)
    return DatasetRef(f"filesystem+{path}" if is_url(path) else FILESYSTEM + path)


def display_path(path: str) -> str:
    """Return a path in full for a message, truncated only if it is longer than a file system allows.

    >>> display_path("/data/" + "x" * 200)[-3:], len(display_path("x" * 10_000))
    ("xx'", 1003)
    """
    return repr(path if len(path) <= _MAX_LETTERS else f"{path[:_MAX_LETTERS]}…")


class DatasetPaths:
    """Cached checks of resolved paths.

    ``fault_of_dataset(ref)`` and ``fault_of_aux(ref)`` return a message, or None if the dataset or store exists.

    Args:
        check_urls: Look for datasets at URLs too, which takes a request each; opening them finds the same faults.
    """

    def __init__(self, *, check_urls: bool = False) -> None:
        self._check_urls = check_urls
        self.fault_of_dataset = cache(self._fault_of_dataset)
        self.fault_of_aux = cache(self._fault_of_aux)

    def _fault_of_dataset(self, ref: DatasetRef) -> str | None:
        if is_url(ref.path):
            return _fault_of_url(ref) if self._check_urls else None
        return _fault_of_path(ref)

    def _fault_of_aux(self, ref: DatasetRef) -> str | None:
        folder = files_folder(ref.path)
        if folder is None:
            return self._fault_of_dataset(ref)
        return None if is_url(folder) or _exists(folder) else f"there is no such folder: {display_path(folder)}"


def _fault_of_url(ref: DatasetRef) -> str | None:
    url = ref.path
    try:
        # A single file needs no prepare.
        if ref.kind.is_file:
            storage, name = open_parent(url)
            return None if storage.exists(name) else f"there is no such file: {display_path(url)}"
        storage = ref.storage()
        if is_prepared(storage):
            return None
        if storage.exists(""):
            command = command_for_ref(ref)
            return f"{display_path(url)} is not a prepared dataset: it has no .info.json; {command}"
        raise missing_folder(storage)
    except EnergonError as error:
        return f"{error.message}: {display_path(url)}" + (f"; {error.hint}" if error.hint else "")


def _fault_of_path(ref: DatasetRef) -> str | None:
    path = ref.path
    if ref.kind.is_file:
        return None if _exists(path) else f"there is no such file: {display_path(path)}"
    # Most datasets are prepared in place, and need no other test.
    meta = ref.find_meta()
    if meta.origin == "data" and _exists(os.path.join(path, INFO_JSON)):
        return None
    name = display_path(path)
    if not _exists(path):
        return f"there is no such folder: {name}"
    # The path exists and is not a prepared dataset: find out what it is.
    of_file = fault_of_file(path)
    if of_file is not None:
        return f"{name}: {of_file[0]}; {of_file[1]}"
    if meta.origin != "data":
        if is_prepared(ref.storage(meta)):
            return None
        command = command_for_ref(ref)
        return f"{name} is not a prepared dataset: there is no .info.json in {display_path(meta.path)}; {command}"
    if _exists(os.path.join(path, INFO_YAML)):
        return None
    return f"{name} is not a prepared dataset: it has no .nv-meta/.info.json; {command_for_folder(path)}"


def _exists(path: str) -> bool:
    try:
        storage, name = open_parent(path)
        return storage.exists(name)
    except StorageError:
        return False
