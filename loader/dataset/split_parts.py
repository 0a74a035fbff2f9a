"""The samples of split parts and filters, and the samples that a split excludes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import IntArray, numbers_in
from ..errors import ConfigError
from ..format.documents.messages import nearest_hint
from ..format.documents.next_command import split_hint
from ..format.documents.providers import ALL_PARTS
from ..format.filters.rows import (
    FilteredShard,
    FilterFiles,
    FilterRows,
    filter_names,
    open_file_filter,
    open_filter as open_filter_files,
)
from .dataset import Dataset
from .records import SingleFile


def is_excluded(dataset: Dataset, sample: int) -> bool:
    """Return True if the split excludes a sample."""
    shard = dataset.index.shard_of(sample).name
    if shard in dataset.documents.excluded_shards:
        return True
    keys = dataset.documents.excluded_keys.get(shard)
    return keys is not None and dataset.index.key(sample) in keys


def excluded_samples(dataset: Dataset) -> IntArray:
    """Return the numbers of all samples that the split excludes, ascending."""
    documents = dataset.documents
    if documents.split is None or not documents.split.exclude:
        return np.empty(0, np.int64)
    shards = {shard.name: shard for shard in dataset.index.shards}
    # Excluded shards are ranges; excluded samples are found by their keys.
    whole = numbers_in(dataset.index.samples_of(shards[name]) for name in documents.excluded_shards & shards.keys())
    single = [
        sample
        for name, keys in documents.excluded_keys.items()
        for key in keys
        for sample in dataset.index.find(f"{name}/{key}")
    ]
    return np.union1d(whole, np.array(single, np.int64))


def shards_of_part(dataset: Dataset, split_part: str) -> Sequence[str]:
    """Return the names of a split part's shards; raise a ``ConfigError`` that names all parts if it is none."""
    parts = dataset.documents.split.split_parts if dataset.documents.split else {}
    if split_part not in parts:
        raise ConfigError(
            f"there is no split part {split_part!r}; there are: {', '.join(parts) or 'none'}"
            + nearest_hint(split_part, parts),
            at=dataset.documents.split_path,
            hint=f"name one of these, or {split_hint(dataset.path)}",
        )
    return parts[split_part]


def samples_of_part(dataset: Dataset, split_part: str, *, excluded_shards: bool = False) -> list[range]:
    """Return the numbers of the samples of a split part, one range for each shard, excluded samples included.

    Args:
        dataset: The dataset; a single file serves as every split part.
        split_part: Name of the part: ``"train"``, ``"val"`` … or ``ALL_PARTS``.
    """
    if dataset.is_file:  # without a split, it serves as every split part
        return [range(len(dataset))]
    by_name = {shard.name: shard for shard in dataset.index.shards}
    shards = tuple(by_name) if split_part == ALL_PARTS else shards_of_part(dataset, split_part)
    excluded = frozenset[str]() if excluded_shards else dataset.documents.excluded_shards
    ranges = {
        name: dataset.index.samples_of(by_name[name]) for name in shards if name in by_name and name not in excluded
    }
    # A split by samples has only a range of each shard.
    split = dataset.documents.split
    if split is None or split_part not in split.sample_ranges:
        return list(ranges.values())
    file = dataset.documents.split_path
    chosen = (split.samples_of(split_part, len(all_), shard=name, file=file) for name, all_ in ranges.items())
    return [samples[kept.start : kept.stop] for samples, kept in zip(ranges.values(), chosen, strict=True)]


def open_filter(dataset: Dataset, name: str) -> FilterRows:
    """Open a filter; its files are in ``.nv-meta``, or next to a single file."""
    if isinstance(dataset, SingleFile):
        return open_file_filter(dataset.storage, dataset.file, name, len(dataset))
    first = {shard.name: shard.first_sample for shard in dataset.index.shards}
    shards = [FilteredShard(shard, samples, first.get(shard, 0)) for shard, samples in dataset.shard_counts.items()]
    return open_filter_files(
        FilterFiles.of_dataset(dataset.storage, name), shards, available=filter_names(dataset.storage)
    )
