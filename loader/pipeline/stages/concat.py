"""Concatenate datasets."""

from __future__ import annotations

from typing import Any, NotRequired

from ...errors import ConfigError
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import StageTraits
from ..contract.stage import Running, SavableDataset, State, T
from ..contract.state_schema import Schema, count_below, saved_dict
from ..contract.worker_config import WorkerConfig


class ConcatDataset(SavableDataset[T]):
    """Yield the items of one dataset after another, for validation.

    ``ConcatDataset([a, b], [c])`` yields ``a, b, c``. This is the order of the whole run if the number of micro-batches
    of each dataset is known in advance; otherwise it is the order within each lane.

    Args:
        datasets: The datasets; all but the last must be finite.
        worker_config: By default the first dataset's.

    Raises:
        ConfigError: No dataset is given, or a dataset before the last repeats without end.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> again = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> [sample.caption for sample in get_loader(ConcatDataset(photos, again))]
    ['a cat', 'a dog', 'two cats', 'a bird', 'a cat', 'a dog', 'two cats', 'a bird']
    """

    traits = StageTraits(one_to_one=True, nests_states=True, ends="with_inputs")

    def __init__(
        self, *datasets: SavableDataset[T], name: str | None = None, worker_config: WorkerConfig | None = None
    ) -> None:
        if not datasets or not all(isinstance(dataset, SavableDataset) for dataset in datasets):
            raise ConfigError("expected datasets", hint="pass them as ConcatDataset(first, second, …)")
        super().__init__(*datasets, worker_config=worker_config, name=name)
        for origin, dataset in enumerate(datasets[:-1]):
            if dataset.repeats:
                raise ConfigError(
                    f"dataset {origin} of {len(datasets)} repeats without end, so the later ones would never be read",
                    hint="build it by get_val_dataset() or with repeat=False, or blend the datasets",
                )

    @property
    def items(self) -> int | None:
        return _sum([upstream.items for upstream in self.inputs])

    def lane_of(self, lane: Lane, origin: int) -> Lane:
        """Return the lane for the ``origin``-th dataset.

        Items of a known number are dealt to the lanes in turn. The lanes of a dataset are rotated, so that its first
        item follows the last one of the dataset before it.
        """
        child = lane.child(origin, self.key)
        before = _sum([upstream.items for upstream in self.inputs[:origin]])
        child.number = (lane.number - (before or 0)) % lane.count
        return child

    @property
    def entry_schema(self) -> Schema:
        inner = {
            str(origin): NotRequired[saved_dict(**upstream.state_schema())]
            for origin, upstream in enumerate(self.inputs)
        }
        return saved_dict(next=count_below(len(self.inputs)), **inner)

    def open(self, lane: Lane, state: State) -> Running:
        return _ConcatRunning(self, lane, state)


class _ConcatRunning:
    def __init__(self, definition: ConcatDataset[Any], lane: Lane, state: State) -> None:
        self._definition = definition
        self._lane = lane
        self._key = definition.key
        entry = state.get(self._key, {"next": 0})
        self._place: int = entry["next"]
        self._saved: dict[int, State] = {int(origin): inner for origin, inner in entry.items() if origin != "next"}
        self._upstreams: dict[int, Running] = {}  # the present dataset, and later ones of which others took items
        self._ended: dict[int, Running] = {}  # to rebuild items
        self._open(self._place)
        if lane.neighbours is not None:
            lane.neighbours.add(lane.path, self)

    def _lane_of(self, origin: int) -> Lane:
        return self._definition.lane_of(self._lane, origin)

    def _open(self, origin: int) -> Running:
        if origin not in self._upstreams:
            upstream, state = self._definition.inputs[origin], self._saved.pop(origin, {})
            self._upstreams[origin] = upstream.open(self._lane_of(origin), state)
        return self._upstreams[origin]

    def reach(self, origin: int) -> None:
        if origin > self._place:
            self._open(origin)

    def next(self) -> tuple[Any, ItemId]:
        while True:
            try:
                value, item_id = self._open(self._place).next()
            except StopIteration:
                if self._place == len(self._definition.inputs) - 1:
                    raise
                # Free the dataset that has ended before the next one opens.
                self._upstreams.pop(self._place)
                self._place += 1
                self._open(self._place)
                continue
            return value, (self._key, self._place, item_id)

    def state(self) -> State:
        states = self._saved | {origin: upstream.state() for origin, upstream in self._upstreams.items()}
        return {self._key: {"next": self._place} | {str(origin): state for origin, state in sorted(states.items())}}

    def load(self, item_id: ItemId) -> Any:
        _, origin, inner = item_id  # type: ignore[misc] # ids of this stage are tuples
        if origin in self._upstreams:
            return self._upstreams[origin].load(inner)
        if origin not in self._ended:
            self._ended[origin] = self._definition.inputs[origin].open(self._lane_of(origin).alone(), {})
        return self._ended[origin].load(inner)


def _sum(numbers: list[int | None]) -> int | None:
    known = [length for length in numbers if length is not None]
    return sum(known) if len(known) == len(numbers) else None
