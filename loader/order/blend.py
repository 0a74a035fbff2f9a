"""Blend sources by weight, as a function: position → (source, position in that source's stream).

A period of the blend has a fixed count of samples of each source. It is cut into blocks of a few hundred positions. The
number of samples of a source before a block is a product and a division, so any block is found directly. Within a block
the sources are permuted by key. So proportions are exact at every block's end, to less than one sample of a source.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import IntArray
from .mixing import extend, mix
from .permutation import permute

_PERIOD = 1 << 16
BLOCK = 256  # positions, or fewer
_MASK = 0xFFFFFFFFFFFFFFFF
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
        lane: The lane.
        seed: Seed of the run.
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
        period, number = (part[:, None] for part in np.divmod(block, self._blocks))
        # (counts · block + phase) // blocks, in pieces that do not overflow.
        before: IntArray = (
            period * self._counts + self._per_block * number + (self._remainder * number + self._phase) // self._blocks
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
        place = np.arange(len(cells))
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        period, number = np.divmod(np.arange(first, first + blocks), self._blocks)
        key = np.repeat(extend(self._key, period, number), sizes)
        cell = cells[permute(place - start, np.repeat(sizes, sizes), key) + start]
        # The k-th position of a source in the permuted block is the k-th of its stream.
        position = np.empty(len(cells), dtype=np.int64)
        cell_start = np.cumsum(counts.ravel()) - counts.ravel()
        position[np.argsort(cell, kind="stable")] = place + (before[:-1].ravel() - cell_start)[cells]
        return (cell % sources).astype(np.int64), position
