"""Find the shards below a folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ConfigError, StorageError
from ..storage import FileInfo, Storage

__all__ = ["ShardSearch", "find_shards", "left_out_warning", "unpack_command"]

_UNPACK = {
    ".tgz": "gunzip -c",
    ".tar.gz": "gunzip -c",
    ".tar.bz2": "bunzip2 -c",
    ".tar.xz": "xz -dc",
    ".tar.zst": "zstd -dc",
    ".tar.lz4": "lz4 -dc",
}


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
        elif file.name.lower().endswith(tuple(_UNPACK)):
            compressed.append(file.name)
    if not shards:
        raise _no_shards(storage, compressed, excluded)
    shards.sort(key=lambda shard: shard.name.split("/"))
    return ShardSearch(shards=tuple(shards), compressed=tuple(compressed), excluded=excluded)


def left_out_warning(folder: str, compressed: Sequence[str]) -> str:
    """Say that compressed shards are not part of a dataset, and how to make them so."""
    count = f"{len(compressed):,} compressed {'shard is' if len(compressed) == 1 else 'shards are'} left out"
    return (
        f"{count}, first {compressed[0]}: samples cannot be read from the middle of a compressed file;"
        f" unpack {'it' if len(compressed) == 1 else 'them'}: {unpack_command(folder, compressed)}"
    )


def unpack_command(folder: str, compressed: Sequence[str]) -> str:
    """Give a shell command that makes ``.tar`` files of compressed ones, beside them.

    Args:
        folder: The dataset's folder.
        compressed: The files' names in it.

    >>> unpack_command("data", ["sub/s 0.tgz"])
    "gunzip -c 'data/sub/s 0.tgz' > 'data/sub/s 0.tar'"
    """
    by_ending: dict[str, list[str]] = {}
    for name in compressed:
        ending = next(ending for ending in _UNPACK if name.lower().endswith(ending))
        by_ending.setdefault(name[-len(ending) :], []).append(name)
    commands = []
    for ending, names in by_ending.items():
        program = _UNPACK[ending.lower()]
        if len(names) == 1:
            source = f"{folder.rstrip('/')}/{names[0]}"
            target = source.removesuffix(ending) + ".tar"
            commands.append(f"{program} {shlex.quote(source)} > {shlex.quote(target)}")
        else:
            script = f'{program} "$1" > "${{1%{ending}}}.tar"'
            found = f"find {shlex.quote(folder)} -name '*{ending}'"
            commands.append(f"{found} -exec sh -c {shlex.quote(script)} _ {{}} \\;")
    return " && ".join(commands)


def _no_shards(storage: Storage, compressed: list[str], excluded: int) -> StorageError:
    path = storage.path("")
    single = len(compressed) == 1
    if excluded:
        files = "file" if excluded == 1 else "files"
        found = f"--exclude leaves none of {excluded:,} .tar {files}"
        return StorageError(found, path=path, do="change the pattern")
    if compressed:
        return StorageError(
            f"no .tar files here, but {len(compressed):,} compressed {'one' if single else 'ones'} without"
            f" random access, first {compressed[0]}",
            path=path,
            do=f"unpack {'it' if single else 'them'}: {unpack_command(path, compressed)}",
        )
    return StorageError(
        "no .tar files here or in the folders below",
        path=path,
        do="give the folder that holds the WebDataset shards",
    )
