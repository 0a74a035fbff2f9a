"""The order of a source's samples in a lane, as a function: (source, lane, position) → (epoch, sample).

Each epoch permutes a source's slices of neighbouring samples and partitions them over the lanes. Within a lane, windows
of slices are permuted sample by sample. Both moves are bijections that are computed for single positions: nothing is
stored, nothing is stepped through, and any position costs the same. All functions take arrays of positions with the
source of each; the settings of the sources are arrays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from ..format.records.row_groups import RowGroupEnds
from .permutation import Words, extend, mix, permute
from .row_blocks import BlockShuffle

_Value = TypeVar("_Value", bound=np.generic)

WITH_REPLACEMENT = -1
"""The ``epochs_together`` that draws slices with replacement."""

SLICES_PER_LANE = 4
"""About the number of slices that each lane gets of a small source, which is cut so finely."""

_MIN_WINDOW_SLICES = 16
_MAX_EPOCHS_TOGETHER = 1 << 20  # bounds the positions of all epochs that are shuffled together; no run is longer

# Purposes of random numbers; each is hashed into the number's key.
_ROTATION, _SLICES, _WINDOW, _TURNS, _DRAWS, _ROW_GROUPS, _BLOCKS = 1, 2, 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOrder:
    """The settings that determine the order of a source.

    Attributes:
        samples: Number of samples, at least 1; excluded ones count, and are skipped at their turn.
        slice_length: Number of neighbouring samples that are read together, ``max_samples_per_sequence``.
        shuffle_buffer: Number of samples that are shuffled freely; with 0 or 1, slices interleave, and the samples of
            a slice stay in order.
        epochs_together: Number of epochs whose slices are permuted together, a million at most; -1 draws slices with
            replacement; None keeps the stored order: neither slices nor windows move, for any shuffle buffer.
        seed: Seed of the run and of the source's place in it.
        row_groups: The row groups of a table, in whose blocks samples are shuffled, instead of slices and windows; None
            for other sources.
    """

    samples: int
    slice_length: int
    shuffle_buffer: int = 0
    epochs_together: int | None = 1
    seed: int = 0
    row_groups: RowGroupEnds | None = field(default=None, repr=False)


class SourceOrders:
    """The orders of sources that repeat without end, over a fixed number of lanes.

    The samples of one or more epochs are partitioned over the lanes at a time: a cycle.
    """

    def __init__(self, sources: Sequence[SourceOrder], lanes: int) -> None:
        self.lanes = lanes
        self._shuffle = SourceShuffle(sources, lanes)
        samples, length = self._shuffle.samples, self._shuffle.slice_length
        # Samples that are permuted together; draws with replacement come in whole slices.
        drawn = -(-samples // length) * length
        self._group = np.where(self._shuffle.with_replacement, drawn, samples * self._shuffle.epochs_together)
        # A cycle of a small source has several groups, so that every lane gets samples; a single lane gets all.
        self._groups_per_cycle = -(-(SLICES_PER_LANE * lanes if lanes > 1 else 1) // self._group)

    def length(self, lane: int) -> IntArray:
        """Return the number of samples of each source that a lane gets in a cycle."""
        cycle_size = self._group * self._groups_per_cycle
        length: IntArray = cycle_size * (lane + 1) // self.lanes - cycle_size * lane // self.lanes
        return length

    def window_of(self, lane: int, position: int) -> tuple[int, int]:
        """Return the first position of a window of the first source's stream in a lane, and its end."""
        length, size = int(self.length(lane)[0]), int(self._shuffle.window[0])
        cycle, in_cycle = divmod(position, length)
        first = in_cycle - in_cycle % size
        return cycle * length + first, cycle * length + min(first + size, length)

    def locate(self, source: IntArray, lane: int | IntArray, position: IntArray) -> tuple[IntArray, IntArray]:
        """Return the samples at positions of a lane's streams.

        Args:
            source: Shape (m,): the source of each stream.
            position: Shape (m,): positions in that stream, from 0, without end.

        Returns:
            The epochs and the sample numbers, each of shape (m,).
        """
        together, group = take_by_source(self._shuffle.epochs_together, source), take_by_source(self._group, source)
        # A lane has a range of each cycle. Shuffle within the range, then within the group of epochs that it falls in.
        cycle_size = group * take_by_source(self._groups_per_cycle, source)
        start = cycle_size * lane // self.lanes
        length = cycle_size * (lane + 1) // self.lanes - start
        cycle, in_cycle = np.divmod(position, length)
        cycle = _collapse_if_equal(cycle)
        in_cycle = self._shuffle.within_window(source, lane, cycle, in_cycle, length)
        group_number, in_group = np.divmod(cycle * cycle_size + start + in_cycle, group)
        group_number = _collapse_if_equal(group_number)
        epoch, sample = self._shuffle.within_group(source, group_number, in_group, together)
        return group_number * together + epoch, sample


