"""Which leaf a position of a blend is, as a function: position → (leaf, position in that leaf's stream).

A period of the blend holds a fixed count of samples of each leaf. It is cut into blocks of a few hundred positions; how
many samples of a leaf lie before a block is a product and a division, so any block is found directly. Within a block
the leaves are permuted by key. So proportions are exact at every block's end, to less than one sample of a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .mixing import extend, mix
from .permutation import permute

__all__ = ["BlendOrder", "quantise_weights"]

Integers = npt.NDArray[np.int64]

_PERIOD = 1 << 16
_BLOCK = 256
_MASK = 0xFFFFFFFFFFFFFFFF
_PHASE, _LEAVES = 6, 7  # what a random number is for; part of its name


def quantise_weights(weights: Sequence[float], *, total: int = _PERIOD) -> Integers:
    """Turn weights into counts that sum to about ``total``, in proportion, each at least 1.

    Args:
        weights: Above 0, in any unit.
        total: The length of a period.

    >>> quantise_weights([0.6, 0.4], total=10).tolist()
    [6, 4]
    """
    shares = np.asarray(weights, dtype=np.float64)
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        raise ValueError(f"expected weights above 0, found {list(weights)}")
    counts: Integers = np.rint(shares / shares.sum() * total).astype(np.int64)
    return np.maximum(counts, 1)


class BlendOrder:
    """A blend as one lane sees it.

    Args:
        counts: Samples of each leaf in a period; all leaves of a finite blend end together, at the end of the first.
        lane: The lane.
        seed: Of the run.
    """

    def __init__(self, counts: Sequence[int] | Integers, *, lane: int, seed: int) -> None:
        self._counts = np.asarray(counts, dtype=np.int64)
        if not len(self._counts) or (self._counts < 0).any():
            raise ValueError(f"expected counts of at least 0, found {self._counts.tolist()}")
        self.period = int(self._counts.sum())
        self._blocks = max(1, -(-self.period // _BLOCK))
        self._each, self._rest = np.divmod(self._counts, self._blocks)  # samples of a leaf in a block, and those over
        leaves = np.arange(len(self._counts), dtype=np.uint64)
        # Each leaf's count grows at times of its own: else the only samples of rare leaves would all meet in one block.
        self._phase = (mix(seed, _PHASE, lane, leaves) % np.uint64(self._blocks)).astype(np.int64)
        self._key = mix(np.array([seed & _MASK], dtype=np.uint64), _LEAVES, lane)

    def locate(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """Give the leaves at the positions ``[start, stop)``, and the positions in the leaves' streams.

        Each leaf's stream is taken in order, without a gap.

        Returns:
            Two arrays of shape (stop - start,).
        """
        if not 0 <= start <= stop:
            raise ValueError(f"expected 0 <= start <= stop, found [{start}, {stop})")
        if start == stop or not self.period:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first, before = self._blocks_over(start, stop)
        leaf, position = self._within(first, before)
        skipped = start - int(before[0].sum())
        return leaf[skipped : skipped + stop - start], position[skipped : skipped + stop - start]

    def _blocks_over(self, start: int, stop: int) -> tuple[int, Integers]:
        """Find the blocks that hold some positions.

        Returns:
            The first block, counted through all periods, and how many samples of each leaf lie before it and before
            each block after it, up to the end of the last: shape (blocks + 1, leaves).
        """
        margin = 0
        while True:
            # Rounding moves a block's start by less than a position for each leaf, so the guess is near.
            low = max(0, start * self._blocks // self.period - margin)
            high = (stop - 1) * self._blocks // self.period + 1 + margin
            before = self._before(np.arange(low, high + 1))
            starts = before.sum(axis=1)
            if starts[0] <= start and stop <= starts[-1]:
                first = int(np.searchsorted(starts, start, side="right")) - 1
                return low + first, before[first : int(np.searchsorted(starts, stop)) + 1]
            margin = 2 * margin + 1

    def _before(self, block: Integers) -> Integers:
        """Give how many samples of each leaf lie before some blocks, shape (blocks, leaves)."""
        period, number = (part[:, None] for part in np.divmod(block, self._blocks))
        # (counts · block + phase) // blocks, in pieces that do not overflow.
        before: Integers = (
            period * self._counts + self._each * number + (self._rest * number + self._phase) // self._blocks
        )
        return before

    def _within(self, first: int, before: Integers) -> tuple[Integers, Integers]:
        """Give the leaves of all positions of some blocks, and the positions in the leaves' streams."""
        blocks, leaves = len(before) - 1, before.shape[1]
        counts = np.diff(before, axis=0)
        sizes = counts.sum(axis=1)
        # A cell is a leaf in a block; the cells of all positions, in order, before the leaves of a block are permuted.
        cells = np.repeat(
            np.arange(counts.size, dtype=np.uint16 if counts.size < 1 << 16 else np.int64), counts.ravel()
        )
        place = np.arange(len(cells))
        start = np.repeat(np.cumsum(sizes) - sizes, sizes)
        period, number = np.divmod(np.arange(first, first + blocks), self._blocks)
        key = np.repeat(extend(self._key, period, number), sizes)
        cell = cells[permute(place - start, np.repeat(sizes, sizes), key) + start]
        # The k-th position of a leaf in the block is the k-th of its stream, wherever it was moved.
        position = np.empty(len(cells), dtype=np.int64)
        cell_start = np.cumsum(counts.ravel()) - counts.ravel()
        position[np.argsort(cell, kind="stable")] = place + (before[:-1].ravel() - cell_start)[cells]
        return (cell % leaves).astype(np.int64), position
