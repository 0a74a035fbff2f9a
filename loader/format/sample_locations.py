"""Where the bytes of many samples lie: one look-up in the index's columns for all of them."""

from __future__ import annotations

from bisect import bisect_right
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
_FEW = 24  # samples; below that, numpy's calls cost more than Python's steps


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

    def extend(self, more: SampleLocations) -> None:
        """Add what was found of other samples behind."""
        base = self.first_part.pop()
        self.first_part.extend([base + first for first in more.first_part])
        self.sample.extend(more.sample)
        self.key.extend(more.key)
        self.shard.extend(more.shard)
        self.start.extend(more.start)
        self.size_bytes.extend(more.size_bytes)
        self.part_name.extend(more.part_name)
        self.part_start.extend(more.part_start)
        self.part_stop.extend(more.part_stop)


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
        self._few = _FewSamples(index, self._wanted)

    def locate(self, samples: Integers) -> SampleLocations:
        """Give where some samples lie.

        Args:
            samples: Shape (n,), each in ``[0, len(index))``.

        Raises:
            FormatError: The columns name a part that there is not, or a place outside of the shard.
        """
        if len(samples) < _FEW:
            return self._few.locate(samples.tolist())
        index = self._index
        n = len(samples)
        shard = np.searchsorted(self._shard_starts, samples, side="right") - 1
        first, last = _rows(index.part_ends, samples)
        counts = last - first
        if (first < 0).any() or (counts < 0).any() or (last > len(index.part_name)).any():
            raise _contradiction(index, "the parts of a sample have no rows")
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
            raise _contradiction(self._index, "a part outside of its shard, or of no known name")


class _FewSamples:
    """Looks samples up one by one, in columns as memory views: a number of them costs a tenth of numpy's."""

    def __init__(self, index: DatasetIndex, wanted: npt.NDArray[np.bool_] | None) -> None:
        self._index = index
        self._names = list(index.part_names)
        self._wanted = [True] * len(self._names) if wanted is None else wanted.tolist()
        self._part_ends, self._key_ends, self._part_name, self._part_offset, self._part_size, self._keys = (
            memoryview(np.asarray(column).data)
            for column in (
                index.part_ends,
                index.key_ends,
                index.part_name,
                index.part_offset,
                index.part_size,
                index.key_bytes,
            )
        )
        self._shard_starts = [shard.first_sample for shard in index.shards]
        self._shard_sizes = [shard.size_bytes for shard in index.shards]

    def locate(self, samples: list[int]) -> SampleLocations:
        part_ends, key_ends, keys = self._part_ends, self._key_ends, self._keys
        found = SampleLocations(samples, [], [], [], [], [0], [], [], [])
        for sample in samples:
            before = sample - 1
            shard = bisect_right(self._shard_starts, sample) - 1
            found.key.append(
                str(keys[key_ends[before] if sample else 0 : key_ends[sample]], "utf-8", "surrogateescape")
            )
            found.shard.append(shard)
            self._find_parts(found, shard, part_ends[before] if sample else 0, part_ends[sample])
        return found

    def _find_parts(self, found: SampleLocations, shard: int, first: int, last: int) -> None:
        shard_size, part_start, part_stop = self._shard_sizes[shard], found.part_start, found.part_stop
        known = len(part_start)
        low, high, payload = shard_size, 0, 0
        if not first <= last <= len(self._part_name):
            raise _contradiction(self._index, "the parts of a sample have no rows")
        for row in range(first, last):
            name, start, size = self._part_name[row], self._part_offset[row] * BLOCK, self._part_size[row]
            stop = start + size
            if name >= len(self._names) or start == 0 or stop > shard_size:
                raise _contradiction(self._index, "a part outside of its shard, or of no known name")
            if self._wanted[name]:
                found.part_name.append(self._names[name])
                part_start.append(start)
                part_stop.append(stop)
                low, high, payload = min(low, start), max(high, stop), payload + size
        count = len(part_start) - known
        if not count:
            low = 0
        for part in range(known, known + count):
            part_start[part] -= low
            part_stop[part] -= low
        found.start.append(low)
        found.size_bytes.append(-1 if high - low - payload > _GAP * max(count - 1, 0) else high - low)
        found.first_part.append(known + count)


def _contradiction(index: DatasetIndex, found: str) -> FormatError:
    return FormatError(
        f"the columns of the index contradict each other ({found})",
        shard=index.path,
        do="run energon prepare --force-overwrite on this dataset",
    )


def _rows(ends: npt.NDArray[np.uint64], samples: Integers) -> tuple[Integers, Integers]:
    """Give the half-open ranges of rows that an end column names."""
    last = ends[samples].astype(np.int64)
    first = np.where(samples > 0, ends[np.maximum(samples - 1, 0)].astype(np.int64), 0)
    return first, last
