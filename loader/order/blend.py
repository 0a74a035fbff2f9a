"""Which leaf a position of a blend is, as a function: position → (leaf, position in that leaf's stream).

A period of the blend holds a fixed count of samples of each leaf. It is cut into blocks of a few hundred positions; how
many samples of a leaf lie before a block is a product and a division, so any block is found directly. Within a block
the leaves are permuted by key. So proportions are exact at every block's end, to less than one sample of a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .mixing import mix
from .permutation import permute

__all__ = ["BlendOrder", "quantise_weights"]

Integers = npt.NDArray[np.int64]

_PERIOD = 1 << 16
_BLOCK = 256
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


@dataclass(frozen=True, slots=True)
class _Block:
    """The leaves of one block in order, and the place of each position in its leaf's stream; both of shape (b,)."""

    start: int
    leaf: Integers
    position: Integers


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
        self._lane = lane
        self._seed = seed
        leaves = np.arange(len(self._counts), dtype=np.uint64)
        # Each leaf's count grows at times of its own: else the only samples of rare leaves would all meet in one block.
        self._phase = (mix(seed, _PHASE, lane, leaves) % np.uint64(self._blocks)).astype(np.int64)

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
        blocks: list[_Block] = []
        position = start
        while position < stop:
            block = self._block_at(position)
            blocks.append(block)
            position = block.start + len(block.leaf)
        within = slice(start - blocks[0].start, stop - blocks[0].start)
        return (
            np.concatenate([block.leaf for block in blocks])[within],
            np.concatenate([block.position for block in blocks])[within],
        )

    def _before(self, block: int) -> Integers:
        """Give how many samples of each leaf lie before a block of the period."""
        # (counts · block + phase) // blocks, in pieces that do not overflow.
        whole, rest = np.divmod(self._counts, self._blocks)
        return whole * block + (rest * block + self._phase) // self._blocks

    def _block_at(self, position: int) -> _Block:
        period, place = divmod(position, self.period)
        number = place * self._blocks // self.period
        # Rounding moves a block's start by less than a position for each leaf, so the guess is near.
        while number > 0 and int(self._before(number).sum()) > place:
            number -= 1
        while int(self._before(number + 1).sum()) <= place:
            number += 1
        before, behind = self._before(number), self._before(number + 1)
        leaves = np.repeat(np.arange(len(before)), behind - before)  # (b,)
        size = len(leaves)
        key = mix(self._seed, _LEAVES, self._lane, period, number)
        leaf = leaves[permute(np.arange(size), size, key)]
        # The k-th position of a leaf in the block is the k-th of its stream, wherever it was moved.
        order = np.argsort(leaf, kind="stable")
        first = np.cumsum(behind - before) - (behind - before)
        rank = np.empty(size, dtype=np.int64)
        rank[order] = np.arange(size) - first[leaf[order]]
        start = period * self.period + int(before.sum())
        return _Block(start, leaf, period * self._counts[leaf] + before[leaf] + rank)
