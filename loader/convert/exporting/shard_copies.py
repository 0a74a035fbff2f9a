"""Copy or link the shards of a dataset as they are, without its metadata."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from ...accounting import Account
from ...errors import FormatError
from ...format.dataset_folder import DatasetFolder
from ...format.index.fresh_shard import open_fresh_shard
from ...format.tar.names import decode_name, is_outside_name, printable, split_member_name
from ...format.tar.scan import TarScan, read_members
from ...storage import LocalStorage
from .new_output import NewFolder, raise_unwritable

_COPY_BYTES = 8 << 20


def outside_members(folder: DatasetFolder, account: Account) -> bool:
    """Return True if shards have members or links that lead out of a folder; count those that belong to no sample.

    Raises:
        FormatError: A shard has changed since it was indexed.
        StorageError: A shard cannot be read.
    """
    has_outside = False
    for shard in folder.tar_index.shards:
        with open_fresh_shard(folder.storage, folder.tar_index, shard) as file:
            scan = TarScan(file.size_bytes, shard.name)
            names: list[bytes] = []
            for batch in read_members(file, scan):
                suspect = np.strings.startswith(batch.names, b"/") | (np.strings.find(batch.names, b"..") >= 0)
                names += batch.names[suspect].tolist()
            links = [link.name for link in scan.links if is_outside_name(decode_name(link.target))]
        outside = [name for name in map(decode_name, names) if is_outside_name(name)]
        has_outside |= bool(outside or links)
        others = [*(name for name in outside if split_member_name(name) is None), *map(decode_name, links)]
        for name in others:
            account.see("members")
            account.leave("members", "L121", f"{shard.name}, {printable(name)}")
    return has_outside


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
