"""Training without end: one source, or a blend of several by weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from .blend import BlendOrder, quantise_weights
from .blend_lanes import count_in_lanes, locate_in_lanes
from .source_order import SourceOrder, SourceOrders
from .stream_order import BlendedLane, check_lane, check_sources


@dataclass(frozen=True)
class RepeatedOrder:
    """Sources that repeat without end, blended by weight; each epoch of a source is partitioned over the lanes.

    Args:
        sources: At least one.
        weights: For each source, its share of the positions: above 0, in any unit.
        lanes: Number of lanes of the run; none is ever empty.
        seed: Seed of the run.

    Raises:
        ValueError: There is no source or lane, or not one weight for each source.

    >>> order = RepeatedOrder((SourceOrder(samples=6, slice_length=2),), (1.0,), lanes=1, seed=0)
    >>> source, epoch, sample = order.lane(0).locate(0, 6)
    >>> sorted(sample.tolist())
    [0, 1, 2, 3, 4, 5]
    """

    sources: tuple[SourceOrder, ...]
    weights: tuple[float, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        check_sources(self.sources, self.weights, self.lanes)

    @property
    def batches(self) -> None:
        """None, because the order is endless."""

    def lane(self, number: int) -> BlendedLane:
        """Return the stream of a lane."""
        check_lane(number, self.lanes)
        one = len(self.sources) == 1
        blend = None if one else BlendOrder(self._counts, lane=number, seed=self.seed)
        return BlendedLane(number, self._orders, blend, None)

    def locate_in_lanes(self, lane: IntArray, position: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the samples at positions of several lanes, at a fraction of the time that the lanes take one by one.

        Args:
            lane: Shape (m,); positions of a lane that follow one another are neighbours here.
            position: Shape (m,): the position in the stream of its lane.

        Returns:
            Sources, epochs and sample numbers, each of shape (m,).
        """
        if len(self.sources) == 1 or not len(lane):
            source = np.zeros(len(lane), np.int64)
            return source, *self._orders.locate(source, lane, position)
        starts = np.flatnonzero((np.diff(lane, prepend=-1) != 0) | (np.diff(position, prepend=-1) != 1))
        lengths = np.diff(starts, append=len(lane))
        first = position[starts]
        source, place = locate_in_lanes(
            self._counts, lane=lane[starts], start=first, stop=first + lengths, seed=self.seed
        )
        return source, *self._orders.locate(source, lane, place)

    def count(self, stops: IntArray) -> IntArray:
        """Return the number of samples of each source in the first positions of all lanes together.

        Args:
            stops: For each lane, the number of its positions that count; shape (lanes,).
        """
        if len(self.sources) == 1:
            return np.array([int(stops.sum())])
        return count_in_lanes(self._counts, stops=stops, seed=self.seed)

    @cached_property
    def _orders(self) -> SourceOrders:
        return SourceOrders(self.sources, self.lanes)

    @cached_property
    def _counts(self) -> IntArray:
        return quantise_weights(self.weights)
