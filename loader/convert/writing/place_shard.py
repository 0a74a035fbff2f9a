"""Put the shards of a dataset into another one, by links or copies."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Literal

from ...dataset.dataset import Dataset
from ...errors import ConfigError, StorageError
from ...format.index.layout import ShardEntry
from ...storage import FileStream, LocalStorage, raise_storage_error

ShardSource = Literal["reference", "link", "copy"]
_COPY_BYTES = 16 << 20


def place_shard(folder: Dataset, shard: ShardEntry, path: str, how: ShardSource, *, final: str) -> None:
    """Create a shard of a dataset in a new folder; a copy has the time at which it was made.

    Args:
        how: By a symbolic link, a hard link, which takes no space and shares later changes, or a copy.
        final: Folder that the new file will be in, from which a relative link leads.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    storage = folder.storage
    # Copy it.
    if how == "copy":
        with folder.open_shard(shard) as source, open(path, "xb") as file:
            shutil.copyfileobj(FileStream(source, 0, shard.size_bytes), file, _COPY_BYTES)
            missing = shard.size_bytes - file.tell()
        if missing:
            raise StorageError(
                f"this shard ended {missing} bytes early while it was copied",
                path=storage.path(shard.name),
                hint="run energon lint on the dataset",
            )
        return
    # Link to a shard that has not changed.
    check_linkable(folder)
    if storage.stat(shard.name) != shard.info:
        folder.open_shard(shard).close()  # compares headers: another time alone is no fault
    # Link to the file itself, which another link may name.
    target = os.path.realpath(storage.path(shard.name))
    try:
        if how == "link":
            os.link(target, path)
        else:
            os.symlink(os.path.relpath(target, os.path.realpath(final)), path)
    except OSError as error:
        if how == "link" and error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise StorageError(
                f"this file cannot have a hard link in the new folder: {os.strerror(error.errno)}",
                path=target,
                hint="copy the shards; energon merge can also make symbolic links (--reference)",
            ) from error
        raise_storage_error("create this link", path, error)


def check_linkable(folder: Dataset) -> None:
    """Raise a ``ConfigError`` if links to the shards of a dataset are impossible."""
    if not isinstance(folder.storage, LocalStorage):
        raise ConfigError(
            "files of an object store cannot be linked to",
            at=folder.path,
            hint="copy them (merge: --copy), or mix the datasets in a metadataset, which copies nothing",
        )
