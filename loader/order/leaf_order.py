"""The order of one leaf's samples in a lane, as a function: (lane, position) → (epoch, sample).

An epoch deals the leaf's samples to the lanes anew, in slices of neighbouring samples that are permuted over the whole
leaf; within a lane, windows of slices are permuted sample by sample. Nothing is stored and nothing is stepped through:
any position costs the same. All functions take arrays of positions, each with a leaf of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .leaf_shuffle import SLICES_A_LANE, Integers, LeafOrder, LeafShuffle, of_leaf, one_for_all

__all__ = ["LeafOrder", "LeafOrders"]


class LeafOrders:
    """The orders of some leaves over a fixed number of lanes.

    Args:
        leaves: At least one.
        lanes: The lanes of the run.
    """

    def __init__(self, leaves: Sequence[LeafOrder], lanes: int) -> None:
        self.lanes = lanes
        self._shuffle = LeafShuffle(leaves, lanes)
        samples, length = self._shuffle.samples, self._shuffle.slice
        # Samples that are permuted together; draws with replacement come in whole slices.
        drawn = -(-samples // length) * length
        self._group = np.where(self._shuffle.is_drawn, drawn, samples * self._shuffle.together)
        # Groups that are dealt to the lanes at once: several of a small leaf, so that every lane gets some.
        self._dealt = -(-SLICES_A_LANE * lanes // self._group)

    def length(self, lane: int) -> Integers:
        """Give how many samples of each leaf a lane gets before the leaf is dealt anew."""
        dealt = self._group * self._dealt
        length: Integers = dealt * (lane + 1) // self.lanes - dealt * lane // self.lanes
        return length

    def locate(self, leaf: Integers, lane: int, position: Integers) -> tuple[Integers, Integers]:
        """Give the samples at some positions of a lane's streams.

        Args:
            leaf: Shape (m,): which leaf's stream.
            lane: The lane.
            position: Shape (m,): places in that stream, from 0, without an end.

        Returns:
            The epochs and the sample numbers, each of shape (m,).
        """
        together, group = of_leaf(self._shuffle.together, leaf), of_leaf(self._group, leaf)
        dealt = group * of_leaf(self._dealt, leaf)
        start = dealt * lane // self.lanes
        length = dealt * (lane + 1) // self.lanes - start
        deal, place = np.divmod(position, length)
        deal = one_for_all(deal)
        place = self._shuffle.within_window(leaf, lane, deal, place, length)
        number, place = np.divmod(deal * dealt + start + place, group)
        number = one_for_all(number)
        epoch, sample = self._shuffle.within_group(leaf, number, place, together)
        return number * together + epoch, sample
