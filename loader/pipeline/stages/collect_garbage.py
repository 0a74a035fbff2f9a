"""A stage that collects garbage."""

from __future__ import annotations

import gc
from typing import Any

from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.pass_through import PassThroughDataset
from ..contract.running import RunningFunctions
from ..contract.stage import Running, SavableDataset, State, T
from ..contract.worker_config import WorkerConfig, check_at_least

GC_DEFAULT_EVERY_N_ITER = 10
"""Items between two collections, by default."""


class GcDataset(PassThroughDataset[T]):
    """Collect garbage once for each ``every_n_iter`` items of a lane.

    Samples with reference cycles are freed only by the garbage collector, which counts objects, not bytes: a few large
    samples can fill the memory before it starts.

    Args:
        dataset: The stage below.
        every_n_iter: Items between two collections.
        freeze: Accepted for code written for megatron-energon, and ignored: worker processes always exclude the objects
            that exist at their start from collections.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: ``every_n_iter`` is below 1.

    >>> photos = get_dataset_from_config("photos", split_part="train", training=False).build()
    >>> [sample.caption for sample in get_loader(GcDataset(photos, every_n_iter=2))]
    ['a cat', 'a dog', 'two cats', 'a bird']
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        *,
        every_n_iter: int = GC_DEFAULT_EVERY_N_ITER,
        freeze: bool = True,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="gc")
        check_at_least(1, every_n_iter=every_n_iter)
        self.every_n_iter = every_n_iter
        self.freeze = freeze

    def settings(self) -> dict[str, Any]:
        return {"every_n_iter": self.every_n_iter}

    def open(self, lane: Lane, state: State) -> Running:
        upstream, every = self.inputs[0].open(lane, state), self.every_n_iter
        count = lane.number % every  # spreads the collections of the lanes of a process

        def collect_and_next() -> tuple[Any, ItemId]:
            nonlocal count
            count += 1
            if count == every:
                count = 0
                gc.collect()
            return upstream.next()

        return RunningFunctions(collect_and_next, upstream.state, upstream.load)
