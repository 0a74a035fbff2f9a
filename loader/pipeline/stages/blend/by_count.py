"""Run a blend whose weights are shares of the items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....order import BlendOrder, quantise_weights
from ...contract.buffered import note_lost_item
from ...contract.item_id import ItemId
from ...contract.lane import Lane
from ...contract.stage import SKIPPED, SavableDataset, State

_CHUNK = 256


class BlendRunning:
    """Iterator of one lane.

    Args:
        inputs: The datasets by their origins.
        weights: Their weights, in the same order.
        key: Key of the stage in states and ids.
        lane: The lane.
        state: Its state.
    """

    def __init__(
        self,
        inputs: Mapping[int, SavableDataset[Any]],
        weights: Sequence[float],
        *,
        key: str,
        lane: Lane,
        state: State,
    ) -> None:
        self._key = key
        own = state.get(self._key, {})
        self._upstreams = {
            origin: upstream.open(lane.child(origin, key), own.get(str(origin), {}))
            for origin, upstream in inputs.items()
        }
        self._lane = lane
        self._origins = np.array([*inputs])
        self._counts = quantise_weights(weights)
        self._ended: list[int] = [origin for origin in own.get("ended", []) if origin in self._upstreams]
        self._next: int = own.get("next", 0)  # position in the blend of the datasets that have not ended
        self._plan()

    def _plan(self) -> None:
        counts = self._counts.copy()
        counts[np.isin(self._origins, self._ended)] = 0
        self._order = BlendOrder(counts, lane=self._lane.number, seed=self._lane.seed)
        self._next_origins: list[int] = []  # which dataset is next, from position _start on
        self._start = self._next

    def next(self) -> tuple[Any, ItemId]:
        """Return the next item and its id."""
        while len(self._ended) < len(self._upstreams):
            origin = self._origin()
            try:
                value, item_id = self._upstreams[origin].next()
            except StopIteration:
                self._ended.append(origin)
                self._next = 0
                self._plan()
                continue
            self._next += 1
            return value, (self._key, origin, item_id)
        raise StopIteration

    def _origin(self) -> int:
        row = self._next - self._start
        if row == len(self._next_origins):
            self._start = self._next
            self._next_origins = self._origins[self._order.locate(self._next, self._next + _CHUNK)[0]].tolist()
            row = 0
        return self._next_origins[row]

    def state(self) -> State:
        """Return the position in the blend, and the states of all inputs."""
        own: State = {"next": self._next}
        if self._ended:
            own["ended"] = list(self._ended)
        return {self._key: own | {str(origin): upstream.state() for origin, upstream in self._upstreams.items()}}

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item; :data:`SKIPPED` if its dataset is gone."""
        _, origin, inner = item_id  # type: ignore[misc] # ids of a blend are tuples
        upstream = self._upstreams.get(origin)
        if upstream is None:
            note_lost_item(self._lane)
            return SKIPPED
        return upstream.load(inner)
