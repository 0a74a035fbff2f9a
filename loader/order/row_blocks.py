"""Shuffle a table by blocks of row groups, which can only be decoded as a whole.

Each epoch permutes the row groups of the table. A block is a few groups that follow each other then, and its rows are
permuted freely. So a reader that holds one block decodes each group once an epoch; a lane that begins or ends inside of
a group decodes it once more.
"""

from __future__ import annotations

import numpy as np

from ..arrays import IntArray
from ..format.records.row_groups import RowGroupEnds
from .permutation import Words, extend, permute

# These determine the order, and must not change.
MIN_TABLE_BYTES = 256 << 20  # a smaller table fits into the cache of a process, where any order decodes it once
_BLOCK_BYTES = 96 << 20  # of a block: two tables of a mix, and the groups at their edges, fit into the cache
_LARGEST_BLOCK = 200 << 20  # of a block of two groups: with one group, neighbours would stay together
_BLOCKS_PER_LANE = 4  # so that few blocks are cut by the ends of lanes
_MAX_GROUPS = 1 << 22  # that are permuted together, of all epochs: their order is kept in memory

_KEPT_EPOCHS = 4  # lanes are at most in two epochs; the next two are begun before these are left


def has_blocks(table: RowGroupEnds, epochs_together: int | None) -> bool:
    """Return True if a table is shuffled by blocks: it is large, and its epochs are permutations of all samples."""
    groups = len(table.ends) * (epochs_together or 0)
    return table.size_bytes > MIN_TABLE_BYTES and 0 < groups <= _MAX_GROUPS


def groups_of_block(table: RowGroupEnds, lanes: int) -> int:
    """Return the number of row groups of a block: 96 MiB, or two; and at most a quarter of a lane's share.

    >>> groups_of_block(RowGroupEnds(np.arange(100, 100_001, 100), 10 << 20), lanes=8)
    9
    """
    fitting = max(2 if 2 * table.group_bytes <= _LARGEST_BLOCK else 1, _BLOCK_BYTES // max(1, table.group_bytes))
    return max(1, min(fitting, len(table.ends) // (_BLOCKS_PER_LANE * lanes)))


class BlockShuffle:
    """The order of a table's samples in groups of epochs that are shuffled together.

    Args:
        table: The table.
        lanes: Number of lanes of the run.
        seeds: Of the permutations of groups, and of the samples of a block.
        has_buffer: Samples of a block are permuted; if not, one group follows another, each in its order.
    """

    def __init__(self, table: RowGroupEnds, lanes: int, seeds: tuple[Words, Words], *, has_buffer: bool) -> None:
        self._table = table
        self._size = groups_of_block(table, lanes)
        self._group_seed, self._block_seed = seeds
        self._has_buffer = has_buffer
        self._orders: dict[tuple[int, int], tuple[IntArray, IntArray]] = {}

    def locate(self, cycle: IntArray, position: IntArray, together: IntArray) -> tuple[IntArray, IntArray]:
        """Return the samples at positions of groups of epochs.

        Args:
            cycle: The number of the group of epochs; all have shape (m,).
            position: The position in it.
            together: Its epochs.

        Returns:
            The epochs, counted from the group's first, and the sample numbers; both of shape (m,).
        """
        epoch, sample = np.empty_like(position), np.empty_like(position)
        for key in sorted({*zip(cycle.tolist(), together.tolist(), strict=True)}):
            rows = np.flatnonzero((cycle == key[0]) & (together == key[1]))
            epoch[rows], sample[rows] = self._locate(*key, position[rows])
        return epoch, sample

    def _locate(self, cycle: int, together: int, position: IntArray) -> tuple[IntArray, IntArray]:
        groups, firsts = self._order(cycle, together)
        # Permute the samples of each block.
        if self._has_buffer:
            block = (firsts.searchsorted(position, side="right") - 1) // self._size
            begin = firsts[block * self._size]
            size = firsts[np.minimum((block + 1) * self._size, len(groups))] - begin
            position = begin + permute(position - begin, size, extend(self._block_seed, cycle, block))
        # Find the row group of each position, and its epoch.
        turn = firsts.searchsorted(position, side="right") - 1
        epoch, group = np.divmod(groups[turn], len(self._table.ends))
        return epoch, self._table.starts[group] + position - firsts[turn]

    def _order(self, cycle: int, together: int) -> tuple[IntArray, IntArray]:
        """Return the row groups in their order, and the first position of each; the second array ends with the last."""
        known = self._orders.get((cycle, together))
        if known is None:
            count = len(self._table.ends)
            groups = permute(np.arange(count * together), count * together, extend(self._group_seed, cycle))
            sizes = (self._table.ends - self._table.starts)[groups % count]
            known = groups, np.concatenate([[0], np.cumsum(sizes)])
            while len(self._orders) >= _KEPT_EPOCHS:
                self._orders.pop(next(iter(self._orders)))
            self._orders[cycle, together] = known
        return known
