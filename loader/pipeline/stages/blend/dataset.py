"""Blend datasets by weight."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from typing import Any, TypeVar

import numpy as np

from ...errors import ConfigError
from ...order import BlendOrder, quantise_weights
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..contract.state_schema import COUNT, Count, NotRequired, Schema
from ..contract.worker_config import WorkerConfig

__all__ = ["BlendDataset", "datasets_and_weights"]

T = TypeVar("T")

_CHUNK = 256


class BlendDataset(SavableDataset[T]):
    """Blend datasets by weight.

    ``BlendDataset((a, 2), (b, 1))`` yields two items of ``a`` for each of ``b``, evenly spread; a tuple of the pairs
    works as well. If the datasets yield batches, whole batches are blended. When a dataset ends, the others continue
    with their weights until all have ended.

    Args:
        dataset_weights: Pairs of a dataset and its weight: above 0, in any unit.
        worker_config: By default the first dataset's.

    Attributes:
        origins: For each dataset, the number that identifies it in keys and states, and seeds its order: its place,
            unless the run was restored with other datasets.

    Raises:
        ConfigError: No dataset is given, or a weight is not above 0.
    """

    origins: Sequence[int]

    def __init__(
        self, *dataset_weights: Any, name: str | None = None, worker_config: WorkerConfig | None = None
    ) -> None:
        datasets, weights = datasets_and_weights(dataset_weights)
        super().__init__(*datasets, worker_config=worker_config, name=name)
        self.weights = weights
        self.origins = range(len(datasets))

    @property
    def dataset_weights(self) -> tuple[tuple[SavableDataset[T], float], ...]:
        """Pairs of a dataset and its weight."""
        return tuple(zip(self.inputs, self.weights, strict=True))

    @property
    def drains_worker(self) -> bool:
        return all(upstream.drains_worker for upstream in self.inputs)

    @property
    def round_samples(self) -> int:
        total = sum(self.weights)
        rounds = [
            upstream.round_samples * total / weight for upstream, weight in zip(self.inputs, self.weights, strict=True)
        ]
        return ceil(max(rounds))

    def settings(self) -> dict[str, Any]:
        return {"weights": list(self.weights)}

    def state_schema(self) -> dict[str, Schema]:
        inner = {
            str(origin): NotRequired(upstream.state_schema())
            for origin, upstream in zip(self.origins, self.inputs, strict=True)
        }
        # In a restored run, datasets that had ended may be gone.
        ended = NotRequired([Count(len(self.origins)) if isinstance(self.origins, range) else COUNT])
        return {self.key: NotRequired({"next": COUNT, "ended": ended} | inner)}

    def open(self, lane: Lane, state: State) -> Running:
        return _BlendRunning(self, lane, state)


class _BlendRunning:
    def __init__(self, definition: BlendDataset[Any], lane: Lane, state: State) -> None:
        self._key = definition.key
        own = state.get(self._key, {})
        self._upstreams = {
            origin: upstream.open(lane.child(origin), own.get(str(origin), {}))
            for origin, upstream in zip(definition.origins, definition.inputs, strict=True)
        }
        self._lane = lane
        self._origins = np.array(definition.origins)
        self._counts = quantise_weights(definition.weights)
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
        own: State = {"next": self._next}
        if self._ended:
            own["ended"] = list(self._ended)
        return {self._key: own | {str(origin): upstream.state() for origin, upstream in self._upstreams.items()}}

    def load(self, item_id: ItemId) -> Any:
        _, origin, inner = item_id  # type: ignore[misc] # ids of a blend are tuples
        upstream = self._upstreams.get(origin)
        return SKIPPED if upstream is None else upstream.load(inner)


def datasets_and_weights(pairs: Sequence[Any]) -> tuple[tuple[SavableDataset[Any], ...], tuple[float, ...]]:
    """Read ``(dataset, weight), …``, or one sequence of such pairs.

    Raises:
        ConfigError: The arguments are of another form, or a weight is not above 0.
    """
    if len(pairs) == 1 and not (isinstance(pairs[0], Sequence) and _is_pair(pairs[0])):
        pairs = pairs[0] if isinstance(pairs[0], Sequence) else list(pairs)
    if not pairs or not all(isinstance(pair, Sequence) and _is_pair(pair) for pair in pairs):
        raise ConfigError(
            "expected datasets with their weights",
            hint="pass (dataset, weight), (dataset, weight), …; weights are numbers",
        )
    weights = tuple(float(weight) for _, weight in pairs)
    if not all(isfinite(weight) and weight > 0 for weight in weights):
        raise ConfigError(f"expected weights above 0, found {list(weights)}", hint="omit the datasets without weight")
    return tuple(dataset for dataset, _ in pairs), weights


def _is_pair(pair: Sequence[Any]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], SavableDataset) and isinstance(pair[1], int | float | np.number)
