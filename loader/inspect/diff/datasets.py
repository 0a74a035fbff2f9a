"""Collect differences; compare two datasets: shards first, and keys and parts only of shards that differ."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from ...dataset.dataset import Dataset
from ...dataset.tar import tar_index
from ...errors import plural
from ...format.documents.split_config import SplitConfig
from ...format.index.layout import ShardEntry
from ...format.index.shard_index import ShardIndex
from ...storage import ReadableFile
from ...training.states import Difference, Names, differences


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffReport:
    """The result of a comparison.

    Attributes:
        kinds: The kinds of A and B: ``dataset``, ``metadataset``, ``records`` or ``checkpoint``.
        differences: The first differences.
        resumes: Whether a run with the data or settings of B continues the state A exactly; None if A is no checkpoint.
    """

    kinds: tuple[str, str]
    before: str
    after: str
    differences: tuple[Difference, ...]
    count: int
    resumes: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if there is no difference."""
        return not self.count


@dataclass(slots=True)
class DifferenceList:
    """A list of differences that keeps the first ones and counts all."""

    limit: int
    kept: list[Difference] = field(default_factory=list)  # the first ones
    count: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, where: str, name: str, before: object, after: object) -> None:
        """Add a difference, if the values differ."""
        if before != after:
            self.extend([Difference(where, name, before, after)])

    def add_names(self, where: str, name: str, before: Sequence[str], after: Sequence[str]) -> None:
        """Add the names of ``"samples"`` and such that only one of both has, as one difference, if there are any."""
        known, known_now = frozenset(before), frozenset(after)
        self.add(
            where,
            name,
            Names.of([each for each in before if each not in known_now]),
            Names.of([each for each in after if each not in known]),
        )

    def add_order(self, where: str, before: Sequence[str], after: Sequence[str]) -> None:
        """Add the first position at which the order of the names that both have differs."""
        # Names that only one of them has would shift all later ones.
        known, known_now = frozenset(before), frozenset(after)
        pairs = zip_longest(
            (first for first in before if first in known_now),
            (first for first in after if first in known),
            fillvalue=None,
        )
        for position, (first, second) in enumerate(pairs):
            if first != second:
                self.add(where, f"number {position}", first, second)
                return

    def extend(self, added: Iterable[Difference]) -> None:
        """Add differences."""
        for difference in added:
            self.count += 1
            if len(self.kept) < self.limit:
                self.kept.append(difference)


_COLUMNS = ("part_name", "part_offset", "part_size", "part_ends", "key_bytes", "key_ends")
_MAX_ALIKE = 3  # samples of a shard that are listed one by one
_CHUNK_BYTES = 1 << 20  # compared at a time


