"""The expected shares of a run whose weights are shares of volumes, by columns of the sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ConfigError
from ...format.columns.column_files import open_column
from ...format.documents.messages import nearest_hint
from ...metadataset.documents.leaf_plan import EntrySchedule, combine_starts
from ...metadataset.plans.blend_tree import UnitBlend, sample_shares
from ...pipeline.contract.lane import child_seed
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.dataset_source import DatasetSource
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...training.datasets.chain import write_command
from ...training.datasets.open_sources import Leaf
from ...training.datasets.run_datasets import LoadedDatasets


class VolumeMix:
    """The shares of a run whose weights are shares of volumes.

    Args:
        tree: The blends above them.

    Attributes:
        unknown: Units → the datasets whose sizes in it are not known from a column.
        volume_shares: Weight of each dataset, as a share of all: the product of the shares of all levels.
        sample_shares: Expected share of each dataset in the samples. Sizes that are not known count as the mean of the
            known ones. If weights change, the shares of the beginning.
        sample_schedules: The expected share of each dataset in each stretch; None if weights do not change.
    """

    def __init__(self, datasets: LoadedDatasets, tree: UnitBlend) -> None:
        # Find the mean size of samples of each dataset; the mean of the others where it is not known.
        self.units = tuple(dict.fromkeys(unit for unit in tree.units() if unit != "samples"))
        means = {unit: [_mean_size(leaf, unit) for leaf in datasets.leaves] for unit in self.units}
        self.unknown: dict[str, list[str]] = {}
        self._columns = {
            name for leaf in datasets.leaves for name in leaf.source.selection.first.documents.column_names()
        }
        for unit, leaf_means in means.items():
            known = [mean for mean in leaf_means if mean is not None]
            if len(known) < len(leaf_means):
                lacking = [
                    leaf.source.request.ref.path
                    for leaf, mean in zip(datasets.leaves, leaf_means, strict=True)
                    if mean is None
                ]
                self.unknown[unit] = list(dict.fromkeys(lacking))
            usual = float(np.mean(known)) if known else 1.0
            means[unit] = [usual if mean is None else mean for mean in leaf_means]

        # Convert shares of volumes to shares of samples.
        def shares_of(blends: UnitBlend) -> tuple[float, ...]:
            shares = sample_shares(blends, lambda leaf, unit: means[unit][leaf] or 1.0)
            return tuple(shares[leaf] for leaf in range(len(datasets.leaves)))

        plans = [leaf.plan for leaf in datasets.leaves]
        self.volume_shares = tuple(plan.weight or 0.0 for plan in plans)
        # Do so for each stretch, if weights change.
        schedules = [plan.schedule for plan in plans if plan.schedule is not None]
        self.sample_schedules: tuple[EntrySchedule, ...] | None = None
        if not schedules:
            self.sample_shares = shares_of(tree)
            return
        unit, starts = schedules[0].unit, combine_starts(schedules)
        columns = [
            (plan.weight or 0.0,) * len(starts) if plan.schedule is None else plan.schedule.on(starts) for plan in plans
        ]
        self.volumes_of_stretches = tuple(zip(*columns, strict=True))
        samples = [shares_of(tree.at(start)) for start in starts]
        self.sample_shares = samples[0]
        self.sample_schedules = tuple(
            EntrySchedule(unit=unit, starts=starts, weights=weights) for weights in zip(*samples, strict=True)
        )

    def notes(self) -> list[str]:
        """Describe how the shares are to be read."""
        units = ", ".join(map(repr, self.units))
        lines = [f"weights are shares of {units}: asked is a share of the volume, got an expected share of the samples"]
        for unit, paths in self.unknown.items():
            names = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
            similar = "" if unit in self._columns else nearest_hint(unit, {"samples", *self._columns})
            lines.append(
                f"the sizes of samples in {unit!r} are not known for {names}: they count as the mean of the others"
                + (similar or f". Write them: {write_command(paths[0], unit)}")
            )
        return lines


def _mean_size(leaf: Leaf, unit: str) -> float | None:
    """Return the mean size of a dataset's samples from its column; None without this column."""
    if unit not in leaf.source.selection.first.documents.column_names():
        return None
    return mean_of_column(leaf.source.members[0], unit)


# Find the readers and the blends in a chain of stages.


def blends_in(stage: BlendDataset[Any]) -> Iterator[BlendDataset[Any]]:
    """Yield a blend and the blends below it."""
    yield stage
    for upstream in stage.inputs:
        inner = first_blend(upstream)
        if inner is not None:
            yield from blends_in(inner)


def first_blend(stage: SavableDataset[Any]) -> BlendDataset[Any] | None:
    """Return the outermost blend of a chain; None without a blend, or if another stage has several inputs."""
    while not isinstance(stage, BlendDataset):
        if len(stage.inputs) != 1:
            return None
        stage = stage.inputs[0]
    return stage


def readers_in(
    stage: SavableDataset[Any], seed: int, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], tuple[ReadDataset, int]]]:
    """Yield the readers below a stage with their seeds, by the origins of the inputs of blends that lead to them."""
    while not isinstance(stage, ReadDataset):
        if isinstance(stage, BlendDataset):
            for origin, upstream in zip(stage.origins, stage.inputs, strict=True):
                yield from readers_in(upstream, child_seed(seed, origin), (*path, origin))
            return
        if len(stage.inputs) != 1:
            raise ConfigError("expected a chain of stages with one reader", hint="explain a run without such stages")
        stage = stage.inputs[0]
    yield path, (stage, seed)


def mean_of_column(source: DatasetSource, name: str) -> float | None:
    """Return the mean of a column's known values over the samples of a source; None without known values."""
    column = open_column(source.folder.storage, source.folder.index, name)
    column.check_numbers("a mean", at=source.folder.path)
    rows = source.turns.numbers()
    rows = rows[~np.isin(rows, source.turns.excluded)]
    rows = rows[column.is_known(rows)]
    return float(column.values[rows].mean(dtype=np.float64)) if len(rows) else None
