"""An index of tar shards in memory, which loads the parts of a shard when they are needed."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ...accounting.part_sets import PartSets
from ...format.index.dataset_index import PartLocation
from ...format.index.keys import hash_key
from ...format.index.layout import Layout, SampleIndex, ShardEntry
from ...format.index.shard_index import ShardIndex, index_shard
from ...format.tar.names import decode_name, encode_name
from ...storage import Storage

_MAX_LOADED = 16  # shards whose parts are kept in memory


class TarIndex(SampleIndex):
    """The samples of tar shards. The headers of a shard are scanned again when it is used, for the last shards used.

    Args:
        storage: The folder of the shards.
        layout: The shards.
        path: Path of the folder or file, for messages.
        loaded: Shard → its index, for shards that need no scan.
        key_hash: Hashes of all keys, ascending, shape (n,); empty if duplicates were not counted.
        key_sample: The sample of each hash, shape (n,).
        part_sets: The table of part sets; None if they were not counted.
    """

    def __init__(
        self,
        storage: Storage,
        layout: Layout,
        *,
        path: str,
        loaded: Mapping[str, ShardIndex] | None = None,
        key_hash: npt.NDArray[np.uint64] | None = None,
        key_sample: npt.NDArray[np.uint64] | None = None,
        part_sets: PartSets | None = None,
    ) -> None:
        super().__init__("", layout, path=path)
        self._part_sets = part_sets or PartSets(sets=(), samples=0)
        self.key_hash = np.empty(0, np.uint64) if key_hash is None else key_hash
        self.key_sample = np.empty(0, np.uint64) if key_sample is None else key_sample
        self._storage = storage
        self._kept = dict(loaded or {})
        self._recent: OrderedDict[str, ShardIndex] = OrderedDict()

    def _load(self, shard: ShardEntry) -> ShardIndex:
        found = self._kept.get(shard.name)
        if found is None:
            found = self._recent.pop(shard.name, None) or index_shard(self._storage, shard.name)
            self._recent[shard.name] = found
            if len(self._recent) > _MAX_LOADED:
                self._recent.popitem(last=False)
        return found

    def _row(self, sample: int) -> tuple[ShardIndex, int]:
        shard = self.shard_of(sample)
        return self._load(shard), sample - shard.first_sample

    def part_sets(self) -> PartSets:
        """Return the table of part sets; empty if they were not counted."""
        return self._part_sets

    def key(self, sample: int) -> str:
        """Return the key of a sample, without its shard."""
        shard, row = self._row(sample)
        return decode_name(_key(shard, row))

    def parts(self, sample: int) -> list[PartLocation]:
        """Return the byte ranges of a sample's parts, in their order in the shard.

        Raises:
            FormatError: The shard changed since it was scanned, and is damaged.
        """
        shard, row = self._row(sample)
        rows = slice(int(shard.part_ends[row - 1]) if row else 0, int(shard.part_ends[row]))
        columns = (shard.part_name[rows], shard.part_offset[rows], shard.part_size[rows])
        return [
            PartLocation(shard.part_names[name], offset, size)
            for name, offset, size in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def find(self, key: str) -> list[int]:
        """Return the samples of a bare key or of ``<shard>/<key>``, ascending; empty for an unknown key."""
        return [
            sample
            for shard in self.shards
            for bare in dict.fromkeys((key, key.removeprefix(f"{shard.name}/")))
            for sample in self._find(shard, bare)
        ]

    def _find(self, shard: ShardEntry, key: str) -> list[int]:
        try:
            wanted = encode_name(key)
        except UnicodeEncodeError:
            return []  # a lone surrogate, which no bytes encode
        index = self._load(shard)
        place = bisect_left(index.key_hash, hash_key(wanted))
        row = int(index.key_order[place]) if place < len(index) else shard.samples
        return [shard.first_sample + row] if row < shard.samples and _key(index, row) == wanted else []


def _key(shard: ShardIndex, row: int) -> bytes:
    return shard.key_bytes[int(shard.key_ends[row - 1]) if row else 0 : int(shard.key_ends[row])].tobytes()
