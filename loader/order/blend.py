"""Blend sources by weight, as a function: position → (source, position in that source's stream).

A period of the blend has a fixed count of samples of each source. It is cut into blocks of a few hundred positions. The
number of samples of a source before a block is a product and a division, so any block is found directly. Within a block
the sources are permuted by key. So proportions are exact at every block's end, to less than one sample of a source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from .permutation import Words, extend, mix, permute

_COUNTED = 2_000_000  # cells of lanes and sources at a time
_LOCATED = 250_000  # likewise; each takes some words of eight bytes
_MASK = 0xFFFFFFFFFFFFFFFF


def count_in_lanes(counts: Sequence[int] | IntArray, *, stops: IntArray, seed: int) -> IntArray:
    """Return the number of samples of each source in the first positions of all lanes together.

    It is the sum of ``BlendOrder(counts, lane=lane, seed=seed).counts(stops[lane])``, fast if many stops are equal.

    Args:
        stops: For each lane, the number of its positions that count; shape (lanes,).
    """
    counts = np.asarray(counts, dtype=np.int64)
    total = np.zeros_like(counts)
    size = max(1, _COUNTED // len(counts))
    for stop in np.unique(stops[stops > 0]).tolist():
        lanes = np.flatnonzero(stops == stop)
        for start in range(0, len(lanes), size):
            total += _count(counts, lanes[start : start + size], stop, seed)
    return total


def _count(counts: IntArray, lane: IntArray, stop: int, seed: int) -> IntArray:
    """Return the number of samples of each source in the first ``stop`` positions of some lanes."""
    period = int(counts.sum())
    blocks = max(1, -(-period // BLOCK))
    words = lane.astype(np.uint64)
    phase = mix(seed, PHASE, words[:, None], np.arange(len(counts), dtype=np.uint64)) % np.uint64(blocks)
    phase = phase.astype(np.uint16 if blocks < 1 << 16 else np.uint64)

    def before(block: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Return the counts before a block that all lanes have, and where a lane has one more."""
        periods, nth = divmod(block, blocks)
        whole, rest = np.divmod(counts * nth, blocks)  # (counts · nth + phase) // blocks, as phase < blocks
        return periods * counts + whole, phase >= (blocks - rest).astype(phase.dtype)

    # The block of the last position of each lane; rounding moves a block's start by a few positions.
    total = np.zeros_like(counts)
    left = np.ones(len(lane), np.bool_)
    block = (stop - 1) * blocks // period
    while block and (before(block)[0].sum() + before(block)[1].sum(axis=1) >= stop).any():
        block -= 1
    # Walk the blocks: lanes whose last position is in a block are counted there, and left out of the later ones.
    while left.any():
        (base, more), (next_base, next_more) = before(block), before(block + 1)
        rows = np.flatnonzero(left & (next_base.sum() + next_more.sum(axis=1) >= stop))
        if len(rows):
            first = base + more[rows]
            total += first.sum(axis=0)
            key = extend(mix(np.array([seed & _MASK], dtype=np.uint64), SOURCES, words[rows]), *divmod(block, blocks))
            total += _count_in_block(next_base + next_more[rows] - first, stop - first.sum(axis=1), key)
            left[rows] = False
        block += 1
    return total


def _count_in_block(in_block: IntArray, kept: IntArray, key: Words) -> IntArray:
    """Count the sources of the first ``kept`` positions of a block in some lanes.

    Args:
        in_block: Samples of each source in the block; shape (lanes, sources).
        kept: Shape (lanes,).
        key: Key of the block's permutation; shape (lanes,).
    """
    sizes = in_block.sum(axis=1)
    is_end = bool(2 * kept.sum() > sizes.sum())  # the end of the block is shorter than its beginning
    first, last = (kept, sizes) if is_end else (np.zeros_like(kept), kept)
    source, begin = _sources_of_blocks(in_block)
    lane, position = _ranges(last - first)
    position += first[lane]
    used = source[permute(position, sizes[lane], key[lane]) + begin[lane]]
    counted: IntArray = np.bincount(used, minlength=in_block.shape[1])
    return in_block.sum(axis=0) - counted if is_end else counted


