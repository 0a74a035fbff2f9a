"""Skip items by a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..contract.hook import Hook
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..contract.worker_config import WorkerConfig
from ..failures.policy import stage_and_hook
from ..measuring.recorder import skipped_items

T = TypeVar("T")


class FilterDataset(SavableDataset[T]):
    """Skip the items for which a function returns false.

    ``FilterDataset([1, 2, 3], lambda number: number != 2)`` yields ``1, 3``.

    Args:
        dataset: The stage below.
        filter_fn: Returns True for items to keep.
        worker_config: By default the dataset's.
        filter_fn_config: Accepted for code written for megatron-energon, and ignored.
    """

    traits = StageTraits(never_more=True, draws_random=True, ends="with_inputs")

    def __init__(
        self,
        dataset: SavableDataset[T],
        filter_fn: Callable[[T], bool],
        *,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        filter_fn_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.filter_fn = filter_fn

    def open(self, lane: Lane, state: State) -> Running:
        return _FilterRunning(self, lane, state)


class _FilterRunning:
    def __init__(self, definition: FilterDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._filter = Hook(definition.filter_fn, lane, may_return_none=True)
        self._skipped = skipped_items(lane)
        self._skips = lane.failures.skips_of(
            definition.filter_fn, stage_and_hook(definition.name, definition.filter_fn)
        )

    def next(self) -> tuple[Any, ItemId]:
        value, item_id = self._upstream.next()
        if value is SKIPPED:
            return value, item_id
        is_kept = self._filter.attempt(value, item_id)
        if is_kept is SKIPPED:
            return is_kept, item_id
        if not is_kept:
            self._skipped.append(item_id)
            self._skips.add()
            return SKIPPED, item_id
        self._skips.count = 0
        return value, item_id

    def state(self) -> State:
        return self._upstream.state()

    def load(self, item_id: ItemId) -> Any:
        return self._upstream.load(item_id)
