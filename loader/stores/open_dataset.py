"""A prepared dataset opened for look-ups by name, once in a process however many stores ask for it."""

from __future__ import annotations

import os
import resource
from collections import OrderedDict
from contextlib import suppress
from weakref import WeakValueDictionary

from ..format.dataset_folder import DatasetFolder
from ..format.dataset_index import PartLocation
from ..format.index_in_force import read_uuid
from ..format.index_layout import ShardEntry
from ..format.media_metadata import MediaMetadataReader
from ..format.nv_meta import INFO_JSON, INFO_YAML
from ..format.sample_bytes import read_sample
from ..format.staleness import open_fresh_shard
from ..storage import ReadableFile, open_storage

__all__ = ["OpenDataset", "open_dataset"]

_MOST = 1024
_SHARE = 16  # of what a process may open: several datasets may be asked, beside the one that is trained on


class OpenDataset:
    """An index, and the shards that were read from last, without a lock.

    Threads share it: reads have no position, each change of the table of shards is one atomic step, and two threads
    that open a shard at once only do so twice. So a process may be forked at any time.

    Args:
        folder: The dataset.
        most: How many shards are kept open.
    """

    def __init__(self, folder: DatasetFolder, *, most: int | None = None) -> None:
        self.storage = folder.storage
        self.index = folder.index
        self.media = MediaMetadataReader(folder.storage)
        if most is None:
            most = min(_MOST, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))
        self._most = most
        self._files: OrderedDict[str, ReadableFile] = OrderedDict()

    @property
    def open_shards(self) -> int:
        """How many shards are open."""
        return len(self._files)

    def read(self, shard: ShardEntry, part: PartLocation) -> bytes:
        """Read a part.

        Raises:
            FormatError: The shard is not the one that was indexed, or ends within the part.
            StorageError: It cannot be read.
        """
        name = shard.name
        file = self._files.get(name)
        if file is None:
            file = self._files.setdefault(name, open_fresh_shard(self.storage, self.index, shard))
            while len(self._files) > self._most:
                with suppress(KeyError):  # another thread was faster
                    # Not closed but dropped: it closes itself when the last thread is done reading from it.
                    self._files.popitem(last=False)
        data = file.read_at(part.offset, part.size_bytes)
        if len(data) == part.size_bytes:
            return data
        return read_sample(file, [part], shard=self.storage.path(name))[part.name]  # raises what is wrong


_opened: WeakValueDictionary[tuple[object, ...], OpenDataset] = WeakValueDictionary()
"""The datasets that some store of this process has open, by what tells another version of them."""


def open_dataset(path: str | os.PathLike[str]) -> OpenDataset:
    """Open a dataset, or share it with the stores of this process that have it open.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: ``.info.json`` says something wrong.
        FormatError: The index is damaged.
    """
    version = _version(path)
    found = _opened.get(version) if version else None
    if found is None:
        found = OpenDataset(DatasetFolder(path))
        if version:
            found = _opened.setdefault(version, found)
    return found


def _version(path: str | os.PathLike[str]) -> tuple[object, ...] | None:
    """Give what changes when the dataset is prepared again; None where it is not prepared."""
    storage = open_storage(path)
    info = next((name for name in (INFO_JSON, INFO_YAML) if storage.exists(name)), None)
    return (storage.path(""), read_uuid(storage), storage.stat(info).mtime_ns) if info else None
