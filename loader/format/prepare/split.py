"""Plan the split of a dataset: as requested, or from its ``split.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ...errors import EnergonError
from ...storage import Storage
from ..documents.dataset_files import read_split_config
from ..documents.split_config import SplitConfig, format_split_config, parse_split_config, split_sample_name
from ..documents.subset import ShareRange, SubsetRange
from ..filters.rows import FilterFiles
from ..index.layout import ShardEntry
from ..nv_meta import FOLDER, SPLIT_YAML
from .plan import PartSize, SplitRequest
from .split_plan import SplitResult, ranges_by_ratio, split_by_patterns, split_by_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    """The split that a dataset will have."""

    parts: Mapping[str, tuple[str, ...]]  # part → shards
    text: str | None  # text of split.yaml; None keeps the existing file
    warnings: tuple[str, ...] = ()
    ranges: Mapping[str, SubsetRange] = field(default_factory=dict)  # part → its range of each of its shards
    filters: Mapping[str, str] = field(default_factory=dict)  # part → the filter that keeps its samples

    def counts(self, shards: Sequence[ShardEntry], *, storage: Storage) -> dict[str, PartSize]:
        """Return for each part the numbers of its shards and of its samples.

        Args:
            shards: Shards of the index; one of the split that is not among them has no samples.
        """
        config = SplitConfig(split_parts={}, sample_ranges=self.ranges)
        samples, file = {shard.name: shard.samples for shard in shards}, storage.path(f"{FOLDER}/{SPLIT_YAML}")
        counted: dict[str, PartSize] = {}
        for part, names in self.parts.items():
            known = (name for name in names if name in samples)
            ranges = (config.samples_of(part, samples[name], shard=name, file=file) for name in known)
            counted[part] = PartSize(len(names), sum(map(len, ranges)))
            if part in self.filters:
                kept = FilterFiles.of_dataset(storage, self.filters[part])
                counts = kept.read_counts() if kept.exist() else {}
                counted[part] = PartSize(len(names), sum(counts.get(name, 0) for name in names))
        return counted

    def share_of(self, part: str) -> Fraction:
        """Return the share of its shards that belongs to a part; 1 where it is not known before the scan."""
        found = self.ranges.get(part)
        return found.stop - found.start if isinstance(found, ShareRange) else Fraction(1)


def plan_split(storage: Storage, request: SplitRequest | None, shards: Sequence[str]) -> PlannedSplit:
    """Split the shards of a dataset as requested; without a request, keep the split of its ``split.yaml``."""
    if request is None:
        return _kept_split(read_split_config(storage), shards)
    ratio = request.ratio or {}
    ranges: dict[str, SubsetRange] = {}
    if request.parts is not None:
        result = SplitResult(parts=dict(request.parts))
    elif request.patterns is not None:
        result = split_by_patterns(shards, request.patterns)
    elif request.by_samples:  # a part with a share of 0 has no shard
        ranges = ranges_by_ratio(ratio)
        result = SplitResult(parts={name: tuple(shards) if name in ranges else () for name in ratio})
    else:
        result = split_by_ratio(shards, ratio, shuffle_seed=request.shuffle_seed)
    config = SplitConfig(split_parts=result.parts, exclude=_kept_excludes(storage, shards), sample_ranges=ranges)
    return PlannedSplit(parts=result.parts, text=format_split_config(config), warnings=result.warnings, ranges=ranges)


def rename_excluded(storage: Storage, split: PlannedSplit, renamed: Mapping[str, Mapping[str, str]]) -> PlannedSplit:
    """Rename the samples that a split excludes, after their keys were renamed.

    Args:
        renamed: Shard → {old key: new key}.
    """
    config = parse_split_config(split.text, file=SPLIT_YAML) if split.text else read_split_config(storage)
    if config is None:
        return split
    known = frozenset(renamed)

    def new_name(name: str) -> str:
        shard, key = split_sample_name(name, known)
        return f"{shard}/{renamed[shard].get(key, key)}" if key is not None and shard in known else name

    exclude = tuple(map(new_name, config.exclude))
    if exclude == config.exclude:
        return split
    return replace(split, text=format_split_config(replace(config, exclude=exclude)))


def _kept_split(config: SplitConfig | None, shards: Sequence[str]) -> PlannedSplit:
    if config is None:
        return PlannedSplit(parts={}, text=None, warnings=("the dataset has no split.yaml, and no split was given",))
    warnings = []
    used = {shard for names in config.split_parts.values() for shard in names}
    used_or_excluded = used | config.excluded_shards()
    unused = [shard for shard in shards if shard not in used_or_excluded]
    gone = sorted(used.difference(shards))
    if unused:
        warnings.append(
            f"{len(unused):,} shards are in no part of split.yaml, first {unused[0]}"
            " (--split-ratio or --split-parts makes a new split)"
        )
    if gone:
        warnings.append(
            f"split.yaml names {len(gone):,} shards that do not exist, first {gone[0]}"
            " (--split-ratio or --split-parts makes a new split)"
        )
    return PlannedSplit(
        parts=config.split_parts,
        text=None,
        warnings=tuple(warnings),
        ranges=config.sample_ranges,
        filters=config.sample_filters,
    )


def _kept_excludes(storage: Storage, shards: Sequence[str]) -> tuple[str, ...]:
    """Return the excluded names of the earlier split for existing shards: a new split does not fix broken samples."""
    try:
        earlier = read_split_config(storage)
    except EnergonError:
        return ()  # the file is replaced
    known = frozenset(shards)
    return tuple(name for name in (earlier.exclude if earlier else ()) if split_sample_name(name, known)[0] in known)
