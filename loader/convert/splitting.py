"""Change the split of a prepared dataset; the one before is kept for :func:`undo_split`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Components, IntArray
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.query import Compute
from ..errors import ConfigError, EnergonError, plural
from ..format.documents.dataset_files import read_split_config
from ..format.documents.split_config import SplitConfig, format_split_config, parse_split_config, split_sample_name
from ..format.filters.build import build_filter_index
from ..format.filters.rows import FilterFiles
from ..format.nv_meta import FOLDER, LOCK, SPLIT_YAML
from ..storage import Storage, read_document, rename_file
from .rows.whole_groups import parts_of_groups
from .split_groups import Groups, ProgressCallback, find_groups

_BEFORE = ".before"
_TOLERANCE = 0.01  # of a part's share, in which a split by shards is chosen
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """A new split of a dataset.

    Attributes:
        ratio: Part → share of the samples.
        by: Assign whole shards (``"shards"``), which all readers of the format understand; or samples (``"samples"``),
            by a filter for each part; or whole shards if each part then meets its share within a percentage point, and
            samples otherwise (``"auto"``).
        group_by: Expression of groups that are not divided, see :func:`.find_groups`; None divides as needed.
        stable: Choose the part of a group by a hash of its name alone.
        compute: Reads measured values of groups that are not columns.
    """

    path: str
    ratio: Mapping[str, float]
    by: Literal["auto", "shards", "samples"] = "auto"
    group_by: str | None = None
    stable: bool = False
    seed: int = 0
    dry_run: bool = False
    compute: Compute | None = None


class PartShare(NamedTuple):
    """The size of a split part: shards, samples, and the share of all samples."""

    shards: int
    samples: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """The outcome of a split.

    Attributes:
        alone: Number of samples without a group, which are divided freely.
        warnings: Results that the user may not expect.
    """

    by: Literal["shards", "samples"]
    parts: Mapping[str, PartShare]
    groups: int
    alone: int
    file: str
    dry_run: bool
    warnings: tuple[str, ...]


def run_split(plan: SplitPlan, *, on_progress: ProgressCallback | None = None) -> SplitReport:
    """Write a new split file; excluded samples stay excluded.

    Args:
        on_progress: Called while samples are read for their groups.

    Raises:
        ConfigError: The groups do not exist, or a part would have no samples.
        StorageError: The dataset is missing, not prepared, or cannot be written.
    """
    # Group the samples, and assign whole shards, or samples where the shares would be too far from the ratio.
    folder = folder_at(plan.path)
    groups = find_groups(folder, plan.group_by, compute=plan.compute, on_progress=on_progress)
    shards = folder.index.shards
    shard_of = np.repeat(np.arange(len(shards)), [shard.samples for shard in shards])
    chosen = _parts_by_shards(plan, groups, shard_of, [shard.name for shard in shards])
    by: Literal["shards", "samples"] = "shards"
    if plan.by == "samples" or (plan.by == "auto" and not _is_near(plan.ratio, chosen)):
        by, chosen = "samples", _parts_of_groups(plan, groups.names, groups.sizes)[groups.numbers]
    # Collect the samples and shards of each part.
    counts = np.bincount(chosen, minlength=len(plan.ratio)).tolist()
    names = [shard.name for shard in shards]
    members = [np.flatnonzero(chosen == part_index) for part_index in range(len(plan.ratio))]
    parts = {
        part: tuple(names[shard] for shard in np.unique(shard_of[numbers]).tolist())
        for part, numbers in zip(plan.ratio, members, strict=True)
    }
    for part, count in zip(plan.ratio, counts, strict=True):
        if plan.ratio[part] > 0 and not count:
            raise ConfigError(
                f"part {part!r} would have no samples: groups: {len(groups.names):,}, shards: {len(names):,}",
                at=folder.path,
                hint=_how_to_fill(plan, len(groups.names)),
            )
    # Write the split.
    file = f"{FOLDER}/{folder.documents.split_file or SPLIT_YAML}"
    if not plan.dry_run:
        with folder.storage.lock(LOCK):
            _write(folder, file, parts, dict(zip(parts, members, strict=True)) if by == "samples" else {})
    warnings = []
    if by == "samples":
        warnings.append("megatron-energon refuses a split by samples: split.yaml has the key sample_filters")
    if groups.alone:
        warnings.append(f"divided one by one: {plural(groups.alone, 'sample')} without a value of {plan.group_by}")
    return SplitReport(
        by=by,
        parts={
            part: PartShare(len(parts[part]), count, count / max(1, len(chosen)))
            for part, count in zip(plan.ratio, counts, strict=True)
        },
        groups=len(groups.names),
        alone=groups.alone,
        file=folder.storage.path(file),
        dry_run=plan.dry_run,
        warnings=tuple(warnings),
    )


def _how_to_fill(plan: SplitPlan, groups: int) -> str:
    """Return how a split can have no part without samples."""
    if groups < sum(share > 0 for share in plan.ratio.values()):
        return f"pass a ratio with {groups:,} or fewer parts, or group by something finer"
    return "omit --stable, or give the part a larger share" if plan.stable else "pass --split-by samples"


def _parts_of_groups(plan: SplitPlan, names: list[str], sizes: IntArray) -> IntArray:
    if plan.stable:
        return assign_stable(names, plan.ratio, plan.seed)
    return assign_balanced(names, sizes, plan.ratio, plan.seed)


def _parts_by_shards(plan: SplitPlan, groups: Groups, shard_of: IntArray, names: list[str]) -> IntArray:
    """Return the part of each sample if shards with a common group stay together, shape (n,)."""
    # Shards that share a group are assigned together.
    roots, component_of = np.unique(connect_shards(shard_of, groups.numbers, len(names)), return_inverse=True)
    sizes = np.bincount(component_of[shard_of], minlength=len(roots)).astype(np.int64)
    return _parts_of_groups(plan, [names[root] for root in roots.tolist()], sizes)[component_of][shard_of]


def _is_near(ratio: Mapping[str, float], chosen: IntArray) -> bool:
    shares = np.bincount(chosen, minlength=len(ratio)) / max(1, len(chosen))
    wanted = np.array([*ratio.values()]) / sum(ratio.values())
    return bool((np.abs(shares - wanted) <= _TOLERANCE).all())


def _write(folder: Dataset, file: str, parts: Mapping[str, tuple[str, ...]], members: Mapping[str, IntArray]) -> None:
    """Write the filters, then the copy of the split before, then the split: a kill leaves the old split or the new."""
    storage = folder.storage
    # Filters get new names, so that the old split stays valid until it is replaced.
    digest = blake2b(digest_size=4)
    for numbers in members.values():
        digest.update(numbers.astype("<i8").tobytes() + b"|")
    filters = {part: f"split_{digest.hexdigest()}_{_UNSAFE.sub('_', part)[:50]}" for part in members}
    for position, (part, name) in enumerate(filters.items()):
        if name in [*filters.values()][:position]:
            filters[part] = f"{name}_{position}"
    # Write the filters and the split.
    for part, name in filters.items():
        build_filter_index(folder.path, name, members[part])
    config = SplitConfig(split_parts=dict(parts), exclude=_kept_excludes(folder), sample_filters=filters)
    # Only the previous split is kept, so filters of the one before it can go.
    obsolete = _filters_of(storage, f"{file}{_BEFORE}") - _filters_of(storage, file) - set(filters.values())
    before = read_document(storage, file) if storage.exists(file) else b""
    for name, data in ((f"{file}{_BEFORE}", before), (file, format_split_config(config, file=file).encode())):
        storage.write(name, data)
    _remove_filters(storage, obsolete)


def _kept_excludes(folder: Dataset) -> tuple[str, ...]:
    try:
        earlier = read_split_config(folder.storage)
    except EnergonError:
        return ()  # the file is replaced
    known = frozenset(folder.shard_counts)
    names = earlier.exclude if earlier else ()
    return tuple(name for name in names if split_sample_name(name, known)[0] in known or folder.index.find(name))


def undo_split(path: str) -> bool:
    """Bring back the split before the last :func:`run_split`; return False if there is none."""
    folder = folder_at(path)
    storage, file = folder.storage, f"{FOLDER}/{folder.documents.split_file or SPLIT_YAML}"
    with storage.lock(LOCK):
        if not storage.exists(f"{file}{_BEFORE}"):
            return False
        # An empty copy means that there was no split file.
        before = read_document(storage, f"{file}{_BEFORE}")
        obsolete = _filters_of(storage, file) - _filters_of(storage, f"{file}{_BEFORE}")
        if before:
            rename_file(storage, f"{file}{_BEFORE}", file)
        else:
            storage.remove(file)
            storage.remove(f"{file}{_BEFORE}")
        _remove_filters(storage, obsolete)
    return True


def _filters_of(storage: Storage, file: str) -> set[str]:
    if not storage.exists(file):
        return set()
    try:
        text = read_document(storage, file).decode("utf-8", "replace")
        config = parse_split_config(text, file=file.removesuffix(_BEFORE))
    except EnergonError:
        return set()
    return {name for name in config.sample_filters.values() if name.startswith("split_")}


def _remove_filters(storage: Storage, names: set[str]) -> None:
    for name in names:
        prefix = FilterFiles.of_dataset(storage, name).prefix
        for extension in (".json", ".idx"):
            storage.remove(f"{prefix}{extension}")


def _positions(names: Sequence[str], seed: int) -> npt.NDArray[np.float64]:
    """Return a pseudorandom number in [0, 1) for each name, which depends on nothing else."""
    prefix = f"{seed}\0".encode()
    digests = (blake2b(prefix + name.encode("utf-8", "surrogateescape"), digest_size=8).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") / 2**64 for digest in digests], np.float64)


def _ends(ratio: Mapping[str, float]) -> npt.NDArray[np.float64]:
    return np.cumsum([*ratio.values()]) / sum(ratio.values())


def assign_balanced(names: Sequence[str], sizes: IntArray, ratio: Mapping[str, float], seed: int) -> IntArray:
    """Return the part of each group, so that the parts come as near to the ratio as the groups' sizes allow.

    Groups are put in a pseudorandom order, which is cut where the share of the samples is reached. Where there are
    enough groups, each part with a share has one at least.

    Args:
        sizes: Their numbers of samples, shape (n,).

    Returns:
        Positions of parts in the ratio, shape (n,).

    >>> assign_balanced(["a", "b", "c", "d"], np.array([1, 1, 1, 1]), {"train": 3, "val": 1}, 0).tolist().count(0)
    3
    """
    order = np.argsort(_positions(names, seed), kind="stable")
    return parts_of_groups(sizes, order, _ends(ratio) * sizes.sum(), np.flatnonzero([*ratio.values()]))


def assign_stable(names: Sequence[str], ratio: Mapping[str, float], seed: int) -> IntArray:
    """Return the part of each group by a hash of its name alone, so that it stays when other groups are added.

    >>> assign_stable(["a", "b"], {"train": 1, "val": 1}, 0).tolist() == assign_stable(
    ...     ["a"], {"train": 1, "val": 1}, 0).tolist() + assign_stable(["b"], {"train": 1, "val": 1}, 0).tolist()
    True
    """
    return np.searchsorted(_ends(ratio)[:-1], _positions(names, seed), side="right").astype(np.int64)


def connect_shards(shard_of: IntArray, groups: IntArray, shards: int) -> IntArray:
    """Return the component of each shard; shards that share a group are in one component.

    Args:
        shard_of: Number of each sample's shard, shape (n,).
        groups: Number of each sample's group, shape (n,).

    Returns:
        For each shard the lowest number of a shard in its component, shape (shards,).

    >>> connect_shards(np.array([0, 1, 2]), np.array([5, 6, 5]), 4).tolist()
    [0, 1, 0, 3]
    """
    # The shard of each sample is connected with the shard of the first sample of its group.
    _, first, group_of = np.unique(groups, return_index=True, return_inverse=True)
    components = Components(shards)
    components.join(shard_of[first][group_of], shard_of)
    return components.roots(np.arange(shards))
