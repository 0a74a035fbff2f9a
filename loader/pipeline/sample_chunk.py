"""The samples of some positions of a lane: found together, read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..format.sample_bytes import read_sample
from ..format.staleness import open_fresh_shard
from ..storage import ReadableFile
from .leaf import Leaf
from .open_shards import OpenShards
from .stage import SKIPPED

__all__ = ["RawSample", "SampleChunk"]

Integers = npt.NDArray[np.int64]

RawSample = tuple[int, int, str, str, dict[str, bytes]]
"""The bytes of one sample: the number of its leaf in the chain, its number in the dataset's index, the name of its
shard, its bare key, and its parts by name in their order in the shard."""

_AHEAD_BYTES = 8 << 20  # how much the disk is asked for at a time
_NEAR_BYTES = 128 << 10  # samples nearer to each other than this are asked for as one range


class SampleChunk:
    """Some samples in the order in which they come.

    Args:
        leaves: The datasets.
        shards: The open shards of this process.
        leaf: Shape (n,): which dataset each sample is of.
        sample: Shape (n,): its number in the leaf.
    """

    def __init__(self, leaves: Sequence[Leaf], shards: OpenShards, leaf: Integers, sample: Integers) -> None:
        self._leaves = leaves
        self._shards = shards
        self._leaf = leaf
        self._place = np.empty(len(leaf), np.int64)  # of each sample among those of its leaf
        self._excluded = np.zeros(len(leaf), bool)
        self._start, self._size, self._shard = np.empty((3, len(leaf)), np.int64)
        self._found = {}
        for number in np.unique(leaf).tolist():
            rows = np.flatnonzero(leaf == number)
            indexes = leaves[number].index_numbers(sample[rows])
            if len(leaves[number].excluded):
                self._excluded[rows] = np.isin(indexes, leaves[number].excluded)
            found = self._found[number] = leaves[number].locator.locate(indexes)
            self._place[rows] = np.arange(len(rows))
            self._start[rows], self._size[rows], self._shard[rows] = found.start, found.size_bytes, found.shard

    def read(self, position: int, begin: Callable[[int], None]) -> Iterator[tuple[RawSample | Any, int]]:
        """Yield the samples, :data:`SKIPPED` for those that are excluded, each with its position.

        Args:
            position: That of the first sample; the others follow.
            begin: Is called with the position before a sample is read.

        Raises:
            FormatError: A shard is not the one that was indexed, or ends within a part.
            StorageError: A shard is missing or cannot be read.
        """
        number = -1  # of the leaf whose columns these are
        key: list[str] = []
        part_name: list[str] = []
        shard_names: list[str] = []
        index = first = part_start = part_stop = list[int]()
        excluded = self._excluded.tolist() if self._excluded.any() else None
        columns = (self._leaf, self._place, self._shard, self._start, self._size)
        find = self._shards.find
        more_ahead = 0
        for row, (leaf, place, shard, start, size) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            if excluded is not None and excluded[row]:
                yield SKIPPED, position + row
                continue
            if row >= more_ahead:
                more_ahead = self._expect(row)
            begin(position + row)
            if leaf != number:
                number, found = leaf, self._found[leaf]
                key, index, first = found.key, found.sample, found.first_part
                part_name, part_start, part_stop = found.part_name, found.part_start, found.part_stop
                shard_names = self._leaves[leaf].shard_names
            file = find((leaf, shard)) or self._opened(leaf, shard)
            parts: dict[str, bytes] = {}
            if size >= 0:
                data = file.read_at(start, size)
                if len(data) != size:
                    raise self._cut(leaf, shard, start, size, len(data))
                for part in range(first[place], first[place + 1]):
                    parts[part_name[part]] = data[part_start[part] : part_stop[part]]
            else:
                parts = self._read_far_apart(leaf, file, index[place])
            yield (leaf, index[place], shard_names[shard], key[place], parts), position + row

    def _expect(self, row: int) -> int:
        """Tell the store what is read next, from the ``row``-th sample on; give the row at which to tell it more."""
        ahead = np.cumsum(np.maximum(self._size[row:], 0))
        stop = row + 1 + int(np.searchsorted(ahead, _AHEAD_BYTES))
        rows = slice(row, stop)
        order = np.lexsort((self._start[rows], self._shard[rows], self._leaf[rows]))
        leaf, shard, start = (column[rows][order] for column in (self._leaf, self._shard, self._start))
        end = start + np.maximum(self._size[rows][order], 0)
        # A new range begins with another shard, or far behind what has been asked for of this one.
        begins = np.ones(len(order), bool)
        begins[1:] = (leaf[1:] != leaf[:-1]) | (shard[1:] != shard[:-1]) | (start[1:] > end[:-1] + _NEAR_BYTES)
        first = np.flatnonzero(begins)
        for begin, until in zip(first.tolist(), [*first[1:].tolist(), len(order)], strict=True):
            file = self._shards.find((int(leaf[begin]), int(shard[begin])))
            if file is not None:  # one that is not open yet is opened, and checked, when its turn comes
                file.expect(int(start[begin]), int(end[begin:until].max()) - int(start[begin]))
        return stop

    def _opened(self, number: int, shard: int) -> ReadableFile:
        folder = self._leaves[number].folder
        file = open_fresh_shard(folder.storage, folder.index, folder.index.shards[shard])
        return self._shards.add((number, shard), file)

    def _read_far_apart(self, number: int, file: ReadableFile, index: int) -> dict[str, bytes]:
        leaf = self._leaves[number]
        folder = leaf.folder
        locations = [part for part in folder.index.parts(index) if leaf.builder.part_filter(part.name)]
        return read_sample(file, locations, shard=folder.storage.path(folder.index.shard_of(index).name))

    def _cut(self, number: int, shard: int, start: int, size: int, found: int) -> FormatError:
        leaf = self._leaves[number]
        return FormatError(
            f"a sample has {size} bytes in the index, the shard ends after {found} of them",
            shard=leaf.folder.storage.path(leaf.shard_names[shard]),
            offset=start,
            do="run energon prepare again on this dataset",
        )
