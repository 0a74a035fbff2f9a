"""The files that are one table together: a file, or all files of a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...errors import ConfigError
from ...storage import FileInfo, is_url, open_parent, open_storage
from .names import split_part

EXTENSIONS = {"parquet": ("parquet", "pq"), "arrow": ("arrow", "feather", "ipc")}
"""Kind of table → extensions of its files."""

_SPLIT_OF_FILE = re.compile(r"(train|training|val|valid|validation|dev|test|testing)(?:[-_.].*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table.

    Attributes:
        path: The file, or its URL.
        name: Its name in the folder.
        version: Its size and time of change, or its version in an object store.
        split: Split part that its name or its folder has; ``""`` for none.
    """

    path: str
    name: str
    version: str
    split: str


def list_table_files(path: str, kind: str, names: Sequence[str] | None = None) -> list[TableFile]:
    """Return the files of a table, sorted by name; hidden ones and those that begin with ``_`` are skipped.

    Args:
        path: A file, or a folder; or its URL.
        kind: ``"parquet"`` or ``"arrow"``.
        names: The files of a folder that may be read; None for all.

    Raises:
        ConfigError: The folder has no such file.
        StorageError: There is no such file or folder, or it cannot be listed.
    """
    extensions = EXTENSIONS[kind]
    if _extension(path) in extensions and not os.path.isdir(path):
        storage, name = open_parent(path)
        return [_table_file(storage.stat(name), storage.path(name), folder="")]
    if not is_url(path) and not os.path.isdir(path):
        storage, name = open_parent(path)
        return [_table_file(storage.stat(name), storage.path(name), folder="")]
    storage = open_storage(path)
    listed = storage.list("") if names is None else (storage.stat(n) for n in sorted(names) if storage.exists(n))
    files = [info for info in listed if _is_table(info.name, extensions)]
    if not files:
        raise ConfigError(
            f"this folder has no files of the kind {kind!r}: expected names that end in .{' or .'.join(extensions)}",
            at=path,
            hint="check the path, or name its kind with --from",
        )
    return [_table_file(info, storage.path(info.name), folder=info.name) for info in files]


def _table_file(info: FileInfo, path: str, *, folder: str) -> TableFile:
    version = f"{info.size_bytes} {info.etag or info.mtime_ns}"
    return TableFile(path=path, name=info.name, version=version, split=split_of_name(folder))


def split_of_name(name: str) -> str:
    """Return the split part of a name such as ``data/train-00000-of-00002.parquet`` or ``test/0000.parquet``."""
    for component in reversed(name.split("/")):
        match = _SPLIT_OF_FILE.fullmatch(component)
        if match:
            return split_part(match[1])
    return ""


def _is_table(name: str, extensions: Collection[str]) -> bool:
    last = name.rpartition("/")[2]
    return _extension(name) in extensions and not last.startswith((".", "_"))


def _extension(path: str) -> str:
    return path.rpartition(".")[2].lower()
