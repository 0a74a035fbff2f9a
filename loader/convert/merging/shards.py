"""Place the shards of datasets in a new one: by links to them, or by copies."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from ...errors import ConfigError, StorageError
from ...format.index.fresh_shard import open_fresh_shard
from ...format.index.layout import ShardEntry
from ...storage import LocalStorage, raise_storage_error
from .inputs import MergeInput
from .plan import ShardSource

_COPY_BYTES = 16 << 20


def check_reachable(inputs: Sequence[MergeInput], how: ShardSource) -> None:
    """Raise a ``ConfigError`` if links to the shards of an input are impossible."""
    for one in inputs:
        if how != "copy" and not isinstance(one.folder.storage, LocalStorage):
            raise ConfigError(
                "files of an object store cannot be linked to",
                at=one.path,
                hint="copy them with --copy, or mix the datasets in a metadataset, which copies nothing",
            )


def place_shards(inputs: Sequence[MergeInput], target: LocalStorage, final: str, how: ShardSource) -> Iterator[int]:
    """Create all shards in a folder, and yield the size of each in bytes after it is done.

    Args:
        inputs: The datasets.
        target: The folder.
        final: Path that the folder will have, from which relative links lead.
        how: By symbolic links, hard links, or copies.

    Raises:
        FormatError: A shard has changed since it was indexed.
        StorageError: A shard is missing, or cannot be linked to or copied.
    """
    for one in inputs:
        made: set[str] = set()
        for shard in one.index.shards:
            _check_unchanged(one, shard)
            path, folder = target.path(one.new_name(shard.name)), os.path.dirname(one.new_name(shard.name))
            if folder not in made:
                os.makedirs(target.path(folder), exist_ok=True)
                made.add(folder)
            if how == "copy":
                _copy(one, shard, target)
            else:
                source = os.path.realpath(one.folder.storage.path(shard.name))
                _link(source, path, os.path.join(final, folder), how)
            yield shard.size_bytes


def _check_unchanged(one: MergeInput, shard: ShardEntry) -> None:
    storage = one.folder.storage
    if isinstance(storage, LocalStorage) and storage.stat(shard.name) != shard.info:
        open_fresh_shard(storage, one.index, shard).close()  # compares headers: another time alone is no fault


def _link(source: str, path: str, final_folder: str, how: ShardSource) -> None:
    try:
        if how == "link":
            os.link(source, path)
        else:
            os.symlink(os.path.relpath(source, os.path.realpath(final_folder)), path)
    except OSError as error:
        if how == "link" and error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise StorageError(
                f"this file cannot have a hard link in the new dataset: {os.strerror(error.errno)}",
                path=source,
                hint="merge with --reference (symbolic links) or --copy",
            ) from error
        raise_storage_error("create this link", path, error)


def _copy(one: MergeInput, shard: ShardEntry, target: LocalStorage) -> None:
    """Copy a shard; its time of change is the time of the copy."""
    storage, name = one.folder.storage, one.new_name(shard.name)
    with storage.open(shard.name, shard.info) as source, target.create(name, durable=False) as file:
        done = 0
        while done < shard.size_bytes:
            data = source.read_at(done, min(_COPY_BYTES, shard.size_bytes - done))
            if not data:
                raise StorageError(
                    f"this shard ended {shard.size_bytes - done} bytes early while it was copied",
                    path=storage.path(shard.name),
                    hint="run energon lint on the dataset",
                )
            file.write(data)
            done += len(data)
