"""Base of stages that yield every item unchanged."""

from __future__ import annotations

from .running import StageTraits
from .stage import SavableDataset, T
from .worker_config import WorkerConfig


class PassThroughDataset(SavableDataset[T]):
    """Yield every item unchanged. A restored run may add such a stage, omit it, or change its settings.

    Args:
        worker_config: By default the dataset's.
    """

    traits = StageTraits(one_to_one=True, never_more=True, commutes=True, unchanged=True, ends="with_inputs")

    def __init__(self, dataset: SavableDataset[T], *, worker_config: WorkerConfig | None, name: str) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.depth = dataset.depth  # the stages above keep their keys in a state
