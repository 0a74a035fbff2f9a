"""The order of leaves in one pass of a fixed length: (leaf, lane, position) → (epoch, sample).

Leaf after leaf and epoch after epoch, what a pass holds is dealt to the lanes in stretches of neighbours. What does not
divide by the lanes goes to them in turn, and the turn is carried on to the next epoch and the next leaf: so however
many small leaves there are, all lanes together hold the pass to within one sample of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .leaf_shuffle import Integers, LeafOrder, LeafShuffle, of_leaf

__all__ = ["FiniteDeal"]


@dataclass(frozen=True, slots=True)
class _Deals:
    """The deals that some positions lie in; all of shape (m,).

    Attributes:
        start: Samples of the leaf that are dealt before.
        size: Samples that are dealt; fewer than the group has in the last epoch of a fractional repetition.
        epoch: The group's first epoch, which also numbers the group.
        together: The epochs of the group.
    """

    start: Integers
    size: Integers
    epoch: Integers
    together: Integers


class FiniteDeal:
    """One pass over some leaves, each with a number of repetitions.

    Args:
        leaves: At least one.
        repetitions: How often each leaf's samples come: 2.5 is two epochs and half the samples of a third.
        lanes: The lanes of the run.
    """

    def __init__(self, leaves: Sequence[LeafOrder], repetitions: Sequence[float], lanes: int) -> None:
        self.lanes = lanes
        self._shuffle = LeafShuffle(leaves, lanes)
        samples = self._shuffle.samples
        self._epochs = np.array([int(times) for times in repetitions], dtype=np.int64)
        # The samples of the last epoch, which is a part of one.
        parts = [round((times - int(times)) * leaf.samples) for leaf, times in zip(leaves, repetitions, strict=True)]
        self._part = np.array(parts, dtype=np.int64)
        self._groups, self._left = np.divmod(
            self._epochs, self._shuffle.together
        )  # whole groups, and the epochs left over
        self.samples = samples * self._epochs + self._part
        self._first_turn = (np.cumsum(self.samples) - self.samples) % lanes

    def lengths(self, lane: Integers) -> Integers:
        """Give how many samples of each leaf some lanes get.

        Args:
            lane: Shape (j,).

        Returns:
            Shape (j, leaves).
        """
        before = self._turns_before(lane[:, None], self._first_turn)
        return self._turns_before(lane[:, None], self._first_turn + self.samples) - before

    def _turns_before(self, lane: Integers | int, dealt: Integers) -> Integers:
        """Give how many samples a lane has when so many are dealt, one to each lane in turn."""
        return (dealt + (self.lanes - 1) - lane) // self.lanes

    def locate(self, leaf: Integers, lane: int, position: Integers) -> tuple[Integers, Integers]:
        """Give the samples at some positions of a lane's streams.

        Args:
            leaf: Shape (m,): which leaf's stream.
            lane: The lane.
            position: Shape (m,): places in that stream, in ``[0, length)`` of the leaf in this lane.

        Returns:
            The epochs and the sample numbers, each of shape (m,).
        """
        first_turn = of_leaf(self._first_turn, leaf)
        before = self._turns_before(lane, first_turn)
        deals = self._deals_at(leaf, lane, position + before)
        place = position + before - self._turns_before(lane, first_turn + deals.start)
        start, length = self._stretch((first_turn + deals.start) % self.lanes, deals.size, lane)
        place = self._shuffle.within_window(leaf, lane, deals.epoch, place, length)
        epoch, sample = self._shuffle.within_group(leaf, deals.epoch, start + place, deals.together)
        return deals.epoch + epoch, sample

    def _deals_at(self, leaf: Integers, lane: int, turn: Integers) -> _Deals:
        """Find the deals in which the lane gets the leaves' samples of some turns."""
        samples, together = of_leaf(self._shuffle.samples, leaf), of_leaf(self._shuffle.together, leaf)
        epochs, groups, left = (of_leaf(values, leaf) for values in (self._epochs, self._groups, self._left))
        first_turn = of_leaf(self._first_turn, leaf)
        group = samples * together
        # The last group before which the lane has no more samples than that: _turns_before, solved for the group.
        number = np.minimum((turn * self.lanes + lane - first_turn) // group, groups)
        is_whole = number < groups
        is_part = turn >= self._turns_before(lane, first_turn + epochs * samples)
        epoch = np.where(is_part, epochs, number * together)
        together = np.where(is_part, 1, np.where(is_whole, together, left))
        size = np.where(is_part, of_leaf(self._part, leaf), samples * together)
        return _Deals(epoch * samples, size, epoch, together)

    def _stretch(self, first_turn: Integers, size: Integers, lane: int) -> tuple[Integers, Integers]:
        """Give where a lane's share of some deals starts in them, and its length."""
        each, extra = np.divmod(size, self.lanes)
        # The lanes with one more than the others are those from the first turn on, and go on at lane 0.
        straight = np.minimum(extra, self.lanes - first_turn)
        over = np.maximum(0, extra - straight)
        before = np.clip(lane - first_turn, 0, straight) + np.minimum(lane, over)
        is_longer = (lane - first_turn) % self.lanes < extra
        return each * lane + before, each + is_longer
