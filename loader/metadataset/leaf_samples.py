"""Count the samples of a metadataset's leaves, without reading a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np

from ..arrays import positions_in
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.split_parts import excluded_samples, filter_of_part, rows_of_part, samples_of_part, shards_of_part
from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DatasetRef
from ..format.documents.providers import is_record_file
from ..format.documents.subset import resolve_subset
from ..format.filters.rows import FilterRows, open_file_filter
from ..format.records.folder_index import open_record_path
from .documents.leaf_plan import LeafPlan
from .joins.files import open_join


class LeafCounter:
    """Counter of samples.

    It opens each dataset once, and the index only for filters, ranges of shards, and excluded samples.
    """

    def __init__(self) -> None:
        self._folder: Callable[[DatasetRef], Dataset] = cache(folder_at)
        self._records = cache(_count_records)
        self._filter = cache(filter_of_part)

    def count(self, leaf: LeafPlan) -> int:
        """Return the number of samples in a leaf's filter and subset, without excluded ones."""
        # A join and a file exclude no samples.
        if leaf.join is not None or is_record_file(leaf.path):
            whole = len(open_join(leaf.join)) if leaf.join is not None else self._records(leaf.path, leaf.filter)
            start, stop = resolve_subset(leaf.request.subset, whole, at=leaf.path)
            return _checked(leaf, start, stop, stop - start)
        folder = self._folder(leaf.ref)
        part = folder.documents.loaded_part(leaf.split_part)
        # `dataset.yaml` may name another split part than the request.
        leaf = replace(leaf, request=replace(leaf.request, split_part=part))
        kept = self._filter(folder, part, leaf.filter)
        # Whole shards: their numbers of samples, without the index.
        split = folder.documents.split
        if kept is None and (split is None or not (split.exclude or part in split.sample_ranges)):
            whole = sum(folder.shard_counts.get(name, 0) for name in shards_of_part(folder, part))
            start, stop = resolve_subset(leaf.request.subset, whole, at=leaf.path)
            return _checked(leaf, start, stop, stop - start)
        # A filter, ranges of shards or exclusions: numbers of samples in the index.
        excluded = excluded_samples(folder)
        if kept is None:
            ranges = samples_of_part(folder, part, excluded_shards=True)
        else:
            ranges, excluded = rows_of_part(folder, kept, part), kept.find(excluded)
        ends, firsts = np.cumsum([0, *map(len, ranges)]), np.array([some.start for some in ranges], np.int64)
        positions = positions_in((ends[:-1], firsts), int(ends[-1]), excluded)
        start, stop = resolve_subset(leaf.request.subset, int(ends[-1]), at=leaf.path)
        return _checked(leaf, start, stop, stop - start - int(np.diff(positions.searchsorted((start, stop)))[0]))


def _checked(leaf: LeafPlan, start: int, stop: int, count: int) -> int:
    if count <= 0:
        raise ConfigError(_no_samples(leaf, start=start, stop=stop), at=leaf.path)
    return count


def open_record_filter(path: str, name: str) -> FilterRows:
    """Open a filter of a single file."""
    file = open_record_path(path)
    return open_file_filter(file.storage, file.name, name, len(file))


def _count_records(path: str, kept: str | None) -> int:
    return len(open_record_path(path)) if kept is None else len(open_record_filter(path, kept))


def _no_samples(leaf: LeafPlan, *, start: int, stop: int) -> str:
    what = "this join" if leaf.join is not None else f"split part {leaf.split_part!r} of this dataset"
    if is_record_file(leaf.path):
        what = "this file"
    if leaf.filter is not None:
        what = f"the filter {leaf.filter!r} in {what}"
    # The subset has samples, but all of them are excluded.
    if stop > start:
        return f"all {stop - start} samples of {what} are excluded"
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
