"""Order the first samples of many readers of a lane at once.

The order of a few samples takes as long as that of a thousand: calls of numpy. A blend that counts volumes has a reader
for each of its datasets, and opens it when its first sample is due. So the first of these readers orders for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...order import SourceOrders
from ..contract.lane import Lane, child_seed
from ..contract.running import State
from .order_plan import ShuffledPlan
from .source import Source

__all__ = ["OrderedTogether", "ReaderPlace"]

_MAX_POSITIONS, _MIN_EACH, _MAX_EACH = 1 << 14, 4, 128


class ReaderPlace:
    """A reader below a blend.

    Args:
        steps: The key and the input's number of each blend on the way, from the outermost.
        key: Key of the reader in states.
        plan: Its order.
        source: Its only dataset.
    """

    def __init__(self, steps: Sequence[tuple[str, int]], key: str, plan: ShuffledPlan, source: Source) -> None:
        self.steps = tuple(steps)
        self.key = key
        self.plan = plan
        self.source = source

    @property
    def path(self) -> str:
        """The path of its lane, below that of the outermost blend."""
        return "".join(f"{number}/" for _, number in self.steps)

    def position(self, state: State) -> int:
        """Return its position in the state of a lane."""
        for key, number in self.steps:
            state = state.get(key, {}).get(str(number), {})
        found: int = state.get(self.key, 0)
        return found

    def seed(self, seed: int) -> int:
        """Return the seed of its lane, from that of the outermost blend."""
        for _, number in self.steps:
            seed = child_seed(seed, number)
        return seed


class OrderedTogether:
    """Readers below a blend whose first samples are ordered together.

    Args:
        places: The readers.
    """

    def __init__(self, places: Sequence[ReaderPlace]) -> None:
        self._places = tuple(places)

    def begin(self, lane: Lane, state: State) -> None:
        """Note that the outermost blend is opened for a lane."""
        lane.shared[_LaneOrders] = _LaneOrders(self._places, lane, state)

    @staticmethod
    def take(lane: Lane, position: int) -> tuple[IntArray, IntArray] | None:
        """Return the epochs and numbers of the first samples of a reader from a position on; None if not known.

        Args:
            lane: The lane of the reader.
            position: Its position.
        """
        orders: _LaneOrders | None = lane.shared.get(_LaneOrders)
        return None if orders is None else orders.take(lane.path, position)


class _LaneOrders:
    def __init__(self, places: Sequence[ReaderPlace], lane: Lane, state: State) -> None:
        self._places = places
        self._lane = (lane.number, lane.count, lane.seed, lane.path)
        self._state: State | None = state
        self._found: dict[str, tuple[int, IntArray, IntArray]] = {}  # path → first position, epochs and samples from it

    def take(self, path: str, position: int) -> tuple[IntArray, IntArray] | None:
        if self._state is not None:
            self._order(self._state)
            self._state = None
        start, *found = self._found.pop(path, (-1,))
        return (found[0], found[1]) if start == position else None

    def _order(self, state: State) -> None:
        number, lanes, seed, path = self._lane
        orders: list[Any] = [place.plan.source_order(place.source.samples, place.seed(seed)) for place in self._places]
        each = min(_MAX_EACH, max(_MIN_EACH, _MAX_POSITIONS // len(orders)))
        starts = np.array([place.position(state) for place in self._places])
        source = np.repeat(np.arange(len(orders)), each)
        positions = (starts[:, None] + np.arange(each)).ravel()
        epochs, samples = SourceOrders(tuple(orders), lanes).locate(source, number, positions)
        rows = zip(epochs.reshape(-1, each), samples.reshape(-1, each), strict=True)
        for place, start, row in zip(self._places, starts.tolist(), rows, strict=True):
            self._found[path + place.path] = (start, *row)
