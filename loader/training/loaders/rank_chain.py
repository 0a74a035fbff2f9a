"""The stages of a loader's chain that count on the rank, apart from the stages of the lanes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import StateError
from ...pipeline.contract.rank_stage import RankInput, RankRunning, RankStage
from ...pipeline.contract.stage import SavableDataset

__all__ = ["RankChain", "cut_rank_stages"]


def cut_rank_stages(dataset: SavableDataset[Any]) -> tuple[SavableDataset[Any], list[RankStage]]:
    """Split a chain into the stages of the lanes and the stages of the rank, outermost first.

    A stage that maps items one to one commutes with counting: above a stage of the rank, it moves below it.
    """
    above: list[SavableDataset[Any]] = []
    on_rank: list[RankStage] = []
    while True:
        if isinstance(dataset, RankStage):
            on_rank.append(dataset)
        elif len(dataset.inputs) == 1 and _has_rank_stage(dataset) and dataset.moves_below:
            above.append(dataset)
        else:
            break
        dataset = dataset.inputs[0]
    for stage in reversed(above):
        moved = copy.copy(stage)
        moved.inputs = (dataset,)
        moved.depth = dataset.depth + stage.depth - stage.inputs[0].depth
        dataset = moved
    return dataset, on_rank


def _has_rank_stage(dataset: SavableDataset[Any]) -> bool:
    while len(dataset.inputs) == 1:
        dataset = dataset.inputs[0]
        if isinstance(dataset, RankStage):
            return True
    return False


class RankChain:
    """The running stages of the rank.

    Args:
        stages: Their definitions, outermost first.
        lanes: The input of the innermost stage.
    """

    def __init__(self, stages: Sequence[RankStage], lanes: RankInput) -> None:
        self._stages = stages
        self._lanes = lanes
        self._running: list[RankRunning] = []
        self._outermost = lanes
        self._start([0] * len(stages))

    def batches(self) -> Iterator[Any]:
        """Yield the micro-batches of an iteration."""
        return self._outermost.batches()

    def start_over(self) -> None:
        """Start the next iteration at the first micro-batch."""
        self._outermost.start_over()

    def counts(self) -> list[int]:
        """Return the stages' states, outermost first."""
        return [running.count for running in self._running]

    def restore(self, counts: Sequence[int], *, ranks: int) -> None:
        """Continue from saved states.

        Args:
            counts: The result of :meth:`counts`.
            ranks: The number of ranks of the saved run.

        Raises:
            StateError: The number of stages differs.
        """
        if len(counts) != len(self._stages):
            raise StateError(
                f"the state has the counts of {len(counts)} virtual epochs and limits, the dataset has "
                f"{len(self._stages)}",
                hint="build the dataset with the arguments of the run that was saved",
            )
        self._start([stage.count_on(ranks, count) for stage, count in zip(self._stages, counts, strict=True)])

    def _start(self, counts: Sequence[int]) -> None:
        self._running = []
        self._outermost = self._lanes
        for stage, count in zip(reversed(self._stages), reversed(counts), strict=True):
            running = stage.on_rank(self._outermost, count)
            self._running.insert(0, running)
            self._outermost = running
