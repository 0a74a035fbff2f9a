"""The order of one leaf's samples in a lane, as a function: (lane, position) → (epoch, sample).

An epoch deals the leaf's samples to the lanes anew, in slices of neighbouring samples that are permuted over the whole
leaf; within a lane, windows of slices are permuted sample by sample. Nothing is stored and nothing is stepped through:
any position costs the same. All functions take arrays of positions, each with a leaf of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .mixing import Words, mix
from .permutation import permute

__all__ = ["LeafOrder", "LeafOrders"]

Integers = npt.NDArray[np.int64]

_MIN_WINDOW_SLICES = 16
_SLICES_A_LANE = 4  # a small leaf is cut so finely that each lane gets about this many slices

# What a random number is for; part of its name.
_ROTATION, _SLICES, _WINDOW, _TURNS, _DRAWS = 1, 2, 3, 4, 5

_WITH_REPLACEMENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafOrder:
    """What decides the order of a leaf.

    Attributes:
        samples: Its number of samples, at least 1; excluded ones count, and are skipped at their turn.
        slice_length: Neighbouring samples that are read together, ``max_samples_per_sequence``.
        shuffle_buffer: Samples among which shuffling is as good as free; 0 or 1: slices interleave, and samples of
            one slice keep their order.
        epochs_together: Epochs whose slices are permuted together; -1 draws slices with replacement; None keeps the
            order in which the samples lie.
        repeat: The leaf goes on for ever: a small one is then dealt several epochs at a time, so that every lane gets
            some.
        seed: Of the run and of the leaf's place in it.
    """

    samples: int
    slice_length: int
    shuffle_buffer: int = 0
    epochs_together: int | None = 1
    repeat: bool = True
    seed: int = 0


class LeafOrders:
    """The orders of some leaves over a fixed number of lanes.

    Args:
        leaves: At least one.
        lanes: The lanes of the run.
    """

    def __init__(self, leaves: Sequence[LeafOrder], lanes: int) -> None:
        self.lanes = lanes
        self._samples = _column(leaf.samples for leaf in leaves)
        fine = np.maximum(1, self._samples // (_SLICES_A_LANE * lanes))
        self._slice = np.minimum(_column(leaf.slice_length for leaf in leaves), fine)
        self._is_shuffled = np.array([leaf.epochs_together is not None for leaf in leaves])
        self._is_drawn = np.array([leaf.epochs_together == _WITH_REPLACEMENT for leaf in leaves])
        self._is_mixed = np.array([leaf.shuffle_buffer > 1 for leaf in leaves])  # sample by sample within a window
        self._together = np.maximum(1, _column(leaf.epochs_together or 1 for leaf in leaves))
        buffer = _column(leaf.shuffle_buffer for leaf in leaves)
        self._window = np.maximum(_MIN_WINDOW_SLICES, -(-buffer // self._slice)) * self._slice
        # Samples that are permuted together; draws with replacement come in whole slices.
        drawn = -(-self._samples // self._slice) * self._slice
        self._group = np.where(self._is_drawn, drawn, self._samples * self._together)
        self._repeats = np.array([leaf.repeat for leaf in leaves])
        needed = -(-_SLICES_A_LANE * lanes // self._group)
        self._dealt = np.where(self._repeats, np.maximum(1, needed), 1)  # groups that are dealt to the lanes at once
        self._seed = mix(np.array([leaf.seed & 0xFFFFFFFFFFFFFFFF for leaf in leaves], dtype=np.uint64))

    def length(self, lane: int) -> Integers:
        """Give how many samples of each leaf a lane gets before the leaf is dealt anew (one pass, if not repeated)."""
        dealt = self._group * self._dealt
        length: Integers = dealt * (lane + 1) // self.lanes - dealt * lane // self.lanes
        return length

    def locate(self, leaf: Integers, lane: int, position: Integers) -> tuple[Integers, Integers]:
        """Give the samples at some positions of a lane's streams.

        Args:
            leaf: Shape (m,): which leaf's stream.
            lane: The lane.
            position: Shape (m,): places in that stream, from 0, not bounded for a leaf that repeats.

        Returns:
            The epochs and the sample numbers, each of shape (m,).

        Raises:
            ValueError: A position lies behind the end of a leaf that does not repeat.
        """
        samples, together, group = self._samples[leaf], self._together[leaf], self._group[leaf]
        dealt = group * self._dealt[leaf]
        start = dealt * lane // self.lanes
        length = dealt * (lane + 1) // self.lanes - start
        if not ((position >= 0) & ((position < length) | self._repeats[leaf])).all():
            raise ValueError("expected positions in [0, length) of a leaf that does not repeat")
        deal, place = np.divmod(position, length)
        place = self._within_window(leaf, lane, deal, place, length)
        number, place = np.divmod(deal * dealt + start + place, group)
        shuffled = self._within_group(leaf, number, place)
        place = np.where(self._is_shuffled[leaf], shuffled, place)
        epoch = np.where(self._is_drawn[leaf], number, number * together + place // samples)
        return epoch, place % samples

    def _within_window(self, leaf: Integers, lane: int, deal: Integers, place: Integers, length: Integers) -> Integers:
        """Move samples about within the windows of a lane."""
        number, offset = np.divmod(place, self._window[leaf])
        start = place - offset
        size = np.minimum(self._window[leaf], length - start)
        key = mix(self._seed[leaf], _WINDOW, lane, deal, number)
        mixed = permute(offset, size, key)
        taken_in_turn = _take_in_turn(offset, size, self._slice[leaf], key)
        moved = start + np.where(self._is_mixed[leaf], mixed, taken_in_turn)
        return np.where(self._is_shuffled[leaf], moved, place)

    def _within_group(self, leaf: Integers, number: Integers, place: Integers) -> Integers:
        """Permute the slices of a group of epochs: give ``epoch in the group · samples + sample``."""
        samples, length, together = self._samples[leaf], self._slice[leaf], self._together[leaf]
        group = self._group[leaf]
        key = mix(self._seed[leaf], _SLICES, number)
        rotation = _wide_below(mix(self._seed[leaf], _ROTATION, number), group)
        slice_number, offset = np.divmod(place, length)
        drawn = (_wide_below(mix(key, _DRAWS, slice_number), samples) + offset) % samples

        place = (place + rotation) % group
        whole, rest = np.divmod(samples, length)  # whole slices of an epoch, and the samples of its short one
        in_whole = place < whole * length * together
        slice_number, offset = np.divmod(place, length)
        count = whole * together
        moved = permute(np.where(in_whole, slice_number, 0), np.maximum(1, count), key)
        epoch, moved = np.divmod(moved, np.maximum(1, whole))
        short_epoch, short = np.divmod(place - whole * length * together, np.maximum(1, rest))
        long_sample = epoch * samples + moved * length + offset
        short_sample = short_epoch * samples + whole * length + short
        return np.where(self._is_drawn[leaf], drawn, np.where(in_whole, long_sample, short_sample))


def _column(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)


def _wide_below(word: Words, bound: Integers) -> Integers:
    """Map words to ``[0, bound)`` for bounds up to 2^62; as even as 64 bits allow."""
    return (word % bound.astype(np.uint64)).astype(np.int64)


def _take_in_turn(offset: Integers, size: Integers, length: Integers, key: Words) -> Integers:
    """Interleave the slices of a window: one sample of each slice a round, in an order drawn for each round.

    Args:
        offset: Places in the window.
        size: The window's samples.
        length: Of its slices; the last may be shorter.
        key: Which orders.
    """
    slices = -(-size // length)
    last = size - (slices - 1) * length  # samples of the last slice
    in_all = offset < last * slices  # the rounds in which the last slice still takes part
    others = np.maximum(1, slices - 1)
    later = offset - last * slices
    rounds = np.where(in_all, offset // slices, last + later // others)
    turn = np.where(in_all, offset % slices, later % others)
    drawn = permute(turn, np.where(in_all, slices, others), mix(key, _TURNS, rounds))
    return drawn * length + rounds
