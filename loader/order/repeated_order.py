"""Training without end: one leaf, or a blend of several by weight."""

from __future__ import annotations

from dataclasses import dataclass

from ..cached_property import cached_property
from .blend import BlendOrder, quantise_weights
from .blended_lane import BlendedLane, check_leaves
from .leaf_order import LeafOrder, LeafOrders
from .leaf_shuffle import Integers
from .stream_order import check_lane

__all__ = ["RepeatedOrder"]


@dataclass(frozen=True)
class RepeatedOrder:
    """Leaves that repeat for ever, blended by weight; each leaf is dealt to the lanes anew in each of its epochs.

    Args:
        leaves: At least one.
        weights: For each leaf, its share of the positions: above 0, in any unit.
        lanes: The lanes of the run; none is ever empty.
        seed: Of the run.

    Raises:
        ValueError: There is no leaf or lane, or not one weight for each leaf.

    >>> order = RepeatedOrder((LeafOrder(samples=6, slice_length=2),), (1.0,), lanes=1, seed=0)
    >>> leaf, epoch, sample = order.lane(0).locate(0, 6)
    >>> sorted(sample.tolist())
    [0, 1, 2, 3, 4, 5]
    """

    leaves: tuple[LeafOrder, ...]
    weights: tuple[float, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        check_leaves(self.leaves, self.weights, self.lanes)

    @property
    def batches(self) -> None:
        """None: there is no end."""

    def lane(self, number: int) -> BlendedLane:
        """Give the stream of a lane."""
        check_lane(number, self.lanes)
        one = len(self.leaves) == 1
        blend = None if one else BlendOrder(self._counts, lane=number, seed=self.seed)
        return BlendedLane(number, self._orders, blend, None)

    @cached_property
    def _orders(self) -> LeafOrders:
        return LeafOrders(self.leaves, self.lanes)

    @cached_property
    def _counts(self) -> Integers:
        return quantise_weights(self.weights)
