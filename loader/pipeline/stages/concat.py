"""Several datasets one after another."""

from __future__ import annotations

from typing import Any, TypeVar

from ..errors import ConfigError
from .lane import Lane
from .ref import Ref
from .stage import Running, SavableDataset, State
from .worker_config import WorkerConfig

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
            raise ConfigError("expected datasets", do="write ConcatDataset(first, second, …)")
        super().__init__(*datasets, worker_config=worker_config, name=name)
        for place, dataset in enumerate(datasets[:-1]):
            if dataset.repeats:
                raise ConfigError(
                    f"dataset {place} of {len(datasets)} repeats without end, so that those after it would never come",
                    do="build it by get_val_dataset() or with repeat=False, or blend the datasets",
                )

    @property
    def keeps_positions(self) -> bool:
        return all(source.keeps_positions for source in self.sources)

    @property
    def items(self) -> int | None:
        return _sum([source.items for source in self.sources])

    def lane_of(self, lane: Lane, place: int) -> Lane:
        """Give the lane as the ``place``-th dataset sees it.

        Where numbers of items are known, they are dealt to the lanes in turn; so that the first item of a dataset
        follows the last one of the dataset before, its lanes are taken from another one on.
        """
        child = lane.child(place)
        before = _sum([source.items for source in self.sources[:place]])
        child.number = (lane.number - (before or 0)) % lane.count
        return child

    def open(self, lane: Lane, state: State) -> Running:
        return _ConcatRunning(self, lane, state)


class _ConcatRunning:
    def __init__(self, definition: ConcatDataset[Any], lane: Lane, state: State) -> None:
        self._definition = definition
        self._lane = lane
        self._key = definition.key
        own = state.get(self._key, {"next": 0})
        self._place: int = own["next"]
        self._sources: dict[int, Running] = {}
        self._open(self._place, own.get(str(self._place), {}))

    def _open(self, place: int, state: State) -> Running:
        if place not in self._sources:
            lane = self._definition.lane_of(self._lane, place)
            self._sources[place] = self._definition.sources[place].open(lane, state)
        return self._sources[place]

    def next(self) -> tuple[Any, Ref]:
        while True:
            try:
                value, ref = self._open(self._place, {}).next()
            except StopIteration:
                if self._place == len(self._definition.sources) - 1:
                    raise
                self._sources.pop(self._place)
                self._place += 1
                # One that was opened to make an item again may have been asked for nothing, so it is at its start.
                continue
            return value, (self._key, self._place, ref)

    def state(self) -> State:
        return {self._key: {"next": self._place, str(self._place): self._sources[self._place].state()}}

    def load(self, ref: Ref) -> Any:
        _, place, inner = ref  # type: ignore[misc] # refs of this stage are tuples
        return self._open(place, {}).load(inner)


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
