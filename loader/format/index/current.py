"""The rows of an earlier index that are still right, for the index that follows it.

They are copied as they are: no key is hashed again, and nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..storage import Storage
from .dataset_index import DatasetIndex
from .index_layout import ShardEntry
from .member_name import encode_name
from .nv_meta import INDEX_FOLDER

__all__ = ["KeptRows", "ShardRows"]

_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRows:
    """What the columns of an index hold about one shard of n samples and p parts."""

    part_ends: npt.NDArray[np.integer[Any]]  # (n,) from zero
    key_ends: npt.NDArray[np.integer[Any]]  # (n,) from zero
    key_bytes: npt.NDArray[np.uint8]
    part_names: tuple[str, ...]  # those that the shard has, in the order of a scan
    part_name: npt.NDArray[np.uint32]  # (p,) which of part_names
    part_block: npt.NDArray[np.integer[Any]]  # (p,) offset of the contents in blocks of 512 bytes
    part_size: npt.NDArray[np.integer[Any]]  # (p,) bytes


class KeptRows:
    """Cuts rows out of an index.

    Args:
        storage: The dataset.
        index: The index that is in force.
    """

    def __init__(self, storage: Storage, index: DatasetIndex) -> None:
        self._index = index
        self._path = storage.path(f"{INDEX_FOLDER}/{index.uuid}")

    def of_shard(self, entry: ShardEntry) -> ShardRows:
        """Give the rows of a shard.

        Raises:
            FormatError: The columns contradict each other.
        """
        index, names = self._index, self._index.part_names
        samples = slice(entry.first_sample, entry.first_sample + entry.samples)
        part_ends, parts = self._counted_from_zero(index.part_ends, samples)
        key_ends, key_bytes = self._counted_from_zero(index.key_ends, samples)
        part_name = index.part_name[parts]
        counts = np.bincount(part_name, minlength=len(names))
        if len(counts) > len(names) or len(part_name) < parts.stop - parts.start:
            raise self._contradiction("parts of no known name, or none at all")
        used = sorted(np.flatnonzero(counts).tolist(), key=lambda number: encode_name(names[number]))
        renumber = np.zeros(len(names), np.uint32)
        renumber[used] = np.arange(len(used), dtype=np.uint32)
        return ShardRows(
            part_ends=part_ends,
            key_ends=key_ends,
            key_bytes=index.key_bytes[key_bytes],
            part_names=tuple(names[number] for number in used),
            part_name=renumber[part_name],
            part_block=index.part_offset[parts],
            part_size=index.part_size[parts],
        )

    def of_key_table(
        self, first_samples: Mapping[str, int]
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]]:
        """Yield those rows of the key table that are about some shards, by ascending hash, in pieces.

        Args:
            first_samples: For each of these shards, the number that its first sample has in the new index.

        Returns:
            Pieces of hashes and their samples, numbered anew.

        Raises:
            FormatError: The key table is not sorted, or does not hold every sample once.
        """
        index = self._index
        starts, shifts = self._stretches(first_samples)
        seen = np.zeros(len(index), np.bool_)
        last = np.uint64(0)
        for start in range(0, len(index), _ROWS_AT_ONCE):
            hashes = index.key_hash[start : start + _ROWS_AT_ONCE]
            samples = index.key_sample[start : start + _ROWS_AT_ONCE].astype(np.int64)
            if hashes[0] < last or (hashes[1:] < hashes[:-1]).any():
                raise self._contradiction("the hashes of keys do not ascend")
            if samples.min() < 0 or samples.max() >= len(index):
                raise self._contradiction("a key is said to be of a sample that there is not")
            last = hashes[-1]
            seen[samples] = True
            moved = samples + shifts[np.searchsorted(starts, samples, "right") - 1]
            kept = moved >= 0
            yield hashes[kept], moved[kept].astype(np.uint64)
        if not seen.all():
            raise self._contradiction("the table of keys does not hold every sample once")

    def _stretches(self, first_samples: Mapping[str, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Cut all samples where neighbours move differently: there are few such stretches, and many shards.

        Returns:
            For each stretch its first sample, and what is added to its samples' numbers; where it is not kept, that
            leads below zero.
        """
        gone = -len(self._index) - 1
        shards = [shard for shard in self._index.shards if shard.samples]
        starts = np.array([shard.first_sample for shard in shards], np.int64)
        targets = [first_samples.get(shard.name, shard.first_sample + gone) for shard in shards]
        shifts = np.array(targets, np.int64) - starts
        opens = np.diff(shifts, prepend=2 * gone) != 0
        return starts[opens], shifts[opens]

    def _counted_from_zero(self, ends: npt.NDArray[np.uint64], samples: slice) -> tuple[npt.NDArray[np.uint64], slice]:
        """Give some rows of a column of ends, counted from where the first of them starts, and what they span."""
        start = int(ends[samples.start - 1]) if samples.start else 0
        rows = ends[samples]
        if len(rows) and (int(rows[0]) < start or (rows[1:] < rows[:-1]).any()):
            raise self._contradiction("a column of ends does not ascend")
        return rows - np.uint64(start), slice(start, int(rows[-1]) if len(rows) else start)

    def _contradiction(self, found: str) -> FormatError:
        return FormatError(
            f"the columns of the index contradict each other ({found})",
            shard=self._path,
            do="run energon prepare --force-overwrite on this dataset",
        )
