"""The task encoder of a run of which only the arguments are known, and the sizes of its samples from columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...format.columns.column import open_column
from ...format.columns.column_files import column_names
from ...metadataset.plans.blend_units import UnitBlend, sample_shares
from ...pipeline.contract.stage import SavableDataset
from ...samples.encoding.task_encoder import DefaultTaskEncoder
from ...training.datasets.run_datasets import LoadedDatasets
from ...training.datasets.volume_units import column_folder

__all__ = ["PlannedEncoder", "VolumeMix"]


class VolumeMix:
    """The shares of a run whose weights are shares of volumes.

    Args:
        datasets: The datasets.
        tree: The blends above them.

    Attributes:
        units: The units.
        unknown: Units → the datasets whose sizes in it are not known from a column.
        volume_shares: Weight of each dataset, as a share of all: the product of the shares of all levels.
        sample_shares: Expected share of each dataset in the samples. Sizes that are not known count as the mean of the
            known ones.
    """

    def __init__(self, datasets: LoadedDatasets, tree: UnitBlend) -> None:
        self._datasets = datasets
        self.units = tuple(dict.fromkeys(unit for unit in tree.units() if unit != "samples"))
        means = {unit: [self._mean(leaf, unit) for leaf in range(len(datasets.specs))] for unit in self.units}
        self.unknown: dict[str, list[str]] = {}
        for unit, found in means.items():
            known = [mean for mean in found if mean is not None]
            if len(known) < len(found):
                lacking = [
                    spec.source.request.path for spec, mean in zip(datasets.specs, found, strict=True) if mean is None
                ]
                self.unknown[unit] = list(dict.fromkeys(lacking))
            usual = float(np.mean(known)) if known else 1.0
            means[unit] = [usual if mean is None else mean for mean in found]
        shares = sample_shares(tree, lambda leaf, unit: means[unit][leaf] or 1.0)
        self.sample_shares = tuple(shares[leaf] for leaf in range(len(datasets.specs)))
        self.volume_shares = tuple(spec.weight or 1.0 for spec in datasets.specs)

    def _mean(self, leaf: int, unit: str) -> float | None:
        """Return the mean size of a dataset's samples from its column; None if it has none."""
        source = self._datasets.specs[leaf].source
        folder = column_folder(source)
        if folder is None or unit not in column_names(folder.folder.storage):
            return None
        column = open_column(folder.folder.storage, folder.folder.index, unit)
        rows = folder.index_numbers()
        rows = rows[~np.isin(rows, folder.excluded)]
        rows = rows[column.is_known(rows)]
        return float(column.values[rows].mean(dtype=np.float64)) if len(rows) else None

    def notes(self) -> list[str]:
        """Describe how the shares are to be read."""
        units = ", ".join(map(repr, self.units))
        found = [f"weights are shares of {units}: asked is a share of the volume, got an expected share of the samples"]
        for unit, paths in self.unknown.items():
            names = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
            found.append(
                f"the sizes of samples in {unit!r} are not known for {names}: they count as the mean of the others. "
                f"Write them: energon stats {paths[0]} --write {unit}"
            )
        return found


class PlannedEncoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Task encoder without hooks, which needs no metric for the units of blends."""

    datasets: LoadedDatasets | None = None

    def build_train_datasets(self, *, datasets: Any, **arguments: Any) -> Any:
        """Build the chain; without columns of the sizes, it has the readers of the run, but does not run."""
        self.datasets = datasets
        arguments.pop("blend_mode", None)
        return datasets.train_chain(self, needs_sizes=False, **arguments)

    def volume_mix(self) -> VolumeMix | None:
        """Return the shares of a run with units; None without them."""
        tree = None if self.datasets is None else self.datasets.volume_tree
        return None if tree is None or self.datasets is None else VolumeMix(self.datasets, tree)

    def flat_chain(self, mix: VolumeMix, **arguments: Any) -> SavableDataset[Any]:
        """Build the chain of a run that mixes by the expected shares of samples."""
        if self.datasets is None:
            raise LookupError("no datasets were loaded")
        return self.datasets.with_sample_weights(mix.sample_shares).train_chain(self, **arguments)
