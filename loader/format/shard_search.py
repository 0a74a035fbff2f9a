"""Find the shards below a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ConfigError, StorageError
from ..storage import FileInfo, Storage

__all__ = ["ShardSearch", "find_shards"]

_COMPRESSED = (".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSearch:
    """The files of a folder that matter to a dataset."""

    shards: tuple[FileInfo, ...]  # sorted by path components, as other readers of the format number them
    compressed: tuple[str, ...]  # tar files that cannot be read at random
    excluded: int  # shards that the caller left out

    @property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)


def find_shards(storage: Storage, *, exclude: str | None = None) -> ShardSearch:
    """List the ``.tar`` files below a dataset's folder, hidden ones left out.

    Args:
        storage: The dataset.
        exclude: Regular expression; shards whose path it matches anywhere are left out.

    Raises:
        ConfigError: ``exclude`` is no regular expression.
        StorageError: The folder is missing or holds no shard.
    """
    try:
        leave_out = re.compile(exclude) if exclude else None
    except re.error as error:
        raise ConfigError(f"--exclude {exclude!r} is no regular expression: {error}") from error
    if not storage.exists(""):
        raise StorageError("this folder does not exist", path=storage.path(""), do="check the path")
    shards, compressed, excluded = [], [], 0
    for file in storage.list():
        if file.name.rsplit("/", 1)[-1].startswith("."):
            continue
        if file.name.endswith(".tar"):
            if leave_out and leave_out.search(file.name):
                excluded += 1
            else:
                shards.append(file)
        elif file.name.lower().endswith(_COMPRESSED):
            compressed.append(file.name)
    if not shards:
        raise _no_shards(storage, compressed, excluded)
    shards.sort(key=lambda shard: shard.name.split("/"))
    return ShardSearch(shards=tuple(shards), compressed=tuple(compressed), excluded=excluded)


def _no_shards(storage: Storage, compressed: list[str], excluded: int) -> StorageError:
    path = storage.path("")
    if excluded:
        return StorageError(f"--exclude leaves none of the {excluded} .tar files", path=path, do="change the pattern")
    if compressed:
        return StorageError(
            f"no .tar files here, but {len(compressed)} compressed ones without random access, first {compressed[0]}",
            path=path,
            do='unpack them, e.g.: for f in *.tar.gz; do gunzip -c "$f" > "${f%.gz}"; done',
        )
    return StorageError(
        "no .tar files here or in the folders below",
        path=path,
        do="give the folder that holds the WebDataset shards",
    )
