"""Which stage of the rank a stage stands above."""

from __future__ import annotations

from typing import Any

from .rank_stage import RankStage
from .stage import SavableDataset

__all__ = ["rank_stage_below"]


def rank_stage_below(dataset: SavableDataset[Any]) -> RankStage | None:
    """Find the outermost stage of a chain that counts on the rank; None where there is none."""
    while not isinstance(dataset, RankStage):
        if len(dataset.sources) != 1:
            return None
        dataset = dataset.sources[0]
    return dataset
