"""Which shards go to which split part, decided before anything is scanned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import EnergonError
from ..storage import Storage
from .nv_meta import SPLIT_YAML
from .prepare_plan import SplitRequest
from .split_config import SplitConfig, format_split_config, parse_split_config, split_sample_name
from .split_file import read_split_config
from .split_plan import SplitResult, split_by_patterns, split_by_ratio

__all__ = ["PlannedSplit", "plan_split", "rename_excluded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplit:
    """The split that the dataset will have."""

    parts: Mapping[str, tuple[str, ...]]
    text: str | None  # of split.yaml; None keeps the file that is there
    warnings: tuple[str, ...] = ()


def plan_split(storage: Storage, request: SplitRequest | None, shards: Sequence[str]) -> PlannedSplit:
    """Carry out a split request, or look at the split that is kept.

    Raises:
        ConfigError: A pattern matches nothing, or the split file that is kept says something wrong.
    """
    if request is None:
        return _kept(read_split_config(storage), shards)
    if request.parts is not None:
        result = SplitResult(parts=dict(request.parts))
    elif request.patterns is not None:
        result = split_by_patterns(shards, request.patterns)
    else:
        result = split_by_ratio(shards, request.ratio or {}, shuffle_seed=request.shuffle_seed)
    config = SplitConfig(split_parts=result.parts, exclude=_kept_excludes(storage, shards))
    return PlannedSplit(parts=result.parts, text=format_split_config(config), warnings=result.warnings)


def rename_excluded(storage: Storage, split: PlannedSplit, renamed: Mapping[str, Mapping[str, str]]) -> PlannedSplit:
    """Let a split exclude the samples it excluded, under the keys they have been given.

    Args:
        storage: The dataset.
        split: The split as planned.
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


def _kept(config: SplitConfig | None, shards: Sequence[str]) -> PlannedSplit:
    if config is None:
        return PlannedSplit(parts={}, text=None, warnings=("there is no split.yaml, and none was asked for",))
    warnings = []
    used = {shard for names in config.split_parts.values() for shard in names}
    spoken_for = used | config.excluded_shards()
    unused = [shard for shard in shards if shard not in spoken_for]
    gone = sorted(used.difference(shards))
    if unused:
        warnings.append(
            f"{len(unused)} shards are in no part of split.yaml, first {unused[0]}"
            " (--split-ratio or --split-parts splits anew)"
        )
    if gone:
        warnings.append(
            f"split.yaml names {len(gone)} shards that are not there, first {gone[0]}"
            " (--split-ratio or --split-parts splits anew)"
        )
    return PlannedSplit(parts=config.split_parts, text=None, warnings=tuple(warnings))


def _kept_excludes(storage: Storage, shards: Sequence[str]) -> tuple[str, ...]:
    """Keep what an earlier split excludes, of shards that are still there: a new split does not mend broken samples."""
    try:
        earlier = read_split_config(storage)
    except EnergonError:
        return ()  # the file is replaced
    known = frozenset(shards)
    return tuple(name for name in (earlier.exclude if earlier else ()) if split_sample_name(name, known)[0] in known)
