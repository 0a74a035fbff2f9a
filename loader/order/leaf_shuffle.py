"""Where samples move within a leaf: slices over groups of epochs, and single samples within windows of slices.

Both moves are bijections that are computed for single places, for many leaves at once: the leaves' parameters are
arrays, and each place names its leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from .mixing import Words, extend, mix
from .permutation import permute

__all__ = ["WITH_REPLACEMENT", "Integers", "LeafOrder", "LeafShuffle", "of_leaf", "one_for_all"]

Integers = npt.NDArray[np.int64]

_Value = TypeVar("_Value", bound=np.generic)

WITH_REPLACEMENT = -1
"""The ``epochs_together`` that draws slices with replacement."""

SLICES_A_LANE = 4
"""A small leaf is cut so finely that each lane gets about this many slices."""

_MIN_WINDOW_SLICES = 16

_MOST_TOGETHER = 1 << 20
"""So that the positions of all epochs that are shuffled together can be counted; nothing is trained on for longer."""

# What a random number is for; part of its name.
_ROTATION, _SLICES, _WINDOW, _TURNS, _DRAWS = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafOrder:
    """What decides the order of a leaf.

    Attributes:
        samples: Its number of samples, at least 1; excluded ones count, and are skipped at their turn.
        slice_length: Neighbouring samples that are read together, ``max_samples_per_sequence``.
        shuffle_buffer: Samples among which shuffling is as good as free; 0 or 1: slices interleave, and samples of
            one slice keep their order.
        epochs_together: Epochs whose slices are permuted together, a million at most; -1 draws slices with
            replacement; None keeps the order in which the samples lie: neither slices nor windows move then, whatever
            the shuffle buffer.
        seed: Of the run and of the leaf's place in it.
    """

    samples: int
    slice_length: int
    shuffle_buffer: int = 0
    epochs_together: int | None = 1
    seed: int = 0


class LeafShuffle:
    """The moves of some leaves' samples.

    Args:
        leaves: At least one.
        lanes: The lanes of the run.

    Attributes:
        samples: For each leaf, its number of samples.
        together: For each leaf, the epochs that are shuffled together.
        slice: For each leaf, the length of its slices.
        is_drawn: For each leaf, whether slices are drawn with replacement.
    """

    def __init__(self, leaves: Sequence[LeafOrder], lanes: int) -> None:
        self.samples = _column(leaf.samples for leaf in leaves)
        self.together = np.maximum(1, _column(min(leaf.epochs_together or 1, _MOST_TOGETHER) for leaf in leaves))
        fine = np.maximum(1, self.samples // (SLICES_A_LANE * lanes))
        self.slice = np.minimum(_column(leaf.slice_length for leaf in leaves), fine)
        self.is_drawn = np.array([leaf.epochs_together == WITH_REPLACEMENT for leaf in leaves])
        self._is_kept = np.array([leaf.epochs_together is None for leaf in leaves])
        self._is_mixed = np.array([leaf.shuffle_buffer > 1 for leaf in leaves])  # sample by sample within a window
        self._whole = self.samples // self.slice  # slices of an epoch that are not short
        buffer = _column(leaf.shuffle_buffer for leaf in leaves)
        self._window = np.maximum(_MIN_WINDOW_SLICES, -(-buffer // self.slice)) * self.slice
        seed = mix(np.array([leaf.seed & 0xFFFFFFFFFFFFFFFF for leaf in leaves], dtype=np.uint64))
        self._window_seed, self._rotation_seed, self._slice_seed = (
            mix(seed, purpose) for purpose in (_WINDOW, _ROTATION, _SLICES)
        )

    def within_window(self, leaf: Integers, lane: int, deal: Integers, place: Integers, length: Integers) -> Integers:
        """Move samples about within the windows of a lane.

        Args:
            leaf: Which leaf's.
            lane: The lane.
            deal: Which of the leaf's deals; one where it is the same for all.
            place: Where in what the lane got in that deal.
            length: How many samples it got.

        Returns:
            Places of the same deals; all of shape (m,).
        """
        is_kept = of_leaf(self._is_kept, leaf)
        if is_kept.all():
            return place
        window = of_leaf(self._window, leaf)
        number, offset = np.divmod(place, window)
        start = place - offset
        size = np.minimum(window, length - start)
        key = extend(of_leaf(extend(self._window_seed, lane), leaf), deal, number)
        shuffled = _choose(
            of_leaf(self._is_mixed, leaf),
            lambda: permute(offset, size, key),
            lambda: _take_in_turn(offset, size, of_leaf(self.slice, leaf), key),
        )
        return np.where(is_kept, offset, shuffled) + start

    def within_group(
        self, leaf: Integers, number: Integers, place: Integers, together: Integers
    ) -> tuple[Integers, Integers]:
        """Permute the slices of groups of epochs.

        Args:
            leaf: Which leaf's.
            number: Which group; for draws with replacement, as much as one epoch. One where it is the same for all.
            place: Where in the group.
            together: How many epochs the group has.

        Returns:
            The epochs, counted from the group's first, and the sample numbers; all of shape (m,).
        """
        is_kept = of_leaf(self._is_kept, leaf)
        if not is_kept.all():
            shuffled = _choose(
                of_leaf(self.is_drawn, leaf),
                lambda: self._drawn(leaf, number, place),
                lambda: self._permuted(leaf, number, place, together),
            )
            place = np.where(is_kept, place, shuffled)
        return np.divmod(place, of_leaf(self.samples, leaf))

    def _drawn(self, leaf: Integers, number: Integers, place: Integers) -> Integers:
        """Draw slices with replacement, which may go on at the leaf's start."""
        samples = of_leaf(self.samples, leaf)
        slice_number, offset = np.divmod(place, of_leaf(self.slice, leaf))
        key = extend(of_leaf(self._slice_seed, leaf), number)
        drawn: Integers = (_wide_below(extend(mix(key), _DRAWS, slice_number), samples) + offset) % samples
        return drawn

    def _permuted(self, leaf: Integers, number: Integers, place: Integers, together: Integers) -> Integers:
        """Permute a group's whole slices, with the short ones behind them, and rotate it all."""
        samples, length, whole = (of_leaf(values, leaf) for values in (self.samples, self.slice, self._whole))
        group = samples * together
        place = (place + _wide_below(extend(of_leaf(self._rotation_seed, leaf), number), group)) % group
        slices = whole * together
        in_whole = place < slices * length
        key = extend(of_leaf(self._slice_seed, leaf), number)

        def in_whole_slices() -> Integers:
            slice_number, offset = np.divmod(np.where(in_whole, place, 0), length)
            moved = _permute_once(slice_number, np.maximum(1, slices), key)
            epoch, moved = np.divmod(moved, np.maximum(1, whole))
            found: Integers = epoch * samples + moved * length + offset
            return found

        def in_short_slices() -> Integers:
            long = whole * length
            epoch, offset = np.divmod(place - long * together, np.maximum(1, samples - long))
            found: Integers = epoch * samples + long + offset
            return found

        return _choose(in_whole, in_whole_slices, in_short_slices)


