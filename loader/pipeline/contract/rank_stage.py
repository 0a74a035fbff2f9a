"""Stages that count micro-batches in the rank's own process, above the lanes: virtual epochs, limits, repeats."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...errors import ConfigError, StateError, plural
from .lane import Lane
from .running import StageTraits
from .stage import Running, SavableDataset, State


class RankInput(Protocol):
    """Source of micro-batches on a rank."""

    def batches(self) -> Iterator[Any]:
        """Yield the micro-batches of an iteration, which continues where the last one ended."""

    def start_over(self) -> None:
        """Restart: the next iteration yields the first micro-batch."""


@dataclass(eq=False)
class RankRunning:
    """A stage that counts on the rank, as it runs.

    Attributes:
        upstream: The stage below, or the lanes; those also have ``lanes``, ``ended`` and ``first_batch()``.
        count: The complete state of the stage.
        kept: What else the stage keeps while it runs.
    """

    definition: RankStage
    upstream: Any
    count: int
    kept: Any = None

    def batches(self) -> Iterator[Any]:
        return self.definition.iterate(self)

    def start_over(self) -> None:
        self.count = 0
        self.upstream.start_over()


class RankStage(SavableDataset[Any]):
    """The definition of a stage that counts on the rank."""

    @property
    def traits(self) -> StageTraits:
        return StageTraits(one_to_one=True, on_rank=True)

    @property
    def repeats_input(self) -> bool:
        """True if an iteration continues, without end, where a pass of the input ends."""
        return False

    @abstractmethod
    def iterate(self, running: RankRunning) -> Iterator[Any]:
        """Yield the micro-batches of an iteration of a running stage, and count them there."""

    def on_rank(self, upstream: RankInput, count: int) -> RankRunning:
        """Open the stage at 0, or at a saved count."""
        return RankRunning(self, upstream, count)

    def count_on(self, ranks: int, count: int) -> int:  # noqa: ARG002 - most stages count per rank
        """Convert the count of a rank among ``ranks`` ranks to the count of a rank of this run."""
        return count

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - the contract of all stages
        raise ConfigError(
            f"{self.name} counts the micro-batches of a rank, so nothing that joins, blends or drops may come after it",
            hint=f"apply {self.name} last",
        )


def rank_stage_below(dataset: SavableDataset[Any]) -> RankStage | None:
    """Return the outermost stage of a chain that counts on the rank; None if no stage does."""
    while not isinstance(dataset, RankStage):
        if len(dataset.inputs) != 1:
            return None
        dataset = dataset.inputs[0]
    return dataset


def cut_rank_stages(dataset: SavableDataset[Any]) -> tuple[SavableDataset[Any], list[RankStage]]:
    """Split a chain into the stages of the lanes and the stages of the rank, outermost first.

    A stage that maps items one to one commutes with counting: above a stage of the rank, it moves below it.
    """
    above: list[SavableDataset[Any]] = []
    on_rank: list[RankStage] = []
    # Walk down from one stage of the rank to the next, and set aside the stages between them, if all commute.
    while (lower := rank_stage_below(dataset)) is not None:
        between, stage = [], dataset
        while stage is not lower:
            between.append(stage)
            stage = stage.inputs[0]
        if not all(stage.traits.commutes for stage in between):
            break
        above += between
        on_rank.append(lower)
        dataset = lower.inputs[0]
    # Put these on top of the stages of the lanes, the lowest first.
    for stage in reversed(above):
        moved = copy.copy(stage)
        moved.inputs = (dataset,)
        moved.depth = dataset.depth + stage.depth - stage.inputs[0].depth
        dataset = moved
    return dataset, on_rank


def open_on_rank(
    stages: Sequence[RankStage], counts: Sequence[int], lanes: RankInput, *, counted_on: int | None = None
) -> list[Any]:
    """Open the stages of the rank above the lanes; return them, outermost first, and the lanes.

    Args:
        counts: Their counts.
        counted_on: The number of ranks on which they were counted; None for the ranks of this run.

    Raises:
        StateError: The counts are of other stages.
    """
    if len(counts) != len(stages):
        raise StateError(
            f"the state has the counts of {plural(len(counts), 'virtual epoch')} and limits, the dataset has "
            f"{len(stages)}",
            hint="build the dataset with the arguments of the run that was saved",
        )
    opened: list[Any] = [lanes]
    for stage, count in zip(reversed(stages), reversed(counts), strict=True):
        opened.insert(0, stage.on_rank(opened[0], count if counted_on is None else stage.count_on(counted_on, count)))
    return opened
