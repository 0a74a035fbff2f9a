"""Count the samples of a metadataset's leaves, without reading a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from ..arrays import IntArray
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

    It opens each dataset once, and the index only for a filter, or if a subset divides excluded samples.
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
        # A filter, or ranges of shards: numbers of samples in the index.
        split = folder.documents.split
        if kept is not None or (split is not None and part in split.sample_ranges):
            excluded = excluded_samples(folder)
            if kept is None:
                ranges = samples_of_part(folder, part, excluded_shards=True)
            else:
                ranges, excluded = rows_of_part(folder, kept, part), kept.find(excluded)
            start, stop = resolve_subset(leaf.request.subset, sum(map(len, ranges)), at=leaf.path)
            return _checked(leaf, start, stop, stop - start - _count_within(excluded, ranges, start, stop))
        # Whole shards: their numbers of samples.
        whole = sum(samples for _, samples in _shards(folder, part))
        start, stop = resolve_subset(leaf.request.subset, whole, at=leaf.path)
        count = stop - start
        return _checked(leaf, start, stop, count and count - _count_excluded(folder, part, start, stop, whole))


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


def _shards(folder: Dataset, split_part: str) -> list[tuple[str, int]]:
    """Return the shards of a split part with their numbers of samples; excluded samples count, as in subsets."""
    shards = shards_of_part(folder, split_part)
    return [(name, folder.shard_counts[name]) for name in shards if name in folder.shard_counts]


def _count_excluded(folder: Dataset, split_part: str, start: int, stop: int, whole: int) -> int:
    split = folder.documents.split
    if split is None or not split.exclude:
        return 0
    shards, keys = split.excluded_shards(), split.excluded_samples()
    count = begin = 0
    # Follow the range `[begin, end)` of each shard in the split part, which the subset cuts.
    for name, samples in _shards(folder, split_part):
        end = begin + samples
        if name in shards:
            count += max(0, min(end, stop) - max(begin, start))
        elif stop - start == whole:
            count += len(keys.get(name, ()))
        elif end > start and begin < stop:
            first = _first_sample(folder, name) if name in keys else 0
            for key in keys.get(name, ()):
                numbers = folder.index.find(f"{name}/{key}")
                count += sum(start <= begin + sample - first < stop for sample in numbers)
        begin = end
    return count


def _count_within(numbers: IntArray, ranges: Iterable[range], start: int, stop: int) -> int:
    """Count the numbers, which ascend, among the elements ``[start, stop)`` of concatenated ranges."""
    count = begin = 0
    for some in ranges:
        inside = some[max(0, start - begin) : max(0, stop - begin)]
        count += int(numbers.searchsorted(inside.stop) - numbers.searchsorted(inside.start)) if inside else 0
        begin += len(some)
    return count


def _first_sample(folder: Dataset, shard: str) -> int:
    return next(entry.first_sample for entry in folder.index.shards if entry.name == shard)


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
