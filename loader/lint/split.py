"""Check the split of a dataset and its filters against the shards."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..dataset.dataset import Dataset
from ..dataset.split_parts import open_filter, samples_of_part
from ..errors import ConfigError, EnergonError, StorageError
from ..format.documents.providers import SHARD_SUFFIXES
from ..format.documents.split_config import SplitConfig, split_sample_name
from ..format.documents.subset import do_overlap
from ..format.filters.files import FilterFiles, filter_names
from ..format.index.layout import SampleIndex
from ..format.prepare.shards import find_shards
from .metadata import DatasetFiles, faults_of_file
from .rule import DATASETS, Finding, LintRule, LintRules


def _check_filters(dataset: Dataset) -> Iterator[Finding]:
    """Check every filter of the dataset, row by row."""
    for name in filter_names(dataset.storage):
        try:
            open_filter(dataset, name).check()
        except EnergonError as error:
            yield Finding(Split.E206, error.message)


def check_split(dataset: Dataset) -> Iterator[Finding]:
    """Check the split against the shards of the dataset and on disk."""
    try:
        split = dataset.documents.split
    except ConfigError as error:
        yield from faults_of_file(DatasetFiles.E002, error)
        return
    if split is None:
        yield Finding(DatasetFiles.E002, "split.yaml is missing: run energon prepare --split-ratio 8,1,1")
        return
    parts_of: dict[str, list[str]] = {}
    for part, shards in split.split_parts.items():
        if not shards:
            yield Finding(Split.W205, f"split part {part!r} has no shards")
        for shard in shards:
            for other in parts_of.setdefault(shard, []):
                if other != part and _do_parts_overlap(dataset, split, other, part):
                    message = f"the shard is in parts {other!r} and {part!r}"
                    yield Finding(Split.E203, message, shard=shard)
            parts_of[shard].append(part)
            if shard not in dataset.shard_counts:
                yield Finding(Split.E202, f"split part {part!r} names this shard", shard=shard)
        try:
            samples_of_part(dataset, part)
        except ConfigError as error:
            yield Finding(DatasetFiles.E002, f"sample_ranges.{part}: {error.message}")
    for part, name in split.sample_filters.items():
        if not FilterFiles.of_dataset(dataset.storage, name).exist():
            yield Finding(Split.E206, f"part {part!r} of the split has the filter {name!r}, which is missing")
    yield from _unknown_excludes(dataset.index, split)
    yield from _unused_shards(dataset, split, parts_of)


def _do_parts_overlap(dataset: Dataset, split: SplitConfig, one: str, other: str) -> bool:
    ranges, filters = split.sample_ranges, split.sample_filters
    if one in filters and other in filters:
        return _do_filters_overlap(dataset, filters[one], filters[other])
    return do_overlap([ranges[one]] if one in ranges else [], [ranges[other]] if other in ranges else [])


def _do_filters_overlap(dataset: Dataset, one: str, other: str) -> bool:
    try:
        return len(open_filter(dataset, one).intersect(open_filter(dataset, other))) > 0
    except EnergonError:
        return False  # reported with the filter


def _unknown_excludes(index: SampleIndex, split: SplitConfig) -> Iterator[Finding]:
    known = frozenset(shard.name for shard in index.shards)
    for name in split.exclude:
        shard, key = split_sample_name(name, known)
        if shard not in known and not (key is None and index.find(name)):
            yield Finding(Split.W204, f"excluded: {name!r}", shard=shard)
        elif shard in known and key is not None and not index.find(f"{shard}/{key}"):
            yield Finding(Split.W204, f"excluded: {name!r}", shard=shard, key=key)


def _unused_shards(dataset: Dataset, split: SplitConfig, used: Collection[str]) -> Iterator[Finding]:
    try:
        on_disk = find_shards(dataset.storage).names
    except StorageError:
        on_disk = []  # every shard is missing, and reported one by one
    for name in dataset.storage.unreadable_names:
        if name.endswith(SHARD_SUFFIXES) and name not in dataset.shard_counts:
            message = "a name that no reader opens: a pipe, device or socket, or one with '..'"
            yield Finding(Split.W201, message, shard=name, in_index=False)
    excluded = split.excluded_shards()
    for shard in on_disk:
        if shard not in dataset.shard_counts:
            message = "the shard is not in the index either: run energon prepare again"
            yield Finding(Split.W201, message, shard=shard, in_index=False)
        elif shard not in used and shard not in excluded:
            yield Finding(Split.W201, "training never reads this shard", shard=shard)


class Split(LintRules):
    """The rules of splits and filters."""

    title = "The split"
    kinds = DATASETS

    W201 = LintRule(
        "a shard is on disk, but in no split part",
        why="Its samples are never loaded.",
        action="add it to `split.yaml`, or list it under `exclude`",
        example="A shard was copied into the folder after the dataset was prepared.",
        of_dataset=check_split,
    )
    E202 = LintRule(
        "the split names a shard that is not in the dataset",
        why="The split part cannot be loaded as it is written.",
        action="correct the name; if the shard is new, prepare again",
        example="A shard was renamed, and `split.yaml` has its old name.",
        of_dataset=check_split,
    )
    E203 = LintRule(
        "a shard is in two split parts",
        why="The same samples are used for training and for validation, so that the validation loss is too low.",
        action="remove it from one of them; otherwise validation uses training data",
        example="Two patterns of `--split-parts` match the same shard.",
        of_dataset=check_split,
    )
    W204 = LintRule(
        "the split excludes something that does not exist",
        why="A sample that should be excluded may be used: its name is not the one in `exclude`.",
        action="correct the name",
        example="`exclude` has `shard_0.tar/000O12`, with the letter O.",
        of_dataset=check_split,
    )
    W205 = LintRule(
        "a split part is empty",
        why="A loader of that split part stops with an error.",
        action="see [Choose the split](../how-to/choose-the-split.md)",
        example="A ratio of 8,1,1 over three shards leaves none for `test`.",
        of_dataset=check_split,
    )
    E206 = LintRule(
        "a filter is damaged, or belongs to other shards",
        why="The positions in the filter belong to other samples. Loaders refuse it.",
        action="[build it again](../how-to/filter-samples.md)",
        example="Shards were added to the dataset after the filter was built.",
        of_dataset=_check_filters,
    )
