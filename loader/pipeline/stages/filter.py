"""Items left out by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .endless_skips import EndlessSkips
from .hook import Hook
from .lane import Lane
from .ref import Ref
from .stage import SKIPPED, Running, SavableDataset, State
from .worker_config import WorkerConfig

__all__ = ["FilterDataset"]

T = TypeVar("T")


class FilterDataset(SavableDataset[T]):
    """Leave out the items for which a function is false.

    ``FilterDataset([1, 2, 3], lambda number: number != 2)`` gives ``1, 3``.

    Args:
        dataset: What gives the items.
        filter_fn: Says whether an item stays.
        worker_config: By default the dataset's.
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        filter_fn: Callable[[T], bool],
        *,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        **_unused: Any,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.filter_fn = filter_fn

    @property
    def runs_user_code(self) -> bool:
        return True

    def open(self, lane: Lane, state: State) -> Running:
        return _FilterRunning(self, lane, state)


class _FilterRunning:
    def __init__(self, definition: FilterDataset[Any], lane: Lane, state: State) -> None:
        self._source = definition.sources[0].open(lane, state)
        self._stays = Hook(definition.filter_fn, lane)
        self._skips = EndlessSkips(definition.name, lane.number)

    def next(self) -> tuple[Any, Ref]:
        value, ref = self._source.next()
        if value is SKIPPED:
            return value, ref
        stays = self._stays.attempt(value, ref)
        if stays is SKIPPED or not stays:
            self._skips.add()
            return SKIPPED, ref
        self._skips.count = 0
        return value, ref

    def state(self) -> State:
        return self._source.state()

    def load(self, ref: Ref) -> Any:
        return self._source.load(ref)
