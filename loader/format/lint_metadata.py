"""Whether the files of ``.nv-meta`` agree with each other and with the shards on disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from ..errors import ConfigError, EnergonError, StorageError
from .dataset_folder import DatasetFolder
from .dataset_index import DatasetIndex
from .findings import Finding
from .key_table import equal_neighbours
from .shard_search import find_shards
from .split_config import SplitConfig, split_sample_name

__all__ = ["check_config", "check_duplicate_keys", "check_split", "unreadable"]

_DUPLICATES_SHOWN = 100
_ROWS_AT_ONCE = 1 << 20


def _config_findings(code: str, error: ConfigError) -> Iterator[Finding]:
    """Give a finding for each fault of a file."""
    if error.faults:
        yield from (Finding(code=code, message=f"{error.file}: {fault}") for fault in error.faults)
    else:
        yield Finding(code=code, message=f"{error.at}: {error.found}" if error.at else error.found)


def check_config(dataset: DatasetFolder) -> Iterator[Finding]:
    """Check that ``dataset.yaml`` can be read."""
    try:
        if dataset.config is None:
            message = "run energon prepare --sample-type … --field-map …, or load with cookers"
            yield Finding(code="W004", message=message)
    except ConfigError as error:
        yield from _config_findings("E003", error)


def check_split(dataset: DatasetFolder) -> Iterator[Finding]:
    """Check the split against the shards of the dataset and those on disk."""
    try:
        split = dataset.split
    except ConfigError as error:
        yield from _config_findings("E002", error)
        return
    if split is None:
        yield Finding(code="E002", message="there is no split.yaml: run energon prepare --split-ratio 8,1,1")
        return
    first_part: dict[str, str] = {}
    for part, shards in split.split_parts.items():
        if not shards:
            yield Finding(code="W205", message=f"split part {part!r} has no shards")
        for shard in shards:
            if first_part.setdefault(shard, part) != part:
                yield Finding(code="E203", message=f"it is in {first_part[shard]!r} and in {part!r}", shard=shard)
            if shard not in dataset.shard_counts:
                yield Finding(code="E202", message=f"split part {part!r} names it", shard=shard)
    yield from _excludes(dataset.index, split)
    yield from _unused(dataset, split, first_part)


def _excludes(index: DatasetIndex, split: SplitConfig) -> Iterator[Finding]:
    known = frozenset(shard.name for shard in index.shards)
    for name in split.exclude:
        shard, key = split_sample_name(name, known)
        if shard not in known:
            yield Finding(code="W204", message=f"excluded: {name!r}", shard=shard)
        elif key is not None and not index.find(f"{shard}/{key}"):
            yield Finding(code="W204", message=f"excluded: {name!r}", shard=shard, key=key)


def _unused(dataset: DatasetFolder, split: SplitConfig, used: dict[str, str]) -> Iterator[Finding]:
    try:
        on_disk = [shard.name for shard in find_shards(dataset.storage).shards]
    except StorageError:
        on_disk = []  # every shard is missing, and reported one by one
    excluded = split.excluded_shards()
    for shard in on_disk:
        if shard not in dataset.shard_counts:
            yield Finding(code="W201", message="it is not in the index either: run energon prepare again", shard=shard)
        elif shard not in used and shard not in excluded:
            yield Finding(code="W201", message="training never sees it", shard=shard)


def check_duplicate_keys(index: DatasetIndex) -> Iterator[Finding]:
    """Report keys that occur in several shards; the first ones, where there are many."""
    if index.layout.duplicate_keys:
        yield from islice(_duplicate_keys(index), _DUPLICATES_SHOWN)
        if index.layout.duplicate_keys > _DUPLICATES_SHOWN:
            total = index.layout.duplicate_keys
            yield Finding(
                code="W305", message=f"{total} samples in all (energon prepare --fix-duplicates renames them)"
            )


def _duplicate_keys(index: DatasetIndex) -> Iterator[Finding]:
    start = 0
    while start < len(index):
        stop = min(start + _ROWS_AT_ONCE, len(index))
        while stop < len(index) and index.key_hash[stop] == index.key_hash[stop - 1]:
            stop += 1
        for low, high in equal_neighbours(np.array(index.key_hash[start:stop])):
            seen: dict[str, int] = {}
            for sample in index.key_sample[start + low : start + high].tolist():
                first = seen.setdefault(index.key(sample), sample)
                if first != sample:
                    message = f"sample {index.full_key(first)} has it too: look-up by bare key finds both"
                    yield Finding(
                        code="W305", message=message, shard=index.shard_of(sample).name, key=index.key(sample)
                    )
        start = stop


def unreadable(error: EnergonError) -> Finding:
    """Give the finding for a dataset that cannot be opened."""
    return Finding(code="E001", message=str(error).replace("\n", " "))
