"""Join samples to micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...samples.batching.collate import generic_batch
from ...samples.hooks import is_library_hook
from ..contract.hook import BatchHook
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import RunningFunctions, StageTraits
from ..contract.stage import Running, SavableDataset, State, T
from ..contract.worker_config import WorkerConfig, check_at_least, check_integers


class BatchDataset(SavableDataset[T]):
    """Join items to batches.

    ``BatchDataset([a, b, c], 2, batcher=f)`` yields ``f([a, b]), f([c])``. If a lane of a pass ends with fewer items
    than a batch, the other lanes of the same worker complete it, so at most one batch of a worker is short.

    Args:
        dataset: The stage below.
        batch_size: B, items of a batch.
        batcher: Joins a list of items to a batch; by default :func:`~loader.samples.batching.collate.generic_batch`.
        drop_last: Drop a last batch of fewer than B items.
        at_positions: The lanes get whole batches, so the number of batches is known unless items are skipped: batch
            ``b`` of a lane holds the items at the positions ``[b·B, (b+1)·B)`` of its stream. The next item takes the
            place of a skipped one.
        failure_tolerance: Consecutive failures of ``batcher`` that end the run; by default the number set for it, or
            100.
        worker_config: By default the dataset's.
        batcher_stateless: Accepted for code written for megatron-energon, and ignored.
        batcher_config: As above.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        batch_size: int,
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        drop_last: bool = False,
        at_positions: bool = False,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        batcher_stateless: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        batcher_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        check_integers({"batch_size": batch_size}, may_be_none=False)
        check_at_least(1, batch_size=batch_size)
        self.batch_size = batch_size
        self.batcher = batcher
        self.drop_last = drop_last
        self.failure_tolerance = failure_tolerance
        self.at_positions = at_positions
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its items, for statistics

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            one_to_one=self.at_positions,
            never_more=True,
            batches_of=self.batch_size,
            drop_last=self.drop_last,
            draws_random=not is_library_hook(self.batcher),
            ends="with_worker",
        )

    def settings(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "drop_last": self.drop_last}

    def open(self, lane: Lane, state: State) -> Running:
        batcher = BatchHook(self, lane, state, stage=self.name)
        size, fill, make = self.batch_size, batcher.upstream.fill, batcher.make

        def next_batch() -> tuple[Any, ItemId]:
            values: list[Any] = []
            item_ids: list[ItemId] = []
            fill(values, item_ids, size)
            # A remainder that is dropped is noted, as the reason if no batch of the data is left.
            if len(values) < size and (self.drop_last or not values):
                lane.failures.note_remainder(self.name, len(values), size)
                raise StopIteration
            return make(values, tuple(item_ids))

        return RunningFunctions(next_batch, batcher.upstream.state, batcher.load)