def locate_in_lanes(
    counts: Sequence[int] | IntArray, *, lane: IntArray, start: IntArray, stop: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the sources at ranges of positions, and the positions in the sources' streams.

    The result equals ``BlendOrder(counts, lane=lane, seed=seed).locate(start, stop)``, range by range.

    Args:
        lane: Shape (ranges,).

    Returns:
        Two arrays of shape (all positions,).
    """
    counts = np.asarray(counts, dtype=np.int64)
    # Locate some lanes at a time: each takes memory for all sources.
    size = max(1, _LOCATED // len(counts))
    parts = [
        _located(counts, lane[rows], start[rows], stop[rows], seed)
        for rows in (slice(first, first + size) for first in range(0, len(lane), size))
    ]
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source, position = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return source, position


def _located(counts: IntArray, lane: IntArray, start: IntArray, stop: IntArray, seed: int) -> tuple[IntArray, IntArray]:
    period = int(counts.sum())
    blocks = max(1, -(-period // BLOCK))
    per_block, remainder = np.divmod(counts, blocks)
    words = lane.astype(np.uint64)
    phase = mix(seed, PHASE, words[:, None], np.arange(len(counts), dtype=np.uint64)) % np.uint64(blocks)
    phase = phase.astype(np.int64)
    keys = extend(mix(np.array([seed & _MASK], dtype=np.uint64), SOURCES), words)

    def before(rows: IntArray, block: IntArray) -> IntArray:
        """Return the number of samples of each source before a block of some lanes; shape (rows, sources)."""
        periods, nth = (part[:, None] for part in np.divmod(block, blocks))
        counted: IntArray = periods * counts + per_block * nth + (remainder * nth + phase[rows]) // blocks
        return counted

    # Prepare the columns of all ranges together; each range is filled block by block.
    lengths = stop - start
    source, position = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()), np.int64)
    offset = np.cumsum(lengths) - lengths  # of each range in the result
    rows, at = np.flatnonzero(lengths), start[lengths > 0]  # the ranges that are left, and their next positions
    block = np.maximum(0, at * blocks // period - 1)  # rounding moves a block's start by a few positions
    while len(rows):
        low, high = before(rows, block), before(rows, block + 1)
        # Choose the ranges whose next position is in their block; a block that was guessed too high goes back.
        is_found = high.sum(axis=1) > at
        fitting, low, high = rows[is_found], low[is_found], high[is_found]
        skipped = at[is_found] - low.sum(axis=1)
        if (skipped < 0).any():
            block[np.flatnonzero(is_found)[skipped < 0]] -= 1
            continue
        # Locate their positions in the block, and write them to their places in the columns.
        last = np.minimum(stop[fitting], high.sum(axis=1)) - low.sum(axis=1)
        its_key = extend(keys[fitting], *np.divmod(block[is_found], blocks))
        in_range, columns = _positions_in_blocks(low, high - low, skipped, last, its_key)
        lane_row, rank_in_lane = _ranges(last - skipped)
        target = (offset[fitting] + at[is_found] - start[fitting])[lane_row] + rank_in_lane
        source[target], position[target] = (column[in_range] for column in columns)
        # Continue with the next block of the ranges that have positions left.
        at[is_found] += last - skipped
        block += 1
        is_left = at < stop[rows]
        rows, at, block = rows[is_left], at[is_left], block[is_left]
    return source, position


def _positions_in_blocks(
    before: IntArray, in_block: IntArray, first: IntArray, last: IntArray, key: Words
) -> tuple[npt.NDArray[np.bool_], tuple[IntArray, IntArray]]:
    """Return the sources of the first positions of a block in some lanes, and the positions in the sources' streams.

    Args:
        before: Samples of each source before the block; shape (lanes, sources).
        in_block: Samples of each source in the block; shape (lanes, sources).
        first: Shape (lanes,): the first position that is wanted.
        last: Shape (lanes,): the position after the last one.
        key: Key of the block's permutation; shape (lanes,).

    Returns:
        A mask of the wanted positions among those before ``last``, and the two columns of the latter.
    """
    cells, begin = _sources_of_blocks(in_block)
    lane, position = _ranges(last)
    source = cells[permute(position, in_block.sum(axis=1)[lane], key[lane]) + begin[lane]]
    # The k-th position of a source in the permuted block is the k-th of its stream.
    cell = lane * before.shape[1] + source
    order = np.argsort(cell, kind="stable")
    is_first = np.diff(cell[order], prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    rank = np.empty(len(cell), np.int64)
    rank[order] = np.arange(len(cell)) - starts[np.cumsum(is_first) - 1]
    return position >= first[lane], (source, before[lane, source] + rank)


def _sources_of_blocks(in_block: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sources of all positions of some blocks before they are permuted, and the first row of each block."""
    sizes = in_block.sum(axis=1)
    rows, columns = np.nonzero(in_block)
    return np.repeat(columns, in_block[rows, columns]), np.cumsum(sizes) - sizes


def _ranges(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the number of each range, once for each of its places, and these places from 0."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


_PERIOD = 1 << 16
BLOCK = 256  # positions, or fewer
PHASE, SOURCES = 6, 7  # purposes of random numbers; each is hashed into the number's key


def quantise_weights(weights: Sequence[float], *, total: int = _PERIOD) -> IntArray:
    """Turn weights into counts that sum to about ``total``, in proportion, each at least 1.

    Args:
        weights: Numbers above 0, in any unit.
        total: Length of a period.

    >>> quantise_weights([0.6, 0.4], total=10).tolist()
    [6, 4]
    """
    shares = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        raise ValueError(f"expected weights above 0, found {list(weights)}")
    counts: IntArray = np.rint(shares / shares.sum() * total).astype(np.int64)
    return np.maximum(counts, 1)


class BlendOrder:
    """The blend of one lane.

    Args:
        counts: Number of samples of each source in a period; all sources of a finite blend end together, at the end of
            the first period.
    """

    def __init__(self, counts: Sequence[int] | IntArray, *, lane: int, seed: int) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        if not len(self._counts) or (self._counts < 0).any():
            raise ValueError(f"expected counts of at least 0, found {self._counts.tolist()}")
        self.period = int(self._counts.sum())
        self._blocks = max(1, -(-self.period // BLOCK))
        # Samples of a source in each block, and the remainder that is spread over the blocks.
        self._per_block, self._remainder = np.divmod(self._counts, self._blocks)
        sources = np.arange(len(self._counts), dtype=np.uint64)
        # The count of each source grows in other blocks, so that samples of rare sources do not all meet in one block.
        self._phase = (mix(seed, PHASE, lane, sources) % np.uint64(self._blocks)).astype(np.int64)
        self._key = mix(np.array([seed & _MASK], dtype=np.uint64), SOURCES, lane)

    def locate(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """Return the sources at the positions ``[start, stop)``, and the positions in the sources' streams.

        Each source's stream is consumed in order, without a gap.

        Returns:
            Two arrays of shape (stop - start,).
        """
        if not 0 <= start <= stop:
            raise ValueError(f"expected 0 <= start <= stop, found [{start}, {stop})")
        if start == stop or not self.period:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, before = self._blocks_covering(start, stop)
        source, position = self._positions_in(first, before)
        skipped = start - int(before[0].sum())
        return source[skipped : skipped + stop - start], position[skipped : skipped + stop - start]

    def counts(self, stop: int) -> IntArray:
        """Return the number of samples of each source in the positions ``[0, stop)``."""
        if not stop or not self.period:
            return np.zeros_like(self._counts)
        first, before = self._blocks_covering(stop - 1, stop)
        source, _ = self._positions_in(first, before)
        counts: IntArray = before[0] + np.bincount(source[: stop - int(before[0].sum())], minlength=len(self._counts))
        return counts

    def _blocks_covering(self, start: int, stop: int) -> tuple[int, IntArray]:
        """Find the blocks that contain some positions.

        Returns:
            The first block, counted through all periods; and for each block, and for the end of the last one, the
            number of samples of each source before it: shape (blocks + 1, sources).
        """
        margin = 0
        while True:
            # Rounding moves a block's start by less than a position for each source, so a small margin suffices.
            low = max(0, start * self._blocks // self.period - margin)
            high = (stop - 1) * self._blocks // self.period + 1 + margin
            before = self._counts_before(np.arange(low, high + 1))
            starts = before.sum(axis=1)
            if starts[0] <= start and stop <= starts[-1]:
                first = int(np.searchsorted(starts, start, side="right")) - 1
                return low + first, before[first : int(np.searchsorted(starts, stop)) + 1]
            margin = 2 * margin + 1

    def _counts_before(self, block: IntArray) -> IntArray:
        """Return the number of samples of each source before some blocks, shape (blocks, sources)."""
        period, nth = (part[:, None] for part in np.divmod(block, self._blocks))
        # (counts · block + phase) // blocks, in pieces that do not overflow.
        before: IntArray = (
            period * self._counts + self._per_block * nth + (self._remainder * nth + self._phase) // self._blocks
        )
        return before

    def _positions_in(self, first: int, before: IntArray) -> tuple[IntArray, IntArray]:
        """Return the sources of all positions of some blocks, and the positions in the sources' streams."""
        blocks, sources = len(before) - 1, before.shape[1]
        counts = np.diff(before, axis=0)
        sizes = counts.sum(axis=1)
        # A cell is a source in a block. First the cells of all positions in order, before each block is permuted.
        cells = np.repeat(
            np.arange(counts.size, dtype=np.uint16 if counts.size < 1 << 16 else np.int64), counts.ravel()
        )
        position_in_block = np.arange(len(cells))
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        period, block_number = np.divmod(np.arange(first, first + blocks), self._blocks)
        key = np.repeat(extend(self._key, period, block_number), sizes)
        cell = cells[permute(position_in_block - start, np.repeat(sizes, sizes), key) + start]
        # The k-th position of a source in the permuted block is the k-th of its stream.
        position = np.empty(len(cells), dtype=np.int64)
        cell_start = np.cumsum(counts.ravel()) - counts.ravel()
        position[np.argsort(cell, kind="stable")] = position_in_block + (before[:-1].ravel() - cell_start)[cells]
        return (cell % sources).astype(np.int64), position
