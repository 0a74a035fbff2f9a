"""A stage that makes virtual epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..contract.rank_stage import RankRunning, RankStage
from ..contract.stage import SavableDataset
from ..contract.worker_config import WorkerConfig, check_at_least


class EpochizeDataset(RankStage):
    """End each iteration after ``length`` micro-batches of this rank; the next iteration continues there.

    ``EpochizeDataset([a, b, c, …], 2)`` yields ``a, b``, then ``c, …``. When a pass ends within a virtual epoch, the
    next pass follows.

    Args:
        dataset: The stage below, which yields micro-batches.
        length: Micro-batches of a virtual epoch on each rank.
        worker_config: By default the dataset's.

    >>> endless = get_train_dataset("photos", batch_size=2)
    >>> loader = get_loader(EpochizeDataset(endless, 3))
    >>> len([*loader]), len([*loader])
    (3, 3)
    """

    repeats_input = True

    def __init__(self, dataset: SavableDataset[Any], length: int, *, worker_config: WorkerConfig | None = None) -> None:
        super().__init__(dataset, worker_config=worker_config, name="epochize")
        check_at_least(1, "micro-batch", length=length)
        self.length = length

    def settings(self) -> dict[str, Any]:
        return {"length": self.length}

    def __len__(self) -> int:
        return self.length

    def iterate(self, running: RankRunning) -> Iterator[Any]:
        # `running.count` is the number of micro-batches delivered in the epoch.
        if running.count >= self.length:
            running.count = 0
        # The first pass is empty if the state was saved at its very end. A second empty pass means that there is no
        # data at all.
        empty = 0
        while empty < 2 and running.count < self.length:
            empty += 1
            for batch in running.upstream.batches():
                empty = 0
                running.count += 1
                yield batch
                if running.count >= self.length:
                    break
