"""The blends of many lanes at a time, at a fraction of the time that the lanes take one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from .blend import BLOCK, PHASE, SOURCES
from .mixing import Words, extend, mix
from .permutation import permute

_COUNTED = 2_000_000  # cells of lanes and sources at a time
_LOCATED = 250_000  # likewise; each takes some words of eight bytes
_MASK = 0xFFFFFFFFFFFFFFFF


def count_in_lanes(counts: Sequence[int] | IntArray, *, stops: IntArray, seed: int) -> IntArray:
    """Return the number of samples of each source in the first positions of all lanes together.

    It is the sum of ``BlendOrder(counts, lane=lane, seed=seed).counts(stops[lane])``, fast if many stops are equal.

    Args:
        counts: Number of samples of each source in a period.
        stops: For each lane, the number of its positions that count; shape (lanes,).
        seed: Seed of the run.
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
        periods, number = divmod(block, blocks)
        whole, rest = np.divmod(counts * number, blocks)  # (counts · number + phase) // blocks, as phase < blocks
        return periods * counts + whole, phase >= (blocks - rest).astype(phase.dtype)

    # The block of the last position of each lane; rounding moves a block's start by a few positions.
    total = np.zeros_like(counts)
    left = np.ones(len(lane), np.bool_)
    block = (stop - 1) * blocks // period
    while block and (before(block)[0].sum() + before(block)[1].sum(axis=1) >= stop).any():
        block -= 1
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
    lane, place = _ranges(last - first)
    place += first[lane]
    used = source[permute(place, sizes[lane], key[lane]) + begin[lane]]
    counted: IntArray = np.bincount(used, minlength=in_block.shape[1])
    return in_block.sum(axis=0) - counted if is_end else counted


def locate_in_lanes(
    counts: Sequence[int] | IntArray, *, lane: IntArray, start: IntArray, stop: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the sources at ranges of positions, and the positions in the sources' streams.

    They are those of ``BlendOrder(counts, lane=lane, seed=seed).locate(start, stop)``, range by range.

    Args:
        counts: Number of samples of each source in a period.
        lane: Shape (ranges,).
        start: The first position of each range.
        stop: The position after its last one.
        seed: Seed of the run.

    Returns:
        Two arrays of shape (all positions,).
    """
    counts = np.asarray(counts, dtype=np.int64)
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
        periods, number = (part[:, None] for part in np.divmod(block, blocks))
        found: IntArray = periods * counts + per_block * number + (remainder * number + phase[rows]) // blocks
        return found

    lengths = stop - start
    source, position = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()), np.int64)
    offset = np.cumsum(lengths) - lengths  # of each range in the result
    rows, at = np.flatnonzero(lengths), start[lengths > 0]  # the ranges that are left, and their next positions
    block = np.maximum(0, at * blocks // period - 1)  # rounding moves a block's start by a few positions
    while len(rows):
        low, high = before(rows, block), before(rows, block + 1)
        is_found = high.sum(axis=1) > at
        found, low, high = rows[is_found], low[is_found], high[is_found]
        skipped = at[is_found] - low.sum(axis=1)
        if (skipped < 0).any():
            block[np.flatnonzero(is_found)[skipped < 0]] -= 1
            continue
        last = np.minimum(stop[found], high.sum(axis=1)) - low.sum(axis=1)
        its_key = extend(keys[found], *np.divmod(block[is_found], blocks))
        in_range, columns = _positions_in_blocks(low, high - low, skipped, last, its_key)
        lane_row, place = _ranges(last - skipped)
        target = (offset[found] + at[is_found] - start[found])[lane_row] + place
        source[target], position[target] = (column[in_range] for column in columns)
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
    lane, place = _ranges(last)
    source = cells[permute(place, in_block.sum(axis=1)[lane], key[lane]) + begin[lane]]
    # The k-th position of a source in the permuted block is the k-th of its stream.
    cell = lane * before.shape[1] + source
    order = np.argsort(cell, kind="stable")
    is_first = np.diff(cell[order], prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    rank = np.empty(len(cell), np.int64)
    rank[order] = np.arange(len(cell)) - starts[np.cumsum(is_first) - 1]
    return place >= first[lane], (source, before[lane, source] + rank)


def _sources_of_blocks(in_block: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sources of all positions of some blocks before they are permuted, and the first row of each block."""
    sizes = in_block.sum(axis=1)
    rows, columns = np.nonzero(in_block)
    return np.repeat(columns, in_block[rows, columns]), np.cumsum(sizes) - sizes


def _ranges(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the number of each range, once for each of its places, and these places from 0."""
    number = np.repeat(np.arange(len(lengths)), lengths)
    return number, np.arange(len(number)) - (np.cumsum(lengths) - lengths)[number]
