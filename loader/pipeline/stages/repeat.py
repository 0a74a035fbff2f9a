"""Repeat a finite dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self, TypeVar

from ...errors import ConfigError
from ..contract.lane import ItemId, Lane
from ..contract.rank_stage import RankInput, RankRunning, RankStage, rank_stage_below
from ..contract.stage import Running, SavableDataset, State
from ..contract.state_schema import COUNT, NotRequired, Schema
from ..contract.worker_config import WorkerConfig
from .epochize import EpochizeDataset

__all__ = ["RepeatDataset"]

T = TypeVar("T")

_MAX_EMPTY = 1000
"""Consecutive empty passes of a lane after which the lane ends. A dataset with fewer samples than lanes deals them to
other lanes in each pass, so some empty passes are normal."""


class RepeatDataset(SavableDataset[T]):
    """Repeat a dataset a number of times, or without end.

    ``RepeatDataset([a, b], repeats=2)`` yields ``a, b, a, b``. Each pass of a shuffled dataset has a different order.
    Above a virtual epoch or a limit, the virtual epoch or the limited pass is repeated.

    Args:
        dataset: The stage below.
        repeats: Number of passes; ``1.5`` adds half a pass, if the length of a pass is known. None: without end.
        restart: Accepted for scripts that pass it, and ignored: the iteration after the last pass always starts over.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``repeats`` is below 0, or it is not whole and the length of a pass is not known.
    """

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        dataset = arguments[0] if arguments else named.get("dataset")
        if cls is RepeatDataset and isinstance(dataset, SavableDataset) and rank_stage_below(dataset) is not None:
            return super().__new__(_RankRepeatDataset)  # type: ignore[return-value]
        return super().__new__(cls)

    def __init__(
        self,
        dataset: SavableDataset[T],
        *,
        repeats: float | None = None,
        restart: bool = True,  # noqa: ARG002 - documented to have no effect
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="repeat")
        if repeats is not None and not 0 <= repeats < float("inf"):
            raise ConfigError(f"expected repeats of at least 0, or None, found {repeats}")
        if repeats is not None and repeats % 1 and not self._length_is_known(dataset):
            raise ConfigError(
                f"expected a whole number of repeats, found {repeats}: the length of a pass is not known in advance",
                hint="pass a whole number, or None to repeat without end",
            )
        self.times = repeats

    def _length_is_known(self, dataset: SavableDataset[T]) -> bool:
        return dataset.items is not None

    @property
    def repeats(self) -> bool:
        return self.times is None or super().repeats

    @property
    def starts_over(self) -> bool:
        return self.times is not None and super().starts_over

    @property
    def keeps_positions(self) -> bool:
        return self.times is not None and self.inputs[0].keeps_positions

    @property
    def items(self) -> int | None:
        items = self.inputs[0].items
        return None if items is None or self.times is None else round(items * self.times)

    def nominal_items(self, worker: int, workers: int) -> int:
        return int(super().nominal_items(worker, workers) * (1 if self.times is None else self.times))

    def settings(self) -> dict[str, Any]:
        return {"repeats": self.times}

    def lane_of(self, lane: Lane, number: int) -> Lane:
        """Return the lane for pass ``number``: with another seed, and rotated so that passes join without a gap.

        The lanes of a pass end alone, so that the sequence of passes does not depend on the hosts of the lanes.
        """
        child = lane.child(number)
        child.neighbours = None
        child.number = (lane.number - number * (self.inputs[0].items or 0)) % lane.count
        return child

    def state_schema(self) -> dict[str, Schema]:
        inner = self.inputs[0].state_schema()
        return {self.key: NotRequired({"next": COUNT, "taken": COUNT, "source": inner})}

    def open(self, lane: Lane, state: State) -> Running:
        return _RepeatRunning(self, lane, state)


class _RepeatRunning:
    def __init__(self, definition: RepeatDataset[Any], lane: Lane, state: State) -> None:
        self._definition = definition
        self._lane = lane
        self._key = definition.key
        own = state.get(self._key, {"next": 0, "taken": 0, "source": {}})
        self._pass: int = own["next"]
        self._taken: int = own["taken"]  # items of the pass
        self._running = self._open(self._pass, own["source"])
        self._empty = 0  # consecutive empty passes
        same = definition.inputs[0].starts_over and definition.inputs[0].items is None
        self._max_empty = 1 if same else max(_MAX_EMPTY, lane.count)
        self._other: tuple[int, Running] | None = None  # another pass, which the last load opened

    def _open(self, number: int, state: State) -> Running:
        return self._definition.inputs[0].open(self._definition.lane_of(self._lane, number), state)

    def next(self) -> tuple[Any, ItemId]:
        while self._empty < self._max_empty:
            remaining = self._remaining()
            if remaining is not None and remaining <= 0:
                raise StopIteration
            try:
                value, item_id = self._running.next()
            except StopIteration:
                self._next_pass()
                continue
            self._taken += 1
            self._empty = 0
            return value, (self._key, self._pass, item_id)
        raise StopIteration

    def _remaining(self) -> int | None:
        """Return the number of items that the pass may still yield; None for a full pass."""
        times = self._definition.times
        if times is None or self._pass < int(times):
            return None
        if self._pass > int(times) or times % 1 == 0:
            return 0
        whole = int(times) * (self._definition.inputs[0].items or 0)
        last = (self._definition.items or 0) - whole  # items of the partial pass, dealt to the lanes in turn
        number = self._definition.lane_of(self._lane, self._pass).number
        return -(-(last - number) // self._lane.count) - self._taken

    def _next_pass(self) -> None:
        self._empty += not self._taken
        self._pass += 1
        self._taken = 0
        self._running = self._open(self._pass, {})

    def state(self) -> State:
        return {self._key: {"next": self._pass, "taken": self._taken, "source": self._running.state()}}

    def load(self, item_id: ItemId) -> Any:
        _, number, inner = item_id  # type: ignore[misc] # ids of this stage are tuples
        if number == self._pass:
            return self._running.load(inner)
        if self._other is None or self._other[0] != number:
            self._other = (number, self._open(number, {}))
        return self._other[1].load(inner)


class _RankRepeatDataset(RepeatDataset[Any], RankStage):
    """Repeat above a stage that counts on the rank."""

    def _length_is_known(self, dataset: SavableDataset[Any]) -> bool:  # noqa: ARG002 - no length is known here
        return False

    @property
    def items(self) -> int | None:
        return None

    def __len__(self) -> int:
        below = rank_stage_below(self.inputs[0])
        return (0 if below is None else len(below)) * (1 if self.times is None else int(self.times))

    def open(self, lane: Lane, state: State) -> Running:
        return RankStage.open(self, lane, state)

    def on_rank(self, upstream: RankInput, count: int) -> RankRunning:
        below = rank_stage_below(self.inputs[0])
        if isinstance(below, EpochizeDataset) and getattr(upstream, "count", 0) >= below.length:
            count += 1  # the state was saved at the very end of a virtual epoch, so that pass is complete
        return _RankRepeat(upstream, self.times, self.inputs[0].starts_over, count)


class _RankRepeat:
    def __init__(self, upstream: RankInput, times: float | None, starts_over: bool, count: int) -> None:
        self._upstream = upstream
        self._times = times
        self._starts_over = starts_over
        self.count = count  # complete passes

    def batches(self) -> Iterator[Any]:
        # The first pass is empty if the state was saved at its very end. A second empty pass means that there is no
        # data at all.
        empty = 0
        while empty < 2 and (self._times is None or self.count < self._times):
            empty += 1
            for batch in self._upstream.batches():
                empty = 0
                yield batch
            self.count += 1
            if self._starts_over:
                self._upstream.start_over()
        self.count = 0

    def start_over(self) -> None:
        self.count = 0
        self._upstream.start_over()
