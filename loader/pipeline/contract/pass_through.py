"""Base of stages that yield every item unchanged."""

from __future__ import annotations

from typing import Any, TypeVar

from .stage import SavableDataset
from .worker_config import WorkerConfig

T = TypeVar("T")


class PassThroughDataset(SavableDataset[T]):
    """Yield every item unchanged. A restored run may add such a stage, omit it, or change its settings.

    Args:
        dataset: The stage below.
        worker_config: By default the dataset's.
        name: Name of the stage.
    """

    moves_below = True

    def __init__(self, dataset: SavableDataset[T], *, worker_config: WorkerConfig | None, name: str) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.depth = dataset.depth  # the stages above keep their keys in a state

    @property
    def keeps_positions(self) -> bool:
        return self.inputs[0].keeps_positions

    def lane_bound(self, lane: int, lanes: int) -> int | None:
        return self.inputs[0].lane_bound(lane, lanes)

    def identity(self) -> list[Any]:
        return self.inputs[0].identity()
