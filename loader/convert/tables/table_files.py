"""The files of a table of several files."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...errors import ConfigError
from ...storage import FileInfo, is_url, open_parent, open_storage
from .split_names import split_of_name

EXTENSIONS = {"parquet": ("parquet", "pq"), "arrow": ("arrow", "feather", "ipc")}
"""Kind of table → extensions of its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table.

    Attributes:
        version: Its size and time of change, or its version in an object store.
        split: Split part that its name or its folder has; ``""`` for none.
        key_prefix: Begin of the keys that are numbers of rows.
    """

    path: str
    name: str
    version: str
    split: str
    key_prefix: str = ""


def list_table_files(path: str, kind: str, names: Sequence[str] | None = None) -> list[TableFile]:
    """Return the files of a table, sorted by name; hidden files and files that begin with ``_`` are skipped.

    Args:
        path: A file, or a folder; or its URL.
        names: The files of a folder that may be read; None for all.
    """
    extensions = EXTENSIONS[kind]
    # A file is the table, or else all files of the folder.
    if not os.path.isdir(path) and (_extension(path) in extensions or not is_url(path)):
        storage, name = open_parent(path)
        return [_table_file(storage.stat(name), storage.path(name), split="")]
    storage = open_storage(path)
    listed = storage.list("") if names is None else (storage.stat(n) for n in sorted(names) if storage.exists(n))
    files = [info for info in listed if _is_table(info.name, extensions)]
    if not files:
        raise ConfigError(
            f"this folder has no files of the kind {kind!r}: expected names that end in .{' or .'.join(extensions)}",
            at=path,
            hint="check the path, or name its kind with --from",
        )
    tables = [_table_file(info, storage.path(info.name), split=split_of_name(info.name)) for info in files]
    # Numbers of rows repeat in other files.
    return (
        [replace(table, key_prefix=f"{table.name.rpartition('.')[0]}/") for table in tables] if tables[1:] else tables
    )


def _table_file(info: FileInfo, path: str, *, split: str) -> TableFile:
    version = f"{info.size_bytes} {info.etag or info.mtime_ns}"
    return TableFile(path=path, name=info.name, version=version, split=split)


def _is_table(name: str, extensions: Collection[str]) -> bool:
    return _extension(name) in extensions and not name.rpartition("/")[2].startswith((".", "_"))


def _extension(path: str) -> str:
    return path.rpartition(".")[2].lower()
