"""The split of a merged dataset: each input's parts, excluded names and ranges."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ConfigError
from ...format.documents.split_config import SplitConfig, split_sample_name
from ...format.documents.subset import SubsetRange
from .inputs import MergeInput


def merged_split(inputs: Sequence[MergeInput]) -> SplitConfig:
    """Join the splits of datasets: parts of one name become one part.

    Raises:
        ConfigError: An input has no split file, or one with filters; or a part of one name has different ranges of its
            shards.
    """
    parts: dict[str, list[str]] = {}
    exclude: list[str] = []
    ranges: dict[str, tuple[MergeInput, SubsetRange | None]] = {}
    for one in inputs:
        split = one.folder.split
        if split is None:
            raise ConfigError(
                "this dataset has no split.yaml, so the merged one would not know the parts of its shards",
                at=one.path,
                hint=f"split it first: energon split {one.path} --split-ratio 8,1,1",
            )
        if split.sample_filters:
            raise ConfigError(
                f"part {next(iter(split.sample_filters))!r} of this dataset has a filter; parts with filters cannot be"
                " merged",
                at=one.path,
                hint=f"split it by shards first (energon split {one.path} --split-by shards), or mix the datasets in a"
                " metadataset",
            )
        known = one.folder.shard_counts
        for part, shards in split.split_parts.items():
            present = [one.new_name(shard) for shard in shards if shard in known]
            parts.setdefault(part, []).extend(present)
            if not present:
                continue
            found = split.sample_ranges.get(part)
            first, expected = ranges.setdefault(part, (one, found))
            if found != expected:
                raise ConfigError(
                    f"part {part!r} has {_shown(expected)} in {first.path}, and {_shown(found)} in {one.path};"
                    " a split file has one range for all shards of a part",
                    at=one.path,
                    hint="split one of them again, by shards: energon split PATH --split-by shards",
                )
        names = frozenset(known)
        exclude += [one.new_name(name) for name in split.exclude if split_sample_name(name, names)[0] in known]
    return SplitConfig(
        split_parts={part: tuple(shards) for part, shards in parts.items()},
        exclude=tuple(exclude),
        sample_ranges={part: found for part, (_, found) in ranges.items() if found is not None},
    )


def _shown(found: SubsetRange | None) -> str:
    return "whole shards" if found is None else f"the samples {found} of each shard"
