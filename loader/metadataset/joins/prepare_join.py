"""Find the rows of a join, and write them next to the metadataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray, numbers_in
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.selection import Selection
from ...dataset.split_parts import excluded_samples, samples_of_part
from ...dataset.tar import tar_index
from ...errors import ConfigError
from ...format.filters.rows import FilterRows
from ...format.tar.names import decode_name
from ..documents.leaf_plan import JoinMember, JoinPlan, Nonmatch
from .files import JoinFiles, JoinRecord, identify_member, join_hash
from .keys import Keys, SampleKeys

_MIN_BATCH, _MAX_BATCH = 1 << 18, 1 << 20
"""Samples of the primary that are matched at a time; each batch reads the whole key tables of the other datasets."""

_BATCHES = 16
"""Number of batches, within the limits above."""

_MAX_KEYS_SHOWN = 5

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """Counts of the keys that one dataset shares with the primary one.

    Attributes:
        path: Path of the dataset.
        nonmatch: Treatment of keys that the dataset lacks.
        matched: Samples of the primary whose key it has.
        missing: Samples of the primary whose key it lacks.
        unused: Its own samples whose key the primary lacks.
    """

    path: str
    nonmatch: Nonmatch
    matched: int
    missing: int
    unused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReport:
    """Report on a prepared join.

    Attributes:
        file: Path of the metadataset.
        place: Place of the join in that file.
        name: Name of the join's files, without extension.
        rows: Samples of the join.
        skipped: Samples of the primary that are skipped, since a dataset lacks their key.
        members: The other datasets, in order.
    """

    file: str
    place: str
    name: str = field(metadata={"json": None})
    rows: int
    skipped: int
    members: tuple[MemberReport, ...] = field(metadata={"json": "datasets"})


def prepare_join(plan: JoinPlan, *, progress: Progress | None = None) -> JoinReport:
    """Find the rows of a join, and write them next to its metadataset, in constant memory.

    The samples of the primary's split part, in its order and without excluded ones, are matched with the split parts of
    the other datasets by key, without the shard. Existing rows are written again.

    Raises:
        ConfigError: A dataset with ``nonmatch: error`` lacks keys, or has a key of the primary twice. Nothing is
            written.
    """
    folders = [folder_at(member.ref) for member in plan.members]
    identities = tuple(identify_member(member, folder) for member, folder in zip(plan.members, folders, strict=True))
    files, name, join = JoinFiles(plan.file), join_hash(identities), _Join(plan, folders)
    # The rows are valid once their record is written.
    with files.create_rows(name, len(folders)) as append:
        for rows in join.batches(progress):
            append(rows)
    files.write_record(name, JoinRecord(rows=join.found, members=identities))
    return JoinReport(
        file=plan.file,
        place=plan.place,
        name=name,
        rows=join.found,
        skipped=join.skipped,
        members=tuple(join.member_reports()),
    )


def find_rows(plan: JoinPlan) -> IntArray:
    """Find the rows of a join outside of a metadataset, in memory: 8 bytes for each row and dataset.

    Returns:
        Shape (rows, members): the numbers of samples in the members' indexes; -1 if a member has none.
    """
    join = _Join(plan, [folder_at(member.ref) for member in plan.members])
    return np.concatenate([np.empty((0, len(plan.members)), np.int64), *join.batches()])


class _Join:
    def __init__(self, plan: JoinPlan, folders: list[Dataset]) -> None:
        self._plan = plan
        self._folders = folders
        self.found = self.skipped = 0
        """Numbers of rows, and of samples of the primary without one."""
        self._missing = np.zeros(len(folders), np.int64)
        self._skips = [position for position, member in enumerate(plan.members) if member.nonmatch == "skip"]
        self._errs = [position for position, member in enumerate(plan.members) if member.nonmatch == "error"]
        self._lacking = [0] * len(folders)
        self._keys_lacking: list[list[str]] = [[] for _ in folders]
        # The keys, runs of samples and filter of each dataset.
        parts = [folder.documents.loaded_part(member.split_part) for folder, member in self._pairs()]
        self._keys = [SampleKeys(tar_index(folder)) for folder in folders]
        self._runs = list(map(samples_of_part, folders, parts))
        self._filters = [
            Selection(folder, part, member.filter).filter
            for (folder, member), part in zip(self._pairs(), parts, strict=True)
        ]
        self._matchers = list(map(KeyMatcher, folders[1:], self._keys[1:], self._runs[1:], self._filters[1:]))

    def _pairs(self) -> Iterator[tuple[Dataset, JoinMember]]:
        return zip(self._folders, self._plan.members, strict=True)

    def batches(self, progress: Progress | None = None) -> Iterator[IntArray]:
        """Yield the rows of some samples of the primary at a time, shape (n, members)."""
        excluded, runs = excluded_samples(self._folders[0]), self._runs[0]
        done, total = 0, sum(map(len, runs))
        with ExitStack() as stack:
            for keys in self._keys:
                keys.open(stack)
            for some in _batches(runs):
                yield self._rows(*_samples_of(self._keys[0], some, excluded, self._filters[0]))
                done += sum(map(len, some))
                if progress is not None:
                    progress(done, total)
        # Missing keys are an error after all batches, so that it has the number of all.
        self._check_missing()

    def _rows(self, samples: IntArray, keys: Keys) -> IntArray:
        rows = np.empty((len(samples), 1 + len(self._matchers)), np.int64)
        rows[:, 0] = samples
        # Find the samples of the other datasets by key.
        for position, matcher in enumerate(self._matchers, 1):
            rows[:, position], duplicate = matcher.match(keys)
            if duplicate is not None:
                raise self._duplicate_error(position, *duplicate)
        # Skip the rows in which a dataset with `nonmatch: skip` has no sample.
        missing = rows < 0
        kept = ~missing[:, self._skips].any(axis=1)
        self._missing += missing.sum(axis=0)
        # Count the missing samples of datasets that must have all.
        for position in self._errs:
            # A sample that one dataset skips may be missing in the others.
            lacks = np.flatnonzero(missing[:, position] & kept)
            self._lacking[position] += len(lacks)
            shown = self._keys_lacking[position]
            shown.extend(decode_name(keys.one(key)) for key in lacks[: _MAX_KEYS_SHOWN - len(shown)].tolist())
        self.found += int(kept.sum())
        self.skipped += len(samples) - int(kept.sum())
        return rows[kept]

    def _check_missing(self) -> None:
        faults = []
        for position in self._errs:
            lacking, keys = self._lacking[position], self._keys_lacking[position]
            if lacking:
                more = ", …" if lacking > len(keys) else ""
                member, primary = self._plan.members[position], self._plan.members[0]
                some = ", ".join(map(repr, keys)) + more
                faults.append(f"{member.path} lacks {lacking} of the keys of {primary.path}: {some}")
        if faults:
            raise ConfigError(
                "\n".join(faults),
                file=self._plan.file,
                at=f"{self._plan.file}: {self._plan.place}",
                hint="set nonmatch: skip at that dataset to skip these samples, or nonmatch: none to get None",
            )

    def _duplicate_error(self, position: int, key: bytes, first: int, other: int) -> ConfigError:
        index, member = self._folders[position].index, self._plan.members[position]
        name = decode_name(key)
        shards = f"{index.shard_of(first).name} and {index.shard_of(other).name}"
        return ConfigError(
            f"{member.path} has the key {name!r} twice in its split part {member.split_part!r}: in {shards}",
            file=self._plan.file,
            at=f"{self._plan.file}: {self._plan.place}",
            hint=f"exclude one of them: add {index.full_key(other)!r} to 'exclude' in its split file",
        )

    def member_reports(self) -> Iterator[MemberReport]:
        missing = self._missing[1:].tolist()
        for member, matcher, lacks in zip(self._plan.members[1:], self._matchers, missing, strict=True):
            yield MemberReport(
                path=member.path,
                nonmatch=member.nonmatch,
                matched=matcher.matched,
                missing=lacks,
                unused=matcher.unused,
            )


def _samples_of(
    keys: SampleKeys, runs: list[range], excluded: IntArray, kept: FilterRows | None
) -> tuple[IntArray, Keys]:
    samples = numbers_in(runs)
    included = ~np.isin(samples, excluded)
    if kept is not None:
        included &= kept.keeps(samples)
    return samples[included], Keys.concatenate([keys.read(run) for run in runs]).chosen(included)


def _batches(runs: list[range]) -> Iterator[list[range]]:
    """Split long runs of samples and group short ones, so that each batch has about the same number of samples."""
    batch_size = min(max(_MIN_BATCH, sum(map(len, runs)) // _BATCHES), _MAX_BATCH)
    batch: list[range] = []
    room = batch_size
    for run in runs:
        rest = run
        while len(rest):
            batch.append(rest[:room])
            rest, room = rest[room:], room - len(batch[-1])
            if not room:
                yield batch
                batch, room = [], batch_size
    if batch:
        yield batch


_SAMPLES_PER_READ = 1 << 18


class KeyMatcher:
    """Vectorised lookup of samples of one split part by key.

    Args:
        runs: The samples of the split part, a range for each shard.
        kept: The filter that selects its samples; None keeps all.
    """

    def __init__(self, folder: Dataset, keys: SampleKeys, runs: Sequence[range], kept: FilterRows | None) -> None:
        self._keys = keys
        ends = sorted((run.start, run.stop) for run in runs if len(run))
        self._starts, self._stops = (
            (np.array(column, np.int64) for column in zip(*ends, strict=True)) if ends else _EMPTY
        )
        self._excluded = excluded_samples(folder)
        self._kept = kept
        self._shards = [folder.index.shard_of(start).name for start in self._starts.tolist()]
        self._used = np.zeros((len(folder.index) + 7) // 8, np.uint8)  # a bit for each sample
        self.matched = 0
        """Number of keys found."""

    @property
    def unused(self) -> int:
        excluded = self._excluded[self._is_in_part(self._excluded)]
        samples = int((self._stops - self._starts).sum())
        if self._kept is not None:
            excluded = excluded[self._kept.keeps(excluded)]
            samples = sum(len(self._kept.rows_of(shard)) for shard in self._shards)
        return samples - len(excluded) - int(np.unpackbits(self._used).sum(dtype=np.int64))

    def match(self, keys: Keys) -> tuple[IntArray, tuple[bytes, int, int] | None]:
        """Find the samples with the given keys.

        Returns:
            The number of each key's sample in the index, shape (keys,); -1 if there is none. And a key that two samples
            have, with both; None if there is no such key.
        """
        key_index, sample = self._verified(keys, *self._candidates(keys.hashes()))
        # Enter each sample at its key.
        matches = np.full(len(keys), -1, np.int64)
        matches[key_index] = sample
        self._mark_used(sample)
        self.matched += len(key_index)
        # A key that occurs twice among the pairs has two samples.
        order = np.argsort(key_index, kind="stable")
        repeated = np.flatnonzero(np.diff(key_index[order]) == 0)
        duplicate = None
        if len(repeated):
            first, other = sorted(sample[order[repeated[0] : repeated[0] + 2]].tolist())
            duplicate = keys.one(int(key_index[order[repeated[0]]])), first, other
        return matches, duplicate

    def _candidates(self, hashes: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
        """Return pairs of a key's number and a sample with the same hash, in the part and not excluded."""
        # Blocks of the table ascend, so each concerns one range of the sorted hashes.
        order = np.argsort(hashes)
        ascending = hashes[order]
        pairs: list[tuple[IntArray, IntArray]] = [(_EMPTY[0], _EMPTY[0])]
        for table, samples in self._keys.table():
            start = int(np.searchsorted(ascending, table[0], side="left"))
            some = slice(start, int(np.searchsorted(ascending, table[-1], side="right")))
            # Pair each hash with all rows of the table that have it.
            first = np.searchsorted(table, ascending[some], side="left")
            count = np.searchsorted(table, ascending[some], side="right") - first
            key_index = np.repeat(order[some], count)
            # For each key, `count` rows from `first` on.
            row = np.arange(len(key_index)) + np.repeat(first - (np.cumsum(count) - count), count)
            sample = samples[row]
            # Drop samples of other split parts, and samples that are excluded or filtered out.
            included = self._is_in_part(sample) & ~np.isin(sample, self._excluded)
            if self._kept is not None:
                included &= self._kept.keeps(sample)
            pairs.append((key_index[included], sample[included]))
        key_index, sample = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return key_index, sample

    def _is_in_part(self, samples: IntArray) -> npt.NDArray[np.bool_]:
        if not len(self._starts):
            return np.zeros(len(samples), np.bool_)
        run = np.searchsorted(self._starts, samples, side="right") - 1
        return (run >= 0) & (samples < self._stops[run])

    def _verified(self, keys: Keys, key_index: IntArray, sample: IntArray) -> tuple[IntArray, IntArray]:
        # Keys are read in the order of samples, a range at a time.
        order = np.argsort(sample)
        key_index, sample = key_index[order], sample[order]
        same = np.zeros(len(sample), np.bool_)
        for pairs, samples in _sample_ranges(sample):
            same[pairs] = keys.equal(key_index[pairs], self._keys.read(samples), sample[pairs] - samples.start)
        return key_index[same], sample[same]

    def _mark_used(self, samples: IntArray) -> None:
        # Samples ascend. The bits of each byte are joined first: an assignment by index keeps one value of each.
        byte = samples >> 3
        first = np.flatnonzero(np.diff(byte, prepend=-1))
        if len(first):
            self._used[byte[first]] |= np.bitwise_or.reduceat((1 << (samples & 7)).astype(np.uint8), first)


_EMPTY: Sequence[IntArray] = (np.empty(0, np.int64), np.empty(0, np.int64))


def _sample_ranges(samples: IntArray) -> Iterator[tuple[slice, range]]:
    """Cut ascending samples into runs, each with the range of samples to read; long gaps are skipped."""
    start = 0
    while start < len(samples):
        first = int(samples[start])
        stop = int(np.searchsorted(samples, first + _SAMPLES_PER_READ, side="left"))
        yield slice(start, stop), range(first, int(samples[stop - 1]) + 1)
        start = stop
