"""The interface of an order: each lane is a stream of samples, of which any range can be located."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ..arrays import IntArray
from .blend import BLOCK, BlendOrder
from .source_order import SourceOrder, SourceOrders

_MAX_SPAN = 1 << 16  # positions that are located together, which bounds the memory

Located = tuple[IntArray, IntArray, IntArray]
"""The source, the epoch and the sample number at each position, all of shape (positions,)."""


class LaneOrder(Protocol):
    """One lane's stream of samples."""

    @property
    def length(self) -> int | None:
        """Number of samples of the lane in the pass; None for an endless order."""

    def locate(self, start: int, stop: int) -> Located:
        """Return the samples at the positions ``[start, stop)`` of the lane's stream.

        Raises:
            ValueError: Not ``0 <= start <= stop <= length``.
        """


class StreamOrder(Protocol):
    """The streams of all lanes of a run: frozen, compared by value, picklable, and opened at a constant cost."""

    @property
    def lanes(self) -> int:
        """Number of lanes of the run, L."""

    @property
    def batches(self) -> int | None:
        """Number of micro-batches of a pass if it is known ahead (a ``PrebatchedPass``); else None."""

    def lane(self, number: int) -> LaneOrder:
        """Return the stream of a lane in ``[0, lanes)``."""


class SourceStreams(Protocol):
    """The streams of all sources in all lanes."""

    def locate(self, source: IntArray, lane: int, position: IntArray) -> tuple[IntArray, IntArray]:
        """Return the epochs and the sample numbers at positions of a lane's streams; all of shape (m,)."""


class BlendedLane:
    """The stream of a lane: the blend selects the sources, and their streams the samples.

    Args:
        number: Number of the lane.
        streams: The sources' streams.
        blend: The blend; None for a single source.
        length: Number of samples of the pass in this lane; None for an endless order.
    """

    def __init__(self, number: int, streams: SourceStreams, blend: BlendOrder | None, length: int | None) -> None:
        self._number = number
        self._streams = streams
        self._blend = blend
        self._length = length

    @property
    def length(self) -> int | None:
        return self._length

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self._length)
        if self._blend is None:
            source, position = np.zeros(stop - start, dtype=np.int64), np.arange(start, stop)
        else:
            source, position = self._blend.locate(start, stop)
        return source, *self._streams.locate(source, self._number, position)

    def window_of(self, position: int) -> tuple[int, int] | None:
        """Return the first position and the end of the window at a position; None if windows of sources interleave.

        The samples of a window are those of some whole slices: neighbours in their shards.
        """
        if self._blend is not None or not isinstance(self._streams, SourceOrders):
            return None
        return self._streams.window_of(self._number, position)

    def locate_at(self, place: IntArray) -> Located:
        """Return the samples at some positions of the lane's stream, in ascending order; shape (m,)."""
        if self._blend is None or not len(place):
            source = np.zeros(len(place), dtype=np.int64)
            return source, *self._streams.locate(source, self._number, place)
        source, position = locate_scattered(place, self._blend.locate)
        return source, *self._streams.locate(source, self._number, position)


def locate_scattered(
    place: IntArray, locate: Callable[[int, int], tuple[IntArray, IntArray]]
) -> tuple[IntArray, IntArray]:
    """Return what ``locate(start, stop)`` of a blend gives for some positions, in ascending order; at least one.

    Positions of neighbouring blocks are located together, since a blend permutes whole blocks.
    """
    cuts = np.flatnonzero((np.diff(place) > BLOCK) | (np.diff(place // _MAX_SPAN) > 0)) + 1
    parts = [
        [column[run - run[0]] for column in locate(int(run[0]), int(run[-1]) + 1)] for run in np.split(place, cuts)
    ]
    source, position = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return source, position


def check_range(start: int, stop: int, length: int | None) -> None:
    """Check that a lane has a range of positions.

    Raises:
        ValueError: Not ``0 <= start <= stop <= length``.
    """
    if not 0 <= start <= stop or (length is not None and stop > length):
        limit = "" if length is None else f" <= {length}"
        raise ValueError(f"expected 0 <= start <= stop{limit}, found [{start}, {stop})")


def check_lane(number: int, lanes: int) -> None:
    """Check that a run has a lane.

    Raises:
        ValueError: Not ``0 <= number < lanes``.
    """
    if not 0 <= number < lanes:
        raise ValueError(f"expected a lane in [0, {lanes}), found {number}")


def check_sources(sources: Sequence[SourceOrder], shares: Sequence[float], lanes: int) -> None:
    """Check the sources of an order, and their weights or repetitions.

    Raises:
        ValueError: There is no lane or source, a source has no samples, or not every source has one share above 0.
    """
    if lanes < 1:
        raise ValueError(f"expected at least 1 lane, found {lanes}")
    if not sources or len(sources) != len(shares):
        raise ValueError(f"expected sources and a number for each, found {len(sources)} and {len(shares)}")
    if min(source.samples for source in sources) < 1 or min(source.slice_length for source in sources) < 1:
        raise ValueError("expected sources of at least 1 sample, in slices of at least 1")
    shares_array = np.asarray(shares, dtype=np.float64)
    if not (np.isfinite(shares_array).all() and (shares_array > 0).all()):
        raise ValueError(f"expected numbers above 0, found {list(shares)}")
