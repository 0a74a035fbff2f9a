"""Where the bytes of many samples lie: one look-up in the index's columns for all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from .dataset_index import DatasetIndex
from .tar_header import BLOCK

__all__ = ["SampleLocations", "SampleLocator"]

Integers = npt.NDArray[np.int64]

_GAP = 64 * 1024  # read over gaps between parts up to this size: one read costs more


@dataclass(frozen=True, slots=True)
class SampleLocations:
    """Where the wanted parts of n samples lie; plain lists, since they are read one by one.

    Attributes:
        sample: Their numbers in the index.
        key: Their bare keys.
        shard: The number of each one's shard.
        start: The byte of the shard where the first wanted part starts.
        size_bytes: From there to where the last wanted part ends; -1 where the parts lie too far apart for one read.
        first_part: For each sample its first row in the lists below, and one more.
        part_name: Of each part, in the order in the shard.
        part_start: Where it starts, counted from its sample's ``start``.
        part_stop: Where it ends, likewise.
    """

    sample: list[int]
    key: list[str]
    shard: list[int]
    start: list[int]
    size_bytes: list[int]
    first_part: list[int]
    part_name: list[str]
    part_start: list[int]
    part_stop: list[int]


class SampleLocator:
    """Looks samples up in an index.

    Args:
        index: The index.
        parts: The names of the parts that are wanted; None wants all.
    """

    def __init__(self, index: DatasetIndex, parts: Collection[str] | None = None) -> None:
        self._index = index
        self._names = list(index.part_names)
        self._wanted = None if parts is None else np.array([name in parts for name in self._names], dtype=bool)
        self._shard_starts = np.array([shard.first_sample for shard in index.shards], dtype=np.int64)
        self._shard_sizes = np.array([shard.size_bytes for shard in index.shards], dtype=np.int64)
        self._keys = memoryview(np.asarray(index.key_bytes).data)

    def locate(self, samples: Integers) -> SampleLocations:
        """Give where some samples lie.

        Args:
            samples: Shape (n,), each in ``[0, len(index))``.

        Raises:
            FormatError: The columns name a part that there is not, or a place outside of the shard.
        """
        index = self._index
        n = len(samples)
        shard = np.searchsorted(self._shard_starts, samples, side="right") - 1
        first, last = _rows(index.part_ends, samples)
        counts = last - first
        if (first < 0).any() or (counts < 0).any() or (last > len(index.part_name)).any():
            raise self._contradiction("the parts of a sample have no rows")
        ends = np.cumsum(counts)
        rows = np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if n else 0)
        name = index.part_name[rows]
        start = index.part_offset[rows].astype(np.int64) * BLOCK
        size = index.part_size[rows].astype(np.int64)
        of_sample = np.repeat(np.arange(n), counts)
        self._check(name, start, size, self._shard_sizes[shard[of_sample]])
        if self._wanted is not None:
            keep = self._wanted[name]
            name, start, size, of_sample = name[keep], start[keep], size[keep], of_sample[keep]
            counts = np.bincount(of_sample, minlength=n)
            ends = np.cumsum(counts)
        stop = start + size
        low, high, payload = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        some = np.flatnonzero(counts)
        if len(some):
            groups = (ends - counts)[some]
            low[some] = np.minimum.reduceat(start, groups)
            high[some] = np.maximum.reduceat(stop, groups)
            payload[some] = np.add.reduceat(size, groups)
        read = high - low
        read[read - payload > _GAP * np.maximum(counts - 1, 0)] = -1
        return SampleLocations(
            sample=samples.tolist(),
            key=self._keys_of(samples),
            shard=shard.tolist(),
            start=low.tolist(),
            size_bytes=read.tolist(),
            first_part=[0, *ends.tolist()],
            part_name=list(map(self._names.__getitem__, name.tolist())),
            part_start=(start - low[of_sample]).tolist(),
            part_stop=(stop - low[of_sample]).tolist(),
        )

    def _keys_of(self, samples: Integers) -> list[str]:
        first, last = _rows(self._index.key_ends, samples)
        keys = self._keys
        return [
            str(keys[start:stop], "utf-8", "surrogateescape")
            for start, stop in zip(first.tolist(), last.tolist(), strict=True)
        ]

    def _check(self, name: npt.NDArray[Any], start: Integers, size: Integers, shard_size: Integers) -> None:
        # Sizes are unsigned in the index: very large ones are negative here, and their sums may be anything.
        if ((name >= len(self._names)) | (start == 0) | (size < 0) | (size > shard_size - start)).any():
            raise self._contradiction("a part outside of its shard, or of no known name")

    def _contradiction(self, found: str) -> FormatError:
        return FormatError(
            f"the columns of the index contradict each other ({found})",
            shard=self._index.path,
            do="run energon prepare --force-overwrite on this dataset",
        )


def _rows(ends: npt.NDArray[np.uint64], samples: Integers) -> tuple[Integers, Integers]:
    """Give the half-open ranges of rows that an end column names."""
    last = ends[samples].astype(np.int64)
    first = np.where(samples > 0, ends[np.maximum(samples - 1, 0)].astype(np.int64), 0)
    return first, last
