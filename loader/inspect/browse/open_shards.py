"""Read ranges of tar shards that stay open, from several threads; a shard that changes is opened and checked again."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable

from ...format.index.dataset_index import DatasetIndex
from ...format.index.fresh_shard import open_fresh_shard
from ...format.index.layout import ShardEntry
from ...storage import FileInfo, LocalStorage, ReadableFile, Storage

_MAX_OPEN = 64


class OpenShards:
    """The shards of a dataset, of which the last 64 stay open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[ReadableFile, FileInfo | None]] = OrderedDict()
        self._readers: Counter[ReadableFile] = Counter()

    def read(
        self, storage: Storage, index: Callable[[], DatasetIndex], shard: ShardEntry, offset: int, size_bytes: int
    ) -> bytes:
        """Read a range of bytes.

        Args:
            storage: The dataset.
            index: Returns the index, with which the content of a shard is compared when it is opened.
            shard: The shard.
            offset: Where the range begins.
            size_bytes: Its size.

        Raises:
            FormatError: The shard has changed since it was indexed.
            StorageError: It is missing or cannot be read.
        """
        with self._lock:
            file = self._opened(storage, index, shard)
            self._readers[file] += 1
        try:  # without the lock: storages answer several reads at a time
            return file.read_at(offset, size_bytes)
        finally:
            with self._lock:
                self._readers[file] -= 1
                self._close_unused(shard.name, file)

    def _opened(self, storage: Storage, index: Callable[[], DatasetIndex], shard: ShardEntry) -> ReadableFile:
        # Files of other storages have versions, which their reads check.
        now = storage.stat(shard.name) if isinstance(storage, LocalStorage) else None
        if shard.name in self._open and self._open[shard.name][1] != now:
            self._drop(shard.name)
        if shard.name not in self._open:
            self._open[shard.name] = open_fresh_shard(storage, index(), shard), now
            if len(self._open) > _MAX_OPEN:
                self._drop(next(iter(self._open)))
        self._open.move_to_end(shard.name)
        return self._open[shard.name][0]

    def _drop(self, name: str) -> None:
        file, _ = self._open.pop(name)
        self._close_unused(name, file)

    def _close_unused(self, name: str, file: ReadableFile) -> None:
        if not self._readers[file]:
            del self._readers[file]
            if name not in self._open or self._open[name][0] is not file:
                file.close()

    def close(self) -> None:
        """Close all shards; one that is being read is closed after that."""
        with self._lock:
            for name in list(self._open):
                self._drop(name)
