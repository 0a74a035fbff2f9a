"""The chain of a loader, cut in two: the stages of the lanes, and those that count on the rank."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import StateError
from ...pipeline.contract.rank_stage import RankInput, RankRunning, RankStage
from ...pipeline.contract.stage import SavableDataset

__all__ = ["RankChain", "cut_rank_stages"]


def cut_rank_stages(dataset: SavableDataset[Any]) -> tuple[SavableDataset[Any], list[RankStage]]:
    """Cut a chain into the stages of the lanes and those of the rank, outermost first.

    A stage that takes each item to one at its place may stand above one of the rank: it is moved below.
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
    """The stages of the rank at work.

    Args:
        stages: Their definitions, outermost first.
        lanes: What the innermost of them takes micro-batches from.
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
        """Let the next iteration begin with the first micro-batch."""
        self._outermost.start_over()

    def counts(self) -> list[int]:
        """Give the stages' states, outermost first."""
        return [running.count for running in self._running]

    def restore(self, counts: Sequence[int], *, ranks: int) -> None:
        """Go on from such states.

        Args:
            counts: What :meth:`counts` gave.
            ranks: The number of ranks of the run that gave it.

        Raises:
            StateError: They are of another number of stages.
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
