"""The task encoder of a run that is known by its arguments only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...metadataset.documents.leaf_plan import EntrySchedule
from ...pipeline.contract.stage import SavableDataset
from ...samples.encoding.task_encoder import DefaultTaskEncoder
from .run_datasets import LoadedDatasets


class PlannedEncoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Task encoder without hooks, which needs no metric for the units of blends."""

    datasets: LoadedDatasets | None = None

    def build_train_datasets(self, *, datasets: Any, **arguments: Any) -> Any:
        """Build the chain; without columns of the sizes, it has the readers of the run, but does not run."""
        self.datasets = datasets
        return datasets.train_chain(self, needs_sizes=False, **arguments)

    def flat_chain(
        self, sample_shares: Sequence[float], schedules: Sequence[EntrySchedule] | None, **arguments: Any
    ) -> SavableDataset[Any]:
        """Build the chain of a run that mixes the same datasets by shares of the samples."""
        if self.datasets is None:
            raise LookupError("no datasets were loaded")
        return self.datasets.with_sample_weights(sample_shares, schedules).train_chain(self, **arguments)
