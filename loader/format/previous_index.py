"""What the last prepare knew about shards, for those that have not changed since."""

from __future__ import annotations

from dataclasses import replace

from ..errors import EnergonError
from ..storage import FileInfo, Storage
from .dataset_index import DatasetIndex
from .index_in_force import index_in_force
from .index_layout import ShardEntry
from .kept_rows import KeptRows
from .shard_index import ShardIndex
from .shard_info import read_shard_info
from .tar_idx import read_tar_idx

__all__ = ["PreviousIndex"]


class PreviousIndex:
    """The index that is in force while a new one is made.

    Args:
        storage: The dataset.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.index: DatasetIndex | None = None
        try:
            shard_counts = read_shard_info(storage)
            self.index = None if shard_counts is None else index_in_force(storage, shard_counts)
        except EnergonError:
            self.index = None  # damaged: nothing of it is used, and the new one replaces it
        self.rows = KeptRows(storage, self.index) if self.index else None
        shards = self.index.shards if self.index else ()
        self._entries = {shard.name: shard for shard in shards}
        self._numbers = {shard.name: number for number, shard in enumerate(shards)}

    def entry(self, shard: FileInfo) -> ShardEntry | None:
        """Give what is known about a shard, if its size and time of change are still the same."""
        entry = self._entries.get(shard.name)
        if entry and (entry.size_bytes, entry.mtime_ns) == (shard.size_bytes, shard.mtime_ns):
            return entry
        return None

    def number(self, name: str) -> int | None:
        """Give the number that a shard had (``tar_file_id``)."""
        return self._numbers.get(name)

    def has_offsets(self, entry: ShardEntry) -> bool:
        """Tell whether :meth:`load` will know where the shard's samples start."""
        return entry.plain or len(self.load(entry).sample_offsets) > 0

    def load(self, entry: ShardEntry) -> ShardIndex:
        """Give a shard's index; its sample offsets are empty where no valid ``.tar.idx`` has them."""
        if self.index is None:
            raise LookupError(entry.name)
        index = self.index.shard_index(entry)
        if len(index.sample_offsets):
            return index
        offsets = read_tar_idx(self._storage, entry.name, samples=entry.samples, shard_size=entry.size_bytes)
        if offsets is None:
            return index
        # Each sample's first part lies behind the sample's first header, and before the next sample's.
        first = index.first_part_offsets()
        about_this = ((offsets[:-1] < first) & (first <= offsets[1:])).all() and offsets[-1] == entry.end_offset
        return replace(index, sample_offsets=offsets) if about_this else index
