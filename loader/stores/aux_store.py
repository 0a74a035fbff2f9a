"""Stores that the code of a sample reads from: the primary one, and the auxiliary ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..errors import StorageError
from ..format.data_kind import FILESYSTEM, files_folder
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_files import is_prepared
from ..format.documents.next_command import command_for_ref, fault_of_file
from ..format.media.metadata import MediaMetadata
from ..samples.source_info import SourceInfo
from ..storage import is_url, missing_folder, open_storage
from .dataset_file_store import DatasetFileStore
from .file_store import FileStore, T_co
from .record_file_stores import BinIdxFileStore, JsonlFileStore
from .system_file_store import SystemFileStore

_RECORD_STORES: dict[str, Callable[[str], FileStore[Any]]] = {"binidx": BinIdxFileStore, "jsonl": JsonlFileStore}


def open_aux_store(url: DatasetRef | str | os.PathLike[str]) -> FileStore[Any]:
    """Open an auxiliary store.

    Args:
        url: Path of a prepared dataset, a token file or a JSONL file, or ``filesystem://`` and the path of any
            folder. Paths may be URLs: ``filesystem+s3://bucket/images`` is a folder, too. A reference may name another
            folder than the ``.nv-meta`` of the dataset.

    Raises:
        StorageError: The folder is missing or not prepared, or the protocol is not supported.

    >>> open_aux_store("filesystem:///tmp")
    SystemFileStore('/tmp')
    """
    ref = DatasetRef.of(url)
    text = ref.path
    # A folder of files.
    files = files_folder(text)
    if files is not None:
        return SystemFileStore(_check_exists(files, of_files=True))
    # A file of records.
    record_store = _RECORD_STORES.get(ref.kind.format)
    if record_store is not None:
        return record_store(text)
    _check_exists(text)
    storage = ref.storage()
    if not is_prepared(storage):
        raise StorageError(
            f"this folder is not a prepared dataset: {ref.find_meta().path}/.info.json is missing",
            path=text,
            hint=f"{command_for_ref(ref)}; or, for plain files, write {FILESYSTEM}{text}",
        )
    return DatasetFileStore.of(ref)


def open_own_store(ref: DatasetRef) -> FileStore[Any] | None:
    """Return the store of a source's own parts as bytes, without looking for the source; a Parquet file has none."""
    if ref.kind.is_file:
        store = _RECORD_STORES.get(ref.kind.format)
        return None if store is None else store(ref.path)
    return DatasetFileStore.of(ref)


def _check_exists(folder: str, *, of_files: bool = False) -> str:
    storage = open_storage(folder)
    path = storage.path("")
    if is_url(path):
        if not storage.exists(""):
            raise missing_folder(storage)
        return folder
    if os.path.isfile(path):
        fault = None if of_files else fault_of_file(path)
        message, hint = fault or ("this is a file; expected a folder", "give the folder that contains it")
        raise StorageError(message, path=path, hint=hint)
    if not os.path.isdir(path):
        raise missing_folder(storage)
    return folder


class PrimaryFileStore(FileStore[T_co]):
    """The store of a sample's own dataset. The key ``.jpg`` names a part of that sample, other keys name any part.

    Args:
        inner: The store of the dataset.
        current_key: The ``__key__`` of the current sample.

    >>> PrimaryFileStore(DatasetFileStore("photos"), "shard_000000.tar/0001").get(".txt")
    b'a dog'
    """

    def __init__(self, inner: FileStore[T_co], current_key: str) -> None:
        self.inner = inner
        self.current_key = current_key

    def _full_key(self, key: str) -> str:
        return self.current_key + key if key.startswith(".") else key

    def __getitem__(self, key: str) -> tuple[T_co, SourceInfo]:
        return self.inner[self._full_key(key)]

    def get_path(self) -> str:
        return self.inner.get_path()

    def get_media_metadata(self, key: str) -> MediaMetadata:
        return self.inner.get_media_metadata(self._full_key(key))

    def read_raw(self, key: str) -> tuple[Any, SourceInfo]:
        return self.inner.read_raw(self._full_key(key))

    def decode_raw(self, key: str, raw: Any) -> T_co:
        return self.inner.decode_raw(self._full_key(key), raw)

    def origin(self, key: str) -> tuple[FileStore[T_co], str]:
        return self.inner.origin(self._full_key(key))

    def __repr__(self) -> str:
        return f"PrimaryFileStore({self.inner!r}, current_key={self.current_key!r})"
