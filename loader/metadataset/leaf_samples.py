"""Count and list the samples of a metadataset's leaves, without reading a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.opening import dataset_at
from ..dataset.selection import Selection
from ..dataset.split_parts import excluded_samples
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.subset import SubsetRange, resolve_subset
from ..format.filters.rows import FilterRows, open_file_filter
from ..format.records.folder_index import open_record_path
from .datasets import DatasetNames, NumberedDatasets, named_datasets
from .documents.leaf_plan import LeafPlan
from .joins.files import open_join
from .plans.plan_leaves import plan_splits


class LeafCounter:
    """Counter of samples.

    It opens each dataset once, and the index only for filters, ranges of shards, and excluded samples.
    """

    def __init__(self) -> None:
        self._folder: Callable[[DatasetRef], Dataset] = cache(dataset_at)

    def count(self, leaf: LeafPlan) -> int:
        """Return the number of samples in a leaf's filter and subset, without excluded ones."""
        subset = leaf.request.subset
        # Of a join, only the rows are opened.
        if leaf.join is not None:
            start, stop = resolve_subset(subset, len(open_join(leaf.join)), at=leaf.path)
            return _checked(leaf, start, stop, stop - start)
        folder = self._folder(leaf.ref)
        # `dataset.yaml` may name another split part than the request.
        part = folder.documents.loaded_part(leaf.split_part)
        selection = Selection(folder, part, leaf.filter, subset, at=leaf.path)
        leaf = replace(leaf, request=replace(leaf.request, split_part=part))
        return _checked(leaf, *selection.bounds, len(selection) - len(selection.excluded))

    def shards(self, ref: DatasetRef) -> int:
        """Return the number of shards of a dataset; 0 if it cannot be opened."""
        with suppress(EnergonError):
            return len(self._folder(ref).shard_counts)
        return 0


def _checked(leaf: LeafPlan, start: int, stop: int, count: int) -> int:
    if count <= 0:
        raise ConfigError(_no_samples(leaf, start=start, stop=stop), at=leaf.path)
    return count


def samples_of_splits(ref: DatasetRef) -> tuple[NumberedDatasets, dict[str, IntArray]]:
    """Return the datasets that a dataset or metadataset reads, and the samples of each split that are not excluded.

    Filters and subsets apply, and weights and repetitions do not. Of a join, each member has all samples of its part.

    Raises:
        ConfigError: The dataset has no split, or the metadataset has faults.
    """
    # Open each dataset once.
    names = DatasetNames()
    opened = {dataset.ref: dataset_at(dataset.ref) for dataset in named_datasets([ref])}
    numbered = NumberedDatasets({names.add(folder.path): folder for folder in opened.values()})
    if not ref.kind.is_mix:
        folder = opened[ref]
        return numbered, {part: _samples(folder, part) for part in folder.documents.required_split().split_parts}
    # Collect the samples of the leaves of each split.
    members = {}
    for split, tree in plan_splits(ref).checked().trees.items():
        pieces = [np.empty(0, np.int64)]
        for leaf in tree.leaves():
            subset = leaf.request.subset if leaf.join is None else ()
            for source in leaf.datasets:
                position = [*opened].index(replace(source.ref, dataset_config=None))
                samples = _samples(numbered.folders[position], source.split_part, source.filter, subset)
                pieces.append(numbered.starts[position] + samples)
        members[split] = np.unique(np.concatenate(pieces))
    return numbered, members


def _samples(
    folder: Dataset, split_part: str, filter_name: str | None = None, subset: Sequence[SubsetRange] = ()
) -> IntArray:
    # Subsets are cut before exclusions.
    selection = Selection(folder, folder.documents.loaded_part(split_part), filter_name, subset)
    return np.setdiff1d(selection.numbers(), excluded_samples(folder), assume_unique=True)


def open_record_filter(path: str, name: str) -> FilterRows:
    """Open a filter of a single file."""
    file = open_record_path(path)
    return open_file_filter(file.storage, file.name, name, len(file))


def _no_samples(leaf: LeafPlan, *, start: int, stop: int) -> str:
    what = "this join" if leaf.join is not None else f"split part {leaf.split_part!r} of this dataset"
    if leaf.ref.kind.is_file:
        what = "this file"
    if leaf.filter is not None:
        what = f"the filter {leaf.filter!r} in {what}"
    # The subset has samples, but all of them are excluded.
    if stop > start:
        return f"all samples of {what} are excluded ({stop - start:,})"
    return f"{'the subset of ' if leaf.request.subset else ''}{what} has no samples"


# Name the place in a metadataset in the errors of a leaf that cannot be opened.


@contextmanager
def named_by(leaf: LeafPlan, file: str) -> Iterator[None]:
    """Add the place of a leaf to the errors of a block; errors of joins have one, and a root has none."""
    try:
        yield
    except EnergonError as error:
        if leaf.place and leaf.join is None:
            error.at = f"{error.at or leaf.path}, named by {leaf.place} in {file}"
        raise
