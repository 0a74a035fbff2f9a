"""Copy or link the shards of a dataset as they are, without its metadata."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...errors import FormatError
from ...format.dataset_folder import DatasetFolder
from ...format.index.fresh_shard import open_fresh_shard
from ...storage import LocalStorage
from .new_output import NewFolder, raise_unwritable

_COPY_BYTES = 8 << 20


def copy_shards(
    folder: DatasetFolder, output: str, *, link: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Copy all shards to a new folder, and return their bytes.

    Args:
        folder: A dataset of tar shards.
        output: A new or empty folder.
        link: Make hard links, which take no space and share later changes.
        on_progress: Called with the number of samples that are done, and of all.

    Raises:
        FormatError: A shard has changed since it was indexed.
        StorageError: The folder has files, or cannot be written.
    """
    index, storage = folder.tar_index, folder.storage
    size_bytes = 0
    with NewFolder(output) as target:
        for shard in index.shards:
            if on_progress is not None:
                on_progress(shard.first_sample, len(index))
            path = os.path.join(target.folder, *shard.name.split("/"))
            with open_fresh_shard(storage, index, shard) as source:
                try:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    if link and isinstance(storage, LocalStorage):
                        os.link(os.path.realpath(storage.path(shard.name)), path)
                    else:
                        with open(path, "xb") as file:
                            file.writelines(
                                source.read_at(offset, _COPY_BYTES)
                                for offset in range(0, source.size_bytes, _COPY_BYTES)
                            )
                except OSError as error:
                    raise_unwritable(error, output)
            if os.path.getsize(path) != shard.size_bytes:
                raise FormatError("the shard changed while it was copied", shard=storage.path(shard.name))
            size_bytes += shard.size_bytes
    return size_bytes