class SourceShuffle:
    """The two moves of samples: of slices within groups of epochs, and of samples within windows of slices.

    Attributes:
        samples: For each source, its number of samples.
        epochs_together: For each source, the number of epochs that are shuffled together.
        slice_length: For each source, the length of its slices.
        with_replacement: For each source, True if slices are drawn with replacement.
        window: For each source, the number of samples of a window.
    """

    def __init__(self, sources: Sequence[SourceOrder], lanes: int) -> None:
        self.samples = _column(source.samples for source in sources)
        self.epochs_together = np.maximum(
            1, _column(min(source.epochs_together or 1, _MAX_EPOCHS_TOGETHER) for source in sources)
        )
        # Small sources have shorter slices, so that each lane still gets some of them.
        fine = np.maximum(1, self.samples // (SLICES_PER_LANE * lanes))
        self.slice_length = np.minimum(_column(source.slice_length for source in sources), fine)
        self.with_replacement = np.array([source.epochs_together == WITH_REPLACEMENT for source in sources])
        self._is_unshuffled = np.array([source.epochs_together is None for source in sources])
        self._has_buffer = np.array([source.shuffle_buffer > 1 for source in sources])
        self._whole_slices = self.samples // self.slice_length  # of an epoch, without the short one
        # A window is a whole number of slices that holds the shuffle buffer.
        buffer = _column(source.shuffle_buffer for source in sources)
        self.window = np.maximum(_MIN_WINDOW_SLICES, -(-buffer // self.slice_length)) * self.slice_length
        # Windows, rotations and slices are permuted independently of each other.
        seed = mix(np.array([source.seed & 0xFFFFFFFFFFFFFFFF for source in sources], dtype=np.uint64))
        self._window_seed, self._rotation_seed, self._slice_seed = (
            mix(seed, purpose) for purpose in (_WINDOW, _ROTATION, _SLICES)
        )
        # Tables have blocks of row groups instead.
        self._tables = {
            row: BlockShuffle(
                source.row_groups,
                lanes,
                (mix(seed, _ROW_GROUPS)[row : row + 1], mix(seed, _BLOCKS)[row : row + 1]),
                has_buffer=source.shuffle_buffer > 1,
            )
            for row, source in enumerate(sources)
            if source.row_groups is not None
        }
        self._has_no_windows = self._is_unshuffled.copy()
        self._has_no_windows[[*self._tables]] = True

    def within_window(
        self, source: IntArray, lane: int | IntArray, cycle: IntArray, in_cycle: IntArray, length: IntArray
    ) -> IntArray:
        """Move samples within the windows of a lane.

        Args:
            cycle: The cycle in which the lane got the sample; a single one if it is the same for all.

        Returns:
            Places in the same cycles; all of shape (m,).
        """
        is_unshuffled = take_by_source(self._has_no_windows, source)
        if is_unshuffled.all():
            return in_cycle
        # Find the window, which is shorter at the end of the cycle.
        window = take_by_source(self.window, source)
        window_number, offset = np.divmod(in_cycle, window)
        start = in_cycle - offset
        size = np.minimum(window, length - start)
        # The permutation depends on source, lane, cycle and window. One lane for all positions needs one hash.
        if isinstance(lane, int):
            key = take_by_source(extend(self._window_seed, lane), source)
        else:
            key = extend(take_by_source(self._window_seed, source), lane)
        key = extend(key, cycle, window_number)
        # With a buffer, permute single samples; without one, interleave slices, which are read in order.
        shuffled = _where(
            take_by_source(self._has_buffer, source),
            lambda: permute(offset, size, key),
            lambda: _interleave_slices(offset, size, take_by_source(self.slice_length, source), key),
        )
        return np.where(is_unshuffled, offset, shuffled) + start

    def within_group(
        self, source: IntArray, group_number: IntArray, in_group: IntArray, together: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Permute the slices of groups of epochs.

        Args:
            group_number: The number of the group; draws with replacement have one epoch in a group. A single value if
                it is the same for all.

        Returns:
            The epochs, counted from the group's first, and the sample numbers; all of shape (m,).
        """
        is_unshuffled, moved = take_by_source(self._is_unshuffled, source), in_group
        if not is_unshuffled.all():
            shuffled = _where(
                take_by_source(self.with_replacement, source),
                lambda: self._drawn(source, group_number, in_group),
                lambda: self._permuted(source, group_number, in_group, together),
            )
            moved = np.where(is_unshuffled, in_group, shuffled)
        epoch, sample = np.divmod(moved, take_by_source(self.samples, source))
        # The samples of tables replace those of their slices.
        for row, table in self._tables.items():
            rows = np.flatnonzero(source == row)
            columns = (np.broadcast_to(values, source.shape)[rows] for values in (group_number, in_group, together))
            epoch[rows], sample[rows] = table.locate(*columns)
        return epoch, sample

    def _drawn(self, source: IntArray, group_number: IntArray, in_group: IntArray) -> IntArray:
        """Draw slices with replacement; a slice that passes the source's end continues at its start."""
        samples = take_by_source(self.samples, source)
        slice_number, offset = np.divmod(in_group, take_by_source(self.slice_length, source))
        key = extend(take_by_source(self._slice_seed, source), group_number)
        return (_below_wide(extend(mix(key), _DRAWS, slice_number), samples) + offset) % samples

    def _permuted(self, source: IntArray, group_number: IntArray, index: IntArray, together: IntArray) -> IntArray:
        """Permute a group's whole slices, append the short ones, and rotate the result."""
        samples, length, whole = (
            take_by_source(values, source) for values in (self.samples, self.slice_length, self._whole_slices)
        )
        # Rotate first, so that the short slices at the end of the group come at any position.
        group = samples * together
        rotation = _below_wide(extend(take_by_source(self._rotation_seed, source), group_number), group)
        index = (index + rotation) % group
        # Whole slices of all epochs are permuted together; the short ones follow.
        slices = whole * together
        in_whole = index < slices * length
        key = extend(take_by_source(self._slice_seed, source), group_number)

        def in_whole_slices() -> IntArray:
            slice_number, offset = np.divmod(np.where(in_whole, index, 0), length)
            moved = _permute_distinct(slice_number, np.maximum(1, slices), key)
            epoch, moved = np.divmod(moved, np.maximum(1, whole))
            moved_index: IntArray = epoch * samples + moved * length + offset
            return moved_index

        def in_short_slices() -> IntArray:
            long = whole * length
            epoch, offset = np.divmod(index - long * together, np.maximum(1, samples - long))
            moved_index: IntArray = epoch * samples + long + offset
            return moved_index

        return _where(in_whole, in_whole_slices, in_short_slices)


def _permute_distinct(position: IntArray, size: IntArray, key: Words) -> IntArray:
    """Call :func:`permute`; in a single permutation, compute each of many equal positions only once."""
    if len(size) == 1 and len(key) == 1:
        first, stop = int(position.min()), int(position.max()) + 1
        if stop - first < len(position):
            return permute(np.arange(first, stop), size, key)[position - first]
    return permute(position, size, key)


def take_by_source(values: npt.NDArray[_Value], source: IntArray) -> npt.NDArray[_Value]:
    """Return for each position the value of its source; with a single source, the array that broadcasts, at no cost."""
    return values if len(values) == 1 else values.take(source)


def _collapse_if_equal(values: IntArray) -> IntArray:
    """Return a single value if all are the same: results are then computed once and broadcast."""
    return values[:1] if len(values) and (values == values[0]).all() else values


def _where(condition: npt.NDArray[np.bool_], yes: Callable[[], IntArray], no: Callable[[], IntArray]) -> IntArray:
    """Select as ``np.where`` does, but compute only the branches that are needed."""
    if condition.all():
        return yes()
    return np.where(condition, yes(), no()) if condition.any() else no()


def _column(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def _below_wide(word: Words, bound: IntArray) -> IntArray:
    """Map words to ``[0, bound)`` for bounds up to 2^62; as even as 64 bits allow."""
    return (word % bound.astype(np.uint64)).astype(np.int64)


def _interleave_slices(offset: IntArray, size: IntArray, length: IntArray, key: Words) -> IntArray:
    """Interleave the slices of a window: one sample of each slice a round, in an order drawn for each round.

    Slices are counted here from the window's start. A lane's share and the rotation of an epoch begin at any sample, so
    such a slice has the end of one slice of the source and the start of another: its samples ascend but for one step.

    Args:
        length: Length of its slices; the last may be shorter.
    """
    slices = -(-size // length)
    last = size - (slices - 1) * length  # samples of the last slice
    in_all = offset < last * slices  # the rounds in which the last slice takes part
    others = np.maximum(1, slices - 1)
    later = offset - last * slices
    rounds = np.where(in_all, offset // slices, last + later // others)
    turn = np.where(in_all, offset % slices, later % others)
    drawn = permute(turn, np.where(in_all, slices, others), extend(mix(key), _TURNS, rounds))
    return drawn * length + rounds
