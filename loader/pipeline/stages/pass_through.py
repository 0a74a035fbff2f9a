"""What stages have in common that hand on every item as it is."""

from __future__ import annotations

from typing import Any, TypeVar

from ..contract.stage import SavableDataset
from ..contract.worker_config import WorkerConfig

__all__ = ["PassThroughDataset"]

T = TypeVar("T")


class PassThroughDataset(SavableDataset[T]):
    """Hand on every item as it is: a run may go on with such a stage, without it, or with other settings of it.

    Args:
        dataset: What gives the items.
        worker_config: By default the dataset's.
        name: Of the stage.
    """

    def __init__(self, dataset: SavableDataset[T], *, worker_config: WorkerConfig | None, name: str) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.depth = dataset.depth  # so that the stages above keep their names in a state

    @property
    def keeps_positions(self) -> bool:
        return self.inputs[0].keeps_positions

    @property
    def moves_below(self) -> bool:
        return True

    def identity(self) -> list[Any]:
        return self.inputs[0].identity()