def compare_datasets(
    before: Dataset,
    after: Dataset,
    difference_list: DifferenceList,
    *,
    contents: bool = False,
    documents: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Compare two datasets. Memory is bounded by two shards' index rows, and the differences that are kept.

    Args:
        documents: Compare the split and ``dataset.yaml``, too.
    """
    # Compare the lists of shards.
    shards, others = ({shard.name: shard for shard in dataset.index.shards} for dataset in (before, after))
    difference_list.add("", "samples", _samples(shards), _samples(others))
    difference_list.add("", "shards", len(shards), len(others))
    common = [name for name in shards if name in others]
    difference_list.add_order("shards", [*shards], [*others])
    difference_list.add_names("", "shards", [*shards], [*others])
    # Compare the shards that both have.
    for done, name in enumerate(common):
        _compare_shard(before, after, shards[name], others[name], difference_list, contents=contents)
        if on_progress is not None:
            on_progress(done + 1, len(common))
    if not documents:
        return
    # Compare the documents.
    compare_splits(before.documents.split, after.documents.split, difference_list)
    configs = [
        None if dataset.documents.config is None else dataclasses.asdict(dataset.documents.config)
        for dataset in (before, after)
    ]
    difference_list.extend(differences(configs[0], configs[1], "dataset.yaml"))


def _samples(shards: dict[str, ShardEntry]) -> int:
    return sum(shard.samples for shard in shards.values())


def _compare_shard(
    before: Dataset,
    after: Dataset,
    shard: ShardEntry,
    other: ShardEntry,
    difference_list: DifferenceList,
    *,
    contents: bool,
) -> None:
    # Files of records have no headers to compare.
    if before.format != "webdataset" or after.format != "webdataset":
        difference_list.add(shard.name, "samples", shard.samples, other.samples)
        difference_list.add(shard.name, "bytes", shard.size_bytes, other.size_bytes)
        equal = shard.size_bytes == other.size_bytes
        rows = None
    else:
        rows, rows_now = tar_index(before).shard_index(shard), tar_index(after).shard_index(other)
        equal = rows.part_names == rows_now.part_names and all(
            np.array_equal(getattr(rows, name), getattr(rows_now, name)) for name in _COLUMNS
        )
        if not equal:
            _compare_samples(shard.name, rows, rows_now, difference_list)
    # Where the indexes differ, the bytes differ, too.
    if equal and contents:
        with before.storage.open(shard.name) as file, after.storage.open(other.name) as file_now:
            _compare_bytes(file, file_now, shard.name, rows, difference_list)


def _compare_samples(shard: str, rows: ShardIndex, rows_now: ShardIndex, difference_list: DifferenceList) -> None:
    keys, keys_now = rows.keys(), rows_now.keys()
    # Compare the keys and their order.
    count = difference_list.count
    difference_list.add(shard, "samples", len(keys), len(keys_now))
    difference_list.add_names(shard, "samples", keys, keys_now)
    difference_list.add_order(shard, keys, keys_now)
    # Compare the parts of the samples that both have.
    numbers = {key: sample for sample, key in enumerate(keys_now)}
    changes: dict[tuple[str, ...], list[Difference]] = defaultdict(list)  # kind of change → of each sample
    for sample, key in enumerate(keys):
        if key in numbers:
            parts, parts_now = _parts(rows, sample), _parts(rows_now, numbers[key])
            if parts == parts_now:
                continue
            names, names_now = (", ".join(sorted(each)) for each in (parts, parts_now))
            if names != names_now:
                changes[names, names_now].append(Difference(f"{shard}/{key}", "parts", names, names_now))
            for name in sorted(parts.keys() & parts_now.keys()):
                if parts[name] != parts_now[name]:
                    part_path = f"{shard}/{key} [{name}]"
                    changes[(name,)].append(Difference(part_path, "bytes", parts[name], parts_now[name]))
    # List a few changes of each kind, and summarize many.
    for alike in changes.values():
        first = dataclasses.replace(alike[0], place=f"{alike[0].place} and {len(alike) - 1:,} more")
        difference_list.extend(alike if len(alike) <= _MAX_ALIKE else [first])
    if difference_list.count == count:
        difference_list.add(shard, "positions of the parts", "those of A", "those of B")


def _parts(rows: ShardIndex, sample: int) -> dict[str, int]:
    start = int(rows.part_ends[sample - 1]) if sample else 0
    places = range(start, int(rows.part_ends[sample]))
    return {rows.part_names[rows.part_name[row]]: int(rows.part_size[row]) for row in places}


def _compare_bytes(
    file: ReadableFile, file_now: ReadableFile, shard: str, rows: ShardIndex | None, difference_list: DifferenceList
) -> None:
    size_bytes = min(file.size_bytes, file_now.size_bytes)
    for offset in range(0, size_bytes, _CHUNK_BYTES):
        length = min(_CHUNK_BYTES, size_bytes - offset)
        piece, piece_now = (np.frombuffer(each.read_at(offset, length), np.uint8) for each in (file, file_now))
        # Name the sample of the first byte that differs.
        unequal = np.flatnonzero(piece != piece_now)
        if len(unequal):
            start = int(unequal[0])
            key = _sample_at(rows, offset + start)
            name = f"byte {offset + start}"
            difference_list.add(
                shard if key is None else f"{shard}/{key}", name, int(piece[start]), int(piece_now[start])
            )
            return
    difference_list.add(shard, "bytes", file.size_bytes, file_now.size_bytes)


def _sample_at(rows: ShardIndex | None, offset: int) -> str | None:
    """Return the key of the sample whose parts have a byte; None between parts."""
    if rows is None:
        return None
    inside = np.flatnonzero((rows.part_offset <= offset) & (offset < rows.part_offset + rows.part_size))
    if not len(inside):
        return None
    return rows.keys()[int(np.searchsorted(rows.part_ends, inside[0], side="right"))]


def compare_splits(before: SplitConfig | None, after: SplitConfig | None, difference_list: DifferenceList) -> None:
    """Compare the shards of split parts, their ranges and the excluded names."""
    # Compare the shards of each part, and their order if they are the same.
    parts, parts_now = ({} if split is None else split.split_parts for split in (before, after))
    for part in dict.fromkeys((*parts, *parts_now)):
        shards, shards_now = parts.get(part), parts_now.get(part)
        if shards == shards_now:
            continue
        difference_list.add("split", part, _count(shards), _count(shards_now))
        difference_list.add_names(f"split: {part}", "shards", shards or (), shards_now or ())
        if shards and shards_now and sorted(shards) == sorted(shards_now):
            difference_list.add_order(f"split: {part}", shards, shards_now)
    # Compare what narrows the parts down.
    ranges: list[Any] = [
        {} if split is None else {part: str(taken) for part, taken in split.sample_ranges.items()}
        for split in (before, after)
    ]
    difference_list.extend(differences(ranges[0], ranges[1], "split: sample_ranges"))
    excluded, excluded_now = (frozenset(() if split is None else split.exclude) for split in (before, after))
    difference_list.add_names("split", "excluded", sorted(excluded), sorted(excluded_now))


def _count(shards: Sequence[str] | None) -> str | None:
    return None if shards is None else plural(len(shards), "shard")
