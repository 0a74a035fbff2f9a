"""Resolve the paths in a metadataset, and check that datasets exist there."""

from __future__ import annotations

import os
from functools import cache

from ...errors import EnergonError, StorageError
from ...format.documents.next_command import command_for_folder, fault_of_file, quoted
from ...format.documents.providers import FILESYSTEM, files_folder, is_record_file
from ...format.nv_meta import FOLDER, INFO_JSON, INFO_YAML, open_dataset_storage
from ...storage import is_url, missing_folder, open_parent, resolve_path

_MAX_LETTERS = 1000


def resolve_aux(store: str, folder: str) -> str:
    """Resolve the path of an auxiliary store relative to the folder of its document, which may be a URL.

    >>> resolve_aux("filesystem://./files", "/data"), resolve_aux("./images", "/data")
    ('filesystem:///data/files', '/data/images')
    >>> resolve_aux("filesystem://./files", "s3://bucket")
    'filesystem+s3://bucket/files'
    """
    files = files_folder(store)
    if files is None:
        return resolve_path(store, folder)
    path = resolve_path(files, folder)
    return f"filesystem+{path}" if is_url(path) else FILESYSTEM + path


def display_path(path: str) -> str:
    """Return a path in full for a message, truncated only if it is longer than a file system allows.

    >>> display_path("/data/" + "x" * 200)[-3:], len(display_path("x" * 10_000))
    ("xx'", 1003)
    """
    return repr(path if len(path) <= _MAX_LETTERS else f"{path[:_MAX_LETTERS]}…")


class DatasetPaths:
    """Cached checks of resolved paths.

    ``fault_of_dataset(path, meta_folder)`` and ``fault_of_aux(store, meta_folder)`` return a message, or None if the
    dataset or store exists.

    Args:
        check_urls: Look for datasets at URLs too, which takes a request each; opening them finds the same faults.
    """

    def __init__(self, *, check_urls: bool = False) -> None:
        self._check_urls = check_urls
        self.fault_of_dataset = cache(self._fault_of_dataset)
        self.fault_of_aux = cache(self._fault_of_aux)

    def _fault_of_dataset(self, path: str, meta_folder: str | None = None) -> str | None:
        if is_url(path):
            return _fault_of_url(path, meta_folder) if self._check_urls else None
        return _fault_of_path(path, meta_folder)

    def _fault_of_aux(self, store: str, meta_folder: str | None = None) -> str | None:
        folder = files_folder(store)
        if folder is None:
            return self._fault_of_dataset(store, meta_folder)
        return None if is_url(folder) or _exists(folder) else f"there is no such folder: {display_path(folder)}"


def _fault_of_url(url: str, meta_folder: str | None) -> str | None:
    try:
        if is_record_file(url):
            storage, name = open_parent(url)
            return None if storage.exists(name) else f"there is no such file: {display_path(url)}"
        storage = open_dataset_storage(url, meta_folder)
        storage.list_once(FOLDER)
        if any(map(storage.exists, (INFO_JSON, INFO_YAML))):
            return None
        if storage.exists(""):
            command = command_for_folder(url, option=f" --meta-folder {quoted(meta_folder)}" if meta_folder else "")
            return f"{display_path(url)} is no prepared dataset: it has no .info.json; {command}"
        raise missing_folder(storage)
    except EnergonError as error:
        return f"{error.message}: {display_path(url)}" + (f"; {error.hint}" if error.hint else "")


def _fault_of_path(path: str, meta_folder: str | None) -> str | None:
    if is_record_file(path):
        return None if _exists(path) else f"there is no such file: {display_path(path)}"
    if meta_folder is None and _exists(os.path.join(path, INFO_JSON)):
        return None
    name = display_path(path)
    if not _exists(path):
        return f"there is no such folder: {name}"
    of_file = fault_of_file(path)
    if of_file is not None:
        return f"{name}: {of_file[0]}; {of_file[1]}"
    if meta_folder is not None:
        storage = open_dataset_storage(path, meta_folder)
        if any(map(storage.exists, (INFO_JSON, INFO_YAML))):
            return None
        where = display_path(meta_folder)
        command = command_for_folder(path, option=f" --meta-folder {quoted(meta_folder)}")
        return f"{name} is no prepared dataset: there is no .info.json in {where}; {command}"
    if _exists(os.path.join(path, INFO_YAML)):
        return None
    return f"{name} is no prepared dataset: it has no .nv-meta/.info.json; {command_for_folder(path)}"


def _exists(path: str) -> bool:
    try:
        storage, name = open_parent(path)
        return storage.exists(name)
    except StorageError:
        return False
