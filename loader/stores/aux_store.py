"""Which store an ``aux`` entry of a metadataset names."""

from __future__ import annotations

import os

from ..errors import StorageError
from ..format.nv_meta import INFO_JSON, INFO_YAML
from ..storage import open_storage
from .dataset_file_store import DatasetFileStore
from .file_store import FileStore
from .system_file_store import SystemFileStore

__all__ = ["open_aux_store"]

_FILES = "filesystem://"


def open_aux_store(url: str | os.PathLike[str]) -> FileStore[bytes]:
    """Open an auxiliary store.

    Args:
        url: The folder of a prepared dataset, or ``filesystem://`` and any folder.

    Raises:
        StorageError: The folder is missing or not prepared, or the protocol is not served.

    >>> open_aux_store("filesystem:///tmp")
    SystemFileStore('/tmp')
    """
    text = os.fspath(url)
    if text.startswith(_FILES):
        return SystemFileStore(_existing(text.removeprefix(_FILES)))
    protocol, separator, _ = text.partition("://")
    if separator and protocol not in ("file", "local"):
        raise StorageError(
            f"cannot read {protocol}:// URLs; expected the folder of a prepared dataset, or {_FILES} and any folder",
            path=text,
            do="mount the bucket, or copy it to a local folder",
        )
    storage = open_storage(_existing(text))
    if not any(map(storage.exists, (INFO_JSON, INFO_YAML))):
        raise StorageError(
            "this folder is no prepared dataset: it has no .nv-meta/.info.json",
            path=text,
            do=f"run: energon prepare {text}; or, for plain files, write {_FILES}{text}",
        )
    return DatasetFileStore(url)


def _existing(folder: str) -> str:
    path = open_storage(folder).path("")
    if not os.path.isdir(path):
        raise StorageError("this folder does not exist", path=path, do="check the path")
    return folder
