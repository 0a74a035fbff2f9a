"""A stage that drops items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..contract.hook import Hook
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import RunningFunctions, StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.worker_config import WorkerConfig
from ..failures.policy import stage_and_hook
from ..measuring.recorder import skipped_items


class FilterDataset(SavableDataset[T]):
    """Skip the items for which a function returns false.

    ``FilterDataset([1, 2, 3], lambda number: number != 2)`` yields ``1, 3``.

    Args:
        dataset: The stage below.
        filter_fn: Returns True for items to keep.
        worker_config: By default the dataset's.
        filter_fn_config: Accepted for code written for megatron-energon, and ignored.

    >>> photos = get_dataset_from_config("photos", split_part="train", training=False).build()
    >>> short = FilterDataset(photos, lambda sample: len(sample.caption) < 6)
    >>> [sample.caption for sample in get_loader(short)]
    ['a cat', 'a dog']
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
        upstream = self.inputs[0].open(lane, state)
        attempt, skipped = Hook(self.filter_fn, lane, may_return_none=True).attempt, skipped_items(lane)
        skips = lane.failures.skips_of(self.filter_fn, stage_and_hook(self.name, self.filter_fn))

        def next_kept() -> tuple[Any, ItemId]:
            value, item_id = upstream.next()
            if value is SKIPPED:
                return value, item_id
            # What the filter omits becomes a skipped item, so that positions stay known.
            is_kept = attempt(value, item_id)
            if is_kept is SKIPPED:
                return is_kept, item_id
            if not is_kept:
                skipped.append(item_id)
                skips.add()
                return SKIPPED, item_id
            skips.count = 0
            return value, item_id

        return RunningFunctions(next_kept, upstream.state, upstream.load)