def _permute_once(position: Integers, size: Integers, key: Words) -> Integers:
    """Do as :func:`permute`; of many equal positions of one permutation, each is moved only once."""
    if len(size) == 1 and len(key) == 1:
        first, stop = int(position.min()), int(position.max()) + 1
        if stop - first < len(position):
            moved: Integers = permute(np.arange(first, stop), size, key)[position - first]
            return moved
    return permute(position, size, key)


def of_leaf(values: npt.NDArray[_Value], leaf: Integers) -> npt.NDArray[_Value]:
    """Give each position the value of its leaf; a single leaf's broadcasts, at no cost."""
    return values if len(values) == 1 else values.take(leaf)


def one_for_all(values: Integers) -> Integers:
    """Give one value where all are the same: what is computed of it is then computed once, and broadcasts."""
    return values[:1] if len(values) and (values == values[0]).all() else values


def _choose(condition: npt.NDArray[np.bool_], yes: Callable[[], Integers], no: Callable[[], Integers]) -> Integers:
    """Do as ``np.where``, but compute only what some position needs."""
    if condition.all():
        return yes()
    return np.where(condition, yes(), no()) if condition.any() else no()


def _column(values: Iterable[int]) -> Integers:
    return np.fromiter(values, dtype=np.int64)


def _wide_below(word: Words, bound: Integers) -> Integers:
    """Map words to ``[0, bound)`` for bounds up to 2^62; as even as 64 bits allow."""
    return (word % bound.astype(np.uint64)).astype(np.int64)


def _take_in_turn(offset: Integers, size: Integers, length: Integers, key: Words) -> Integers:
    """Interleave the slices of a window: one sample of each slice a round, in an order drawn for each round.

    A slice is here as many places as one has samples, counted from the window's start. Where a lane's share begins and
    how an epoch is rotated are not multiples of that, so it holds the end of one slice of the leaf and the start of
    another: within it samples ascend, but for one step.

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
    drawn = permute(turn, np.where(in_all, slices, others), extend(mix(key), _TURNS, rounds))
    return drawn * length + rounds
