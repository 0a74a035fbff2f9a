"""Several datasets one after another."""

from __future__ import annotations

from typing import Any, TypeVar

from ...errors import ConfigError
from ..contract.lane import ItemId, Lane
from ..contract.stage import Running, SavableDataset, State
from ..contract.state_schema import Count, NotRequired, Schema
from ..contract.worker_config import WorkerConfig

__all__ = ["ConcatDataset"]

T = TypeVar("T")


class ConcatDataset(SavableDataset[T]):
    """Give the items of several datasets, one dataset after another: for validation.

    ``ConcatDataset([a, b], [c])`` gives ``a, b, c``: in this order on the whole where it is known how many
    micro-batches each dataset has, else in each lane.

    Args:
        datasets: All but the last must come to an end.
        worker_config: By default the first dataset's.

    Raises:
        ConfigError: There is no dataset, or one that others follow repeats without end.
    """

    def __init__(
        self, *datasets: SavableDataset[T], name: str | None = None, worker_config: WorkerConfig | None = None
    ) -> None:
        if not datasets or not all(isinstance(dataset, SavableDataset) for dataset in datasets):
            raise ConfigError("expected datasets", hint="write ConcatDataset(first, second, …)")
        super().__init__(*datasets, worker_config=worker_config, name=name)
        for place, dataset in enumerate(datasets[:-1]):
            if dataset.repeats:
                raise ConfigError(
                    f"dataset {place} of {len(datasets)} repeats without end, so that those after it would never come",
                    hint="build it by get_val_dataset() or with repeat=False, or blend the datasets",
                )

    @property
    def keeps_positions(self) -> bool:
        return all(upstream.keeps_positions for upstream in self.inputs)

    @property
    def items(self) -> int | None:
        return _sum([upstream.items for upstream in self.inputs])

    def lane_of(self, lane: Lane, place: int) -> Lane:
        """Give the lane as the ``place``-th dataset sees it.

        Where numbers of items are known, they are dealt to the lanes in turn; so that the first item of a dataset
        follows the last one of the dataset before, its lanes are taken from another one on.
        """
        child = lane.child(place)
        before = _sum([upstream.items for upstream in self.inputs[:place]])
        child.number = (lane.number - (before or 0)) % lane.count
        return child

    def state_schema(self) -> dict[str, Schema]:
        inner = {str(place): NotRequired(upstream.state_schema()) for place, upstream in enumerate(self.inputs)}
        return {self.key: NotRequired({"next": Count(len(self.inputs))} | inner)}

    def open(self, lane: Lane, state: State) -> Running:
        return _ConcatRunning(self, lane, state)


class _ConcatRunning:
    def __init__(self, definition: ConcatDataset[Any], lane: Lane, state: State) -> None:
        self._definition = definition
        self._lane = lane
        self._key = definition.key
        own = state.get(self._key, {"next": 0})
        self._place: int = own["next"]
        self._upstreams: dict[int, Running] = {}
        self._open(self._place, own.get(str(self._place), {}))

    def _open(self, place: int, state: State) -> Running:
        if place not in self._upstreams:
            lane = self._definition.lane_of(self._lane, place)
            self._upstreams[place] = self._definition.inputs[place].open(lane, state)
        return self._upstreams[place]

    def next(self) -> tuple[Any, ItemId]:
        while True:
            try:
                value, item_id = self._open(self._place, {}).next()
            except StopIteration:
                if self._place == len(self._definition.inputs) - 1:
                    raise
                self._upstreams.pop(self._place)
                self._place += 1
                # One that was opened to make an item again may have been asked for nothing, so it is at its start.
                continue
            return value, (self._key, self._place, item_id)

    def state(self) -> State:
        return {self._key: {"next": self._place, str(self._place): self._upstreams[self._place].state()}}

    def load(self, item_id: ItemId) -> Any:
        _, place, inner = item_id  # type: ignore[misc] # refs of this stage are tuples
        return self._open(place, {}).load(inner)


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
