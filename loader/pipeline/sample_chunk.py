"""The samples of some positions of a lane: found together, read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..format.sample_locations import SampleLocations
from .leaf import Integers, RawSample, ShardLeaf
from .open_shards import OpenShards
from .stage import SKIPPED

__all__ = ["SampleChunk"]

_AHEAD_BYTES = 8 << 20  # how much the disk is asked for at a time
_NEAR_BYTES = 128 << 10  # samples nearer to each other than this are asked for as one range


class SampleChunk:
    """Some samples in the order in which they come.

    Args:
        leaves: The datasets.
        shards: The open shards of this process.
        leaf: Shape (n,): which dataset each sample is of.
        index: Shape (n,): its number in the dataset's index.
        excluded: Shape (n,): which of them are left out; None where none is.
    """

    def __init__(
        self,
        leaves: Sequence[ShardLeaf],
        shards: OpenShards,
        leaf: Integers,
        index: Integers,
        excluded: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._leaves = leaves
        self._shards = shards
        self._leaf = leaf
        self._excluded = excluded
        self._found, self._place = _locate(leaves, leaf, index)
        self._shard, self._start, self._size = (
            np.asarray(column, np.int64) if self._place is None else np.array(column, np.int64)[self._place]
            for column in (self._found.shard, self._found.start, self._found.size_bytes)
        )
        self._file = (leaf << 32) + self._shard  # what files are known by

    def __len__(self) -> int:
        return len(self._leaf)

    def read(self, positions: Sequence[int], begin: Callable[[int], None]) -> Iterator[tuple[RawSample | Any, int]]:
        """Yield the samples, :data:`SKIPPED` for those that are excluded, each with its position.

        Args:
            positions: What to call the samples.
            begin: Is called with the position before a sample is read.

        Raises:
            FormatError: A shard is not the one that was indexed, or ends within a part.
            StorageError: A shard is missing or cannot be read.
        """
        found = self._found
        first, part_name, part_start, part_stop = found.first_part, found.part_name, found.part_start, found.part_stop
        # Where each sample is one part, it is what is read.
        names = part_name if isinstance(first, range) else [None] * len(self)
        columns: tuple[Any, ...] = (range(len(self)), found.sample, found.key, names)
        if self._place is not None:
            places = self._place.tolist()
            columns = tuple(map(column.__getitem__, places) for column in columns)
        rows = zip(
            positions,
            [False] * len(self) if self._excluded is None else self._excluded.tolist(),
            self._file.tolist(),
            self._leaf.tolist(),
            self._shard.tolist(),
            self._start.tolist(),
            self._size.tolist(),
            *columns,
            strict=True,
        )
        find = self._shards.find
        number, shard_names = -1, list[str]()  # of the leaf that the last sample was of
        done = 0
        while done < len(self):
            ahead = 1 if len(self) == 1 else self._expect(done)  # a single sample is read at once
            for position, left_out, name, leaf, shard, start, size, row, index, key, part in islice(rows, ahead - done):
                if left_out:
                    yield SKIPPED, position
                    continue
                begin(position)
                file = find(name) or self._shards.add(name, self._leaves[leaf].open_shard(shard))
                if leaf != number:
                    number, shard_names = leaf, self._leaves[leaf].shard_names
                if size < 0:
                    parts = self._leaves[leaf].read_far_apart(file, index)
                else:
                    data = file.read_at(start, size)
                    if len(data) != size:
                        raise self._cut(leaf, shard, start, size, len(data))
                    if part is not None:
                        parts = {part: data}
                    else:
                        parts = {}
                        for each in range(first[row], first[row + 1]):
                            parts[part_name[each]] = data[part_start[each] : part_stop[each]]
                yield (leaf, index, shard_names[shard], key, parts), position
            done = ahead

    def _expect(self, row: int) -> int:
        """Tell the store what is read next, from the ``row``-th sample on; give the row at which to tell it more."""
        ahead = np.cumsum(np.maximum(self._size[row:], 0))
        stop = row + 1 + int(np.searchsorted(ahead, _AHEAD_BYTES))
        rows = slice(row, stop)
        order = np.lexsort((self._start[rows], self._file[rows]))
        name, start = self._file[rows][order], self._start[rows][order]
        end = start + np.maximum(self._size[rows][order], 0)
        # A new range begins with another shard, or far behind what has been asked for of this one.
        begins = np.ones(len(order), bool)
        begins[1:] = (name[1:] != name[:-1]) | (start[1:] > end[:-1] + _NEAR_BYTES)
        first = np.flatnonzero(begins)
        columns = (name[first], start[first], np.maximum.reduceat(end, first))
        find = self._shards.find
        for which, low, high in zip(*(column.tolist() for column in columns), strict=True):
            file = find(which)
            if file is not None:  # one that is not open yet is opened, and checked, when its turn comes
                file.expect(low, high - low)
        return stop

    def _cut(self, leaf: int, shard: int, start: int, size: int, found: int) -> FormatError:
        return FormatError(
            f"a sample has {size} bytes in the index, the shard ends after {found} of them",
            shard=self._leaves[leaf].shard_path(shard),
            offset=start,
            do="run energon prepare again on this dataset",
        )


def _locate(leaves: Sequence[ShardLeaf], leaf: Integers, index: Integers) -> tuple[SampleLocations, Integers | None]:
    """Find all samples, those of a leaf together; also give the place of each in what was found, if it is another."""
    if (leaf == leaf[0]).all():
        return leaves[int(leaf[0])].locate(index), None
    order = np.argsort(leaf, kind="stable")
    grouped, numbers = leaf[order], index[order]
    edges = [0, *(np.flatnonzero(grouped[1:] != grouped[:-1]) + 1).tolist(), len(leaf)]
    found = SampleLocations()
    for (begin, end), number in zip(pairwise(edges), grouped[edges[:-1]].tolist(), strict=True):
        leaves[number].locate(numbers[begin:end], found)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return found, place
