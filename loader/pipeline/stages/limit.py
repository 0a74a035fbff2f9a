"""Limit a run to a number of micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..contract.rank_stage import RankRunning, RankStage
from ..contract.stage import SavableDataset
from ..contract.worker_config import WorkerConfig, check_at_least


class LimitDataset(RankStage):
    """End each iteration after ``length`` micro-batches of this rank, or with the pass if that is shorter.

    ``LimitDataset([a, b, c], 2)`` yields ``a, b``. The next iteration continues there in training, and starts over in
    validation.

    Args:
        dataset: The stage below, which yields micro-batches.
        length: Micro-batches on each rank.
        reset_after_epoch: Start over in training, too.
        worker_config: By default the dataset's.

    >>> endless = get_train_dataset("photos", batch_size=2)
    >>> [len(batch.caption) for batch in get_loader(LimitDataset(endless, 3))]
    [2, 2, 2]
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        length: int,
        *,
        reset_after_epoch: bool = False,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="limit")
        check_at_least(0, "micro-batches", length=length)
        self.length = length
        self.reset_after_epoch = reset_after_epoch

    def settings(self) -> dict[str, Any]:
        return {"length": self.length}

    def __len__(self) -> int:
        return self.length if self.inputs[0].repeats else min(self.length, len(self.inputs[0]))

    def iterate(self, running: RankRunning) -> Iterator[Any]:
        # `running.count` is the number of micro-batches delivered in the iteration.
        if running.count < self.length:
            for batch in running.upstream.batches():
                running.count += 1
                yield batch
                if running.count >= self.length:
                    break
        running.count = 0
        if self.reset_after_epoch:
            running.upstream.start_over()
