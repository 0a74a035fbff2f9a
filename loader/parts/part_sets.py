"""Count the part sets of a dataset: which part names occur together in a sample, and in how many samples.

The table is exact over all samples, up to a number of part sets that bounds memory: base names with dots may give each
sample a part set of its own. Then the samples of further part sets are counted, too, but not their parts.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

MAX_PART_SETS = 10_000
"""Number of part sets that a table lists; about 2 MB, where the part sets of people's data are a handful."""

_ROWS_AT_ONCE = 1 << 16  # parts: small shards are counted together, since each call of numpy takes a microsecond
_SAMPLES_AT_ONCE = 1 << 20
_FEW_SETS = 8  # up to which one comparison a set is faster than sorting

_Integers = npt.NDArray[np.integer[Any]]


class PartSet(msgspec.Struct, frozen=True, kw_only=True):
    """The samples that have the same part names.

    Attributes:
        parts: The part names, sorted.
        first_sample: Number of the first sample.
        example: The first sample, ``<shard>/<key>``.
    """

    parts: tuple[str, ...]
    samples: int
    shards: int
    first_sample: int
    example: str


class Missing(msgspec.Struct, frozen=True):
    """The samples without any of some parts: their number, and the first of them, ``<shard>/<key>``."""

    samples: int
    example: str


class PartSets(msgspec.Struct, frozen=True, kw_only=True):
    """The part sets of a dataset.

    Attributes:
        sets: The part sets, the most frequent first.
        others: Number of samples of further part sets, which are not listed.
    """

    sets: tuple[PartSet, ...]
    samples: int
    others: int = 0

    def first_with(self, name: str) -> str:
        """Return the first listed sample with a part, ``<shard>/<key>``."""
        return min((each.first_sample, each.example) for each in self.sets if name in each.parts)[1]

    def coverage(self, fields: Mapping[str, Sequence[str]]) -> dict[str, Missing]:
        """Return the fields that some samples cannot fill. It is exact if ``others`` is 0.

        Args:
            fields: Field → part names; one of them is enough.

        >>> one = PartSet(parts=("jpg",), samples=2, shards=1, first_sample=5, example="a.tar/5")
        >>> two = PartSet(parts=("jpg", "txt"), samples=5, shards=1, first_sample=0, example="a.tar/0")
        >>> PartSets(sets=(two, one), samples=7).coverage({"image": ["png", "jpg"], "caption": ["txt"]})
        {'caption': Missing(samples=2, example='a.tar/5')}
        """
        missing: dict[str, Missing] = {}
        for field, names in fields.items():
            without = [each for each in self.sets if not any(name in each.parts for name in names)]
            if without:
                first = min(without, key=lambda each: each.first_sample)
                missing[field] = Missing(sum(each.samples for each in without), first.example)
        return missing

    def to_document(self) -> list[dict[str, Any]]:
        """Return the listed part sets as JSON; the keys are stable."""
        return [
            {"parts": list(each.parts), "samples": each.samples, "shards": each.shards, "example": each.example}
            for each in self.sets
        ]


def missing_in_rows(part_ends: _Integers, part_ids: _Integers, wanted: Sequence[int]) -> tuple[int, int]:
    """Return the number of samples without any of some parts, and the first such sample; (0, -1) if all have one.

    Args:
        part_ends: The row of parts after the last one of each sample, shape (n,).
        part_ids: The number of each part's name, shape (p,).
    """
    count, first, names = 0, -1, np.array(wanted, np.int64)
    for start in range(0, len(part_ends), _SAMPLES_AT_ONCE):
        ends = part_ends[start : start + _SAMPLES_AT_ONCE].astype(np.int64)
        begin = int(part_ends[start - 1]) if start else 0
        is_wanted = np.isin(part_ids[begin : int(ends[-1])], names)
        lacks = np.flatnonzero(_sums(is_wanted.astype(np.uint64), ends - begin) == 0)
        if len(lacks) and first < 0:
            first = start + int(lacks[0])
        count += len(lacks)
    return count, first


def _sums(values: npt.NDArray[np.uint64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the sum of each sample's values, modulo 2^64; unlike ``add.reduceat``, 0 for no values."""
    totals = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))[ends]
    return np.diff(totals, prepend=np.uint64(0))


@dataclass(slots=True)
class _Counted:
    samples: int
    shards: int
    first_sample: int


class PartSetCounter:
    """Counts part sets, shard after shard, with little memory.

    Samples are distinguished by the sum of random numbers of their part names. In each block of samples, the names of
    one sample of each sum are compared.
    """

    def __init__(self, *, max_sets: int | None = None, rows_at_once: int | None = None) -> None:
        self._max_sets = max_sets or MAX_PART_SETS
        self._rows_at_once = rows_at_once or _ROWS_AT_ONCE
        self._seed = np.uint64(secrets.randbits(64))  # names in data cannot be made to collide
        self._sets: dict[tuple[int, ...], _Counted] = {}
        self._known_sums: npt.NDArray[np.uint64] | None = None  # of the listed sets, once there are all of them
        self._ends: list[_Integers] = []  # of the shards that are not counted yet
        self._ids: list[_Integers] = []
        self._rows = 0
        self._samples = 0
        self._first_sample = 0  # of those shards

    def add(self, part_ends: _Integers, part_ids: _Integers) -> None:
        """Add the samples of one shard, in order.

        Args:
            part_ends: The row of parts after the last one of each sample, shape (n,), counted within the shard.
            part_ids: The number of each part's name, shape (p,), the same in all shards.
        """
        if len(part_ends):
            self._ends.append(part_ends)
            self._ids.append(part_ids)
            self._rows += len(part_ids)
            self._samples += len(part_ends)
        if self._rows >= self._rows_at_once:
            self._count()

    def finish(self, names: Sequence[str], full_key: Callable[[int], str]) -> PartSets:
        """Return the table; ``full_key`` returns ``<shard>/<key>`` of a sample's number."""
        self._count()
        sets = (
            PartSet(
                parts=tuple(sorted(names[name_number] for name_number in ids)),
                samples=counted.samples,
                shards=counted.shards,
                first_sample=counted.first_sample,
                example=full_key(counted.first_sample),
            )
            for ids, counted in self._sets.items()
        )
        return _table(sets, self._samples)

    def _count(self) -> None:
        if not self._ends:
            return
        # Join the shards.
        shard_ends = np.cumsum([len(ends) for ends in self._ends])
        rows = np.cumsum([0, *(len(ids) for ids in self._ids[:-1])])
        ends = np.concatenate(self._ends).astype(np.int64) + np.repeat(rows, np.diff(shard_ends, prepend=0))
        ids = np.concatenate(self._ids).astype(np.int64)
        # Group the samples, and compare the names of one sample of each group.
        groups: dict[tuple[int, ...], list[npt.NDArray[np.intp]]] = {}
        room = self._max_sets - len(self._sets)  # for sets that no earlier block has
        for group in self._groups(ids, ends):
            first = int(group[0])
            parts = tuple(sorted(set(ids[int(ends[first - 1]) if first else 0 : int(ends[first])].tolist())))
            is_new = parts not in groups and parts not in self._sets
            if not is_new or room:
                room -= is_new
                groups.setdefault(parts, []).append(group)
        # Add the samples and shards of each group to its part set.
        for parts, of_set in groups.items():
            samples = np.sort(np.concatenate(of_set)) if len(of_set) > 1 else of_set[0]
            shards = np.searchsorted(shard_ends, samples, side="right")
            counted = self._sets.setdefault(parts, _Counted(0, 0, self._first_sample + int(samples[0])))
            counted.samples += len(samples)
            counted.shards += 1 + int(np.count_nonzero(np.diff(shards)))
        self._first_sample += len(ends)
        self._ends, self._ids, self._rows = [], [], 0

    def _groups(self, ids: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.intp]]:
        """Yield samples of the same part names; a name that a sample has twice may divide a part set into several."""
        samples = np.arange(len(ends))
        if len(self._sets) < self._max_sets:
            count = int(ends[0])
            if count * len(ends) == len(ids) and (ends == count * (samples + 1)).all():
                rows = ids.reshape(len(ends), count)
                if (rows == rows[0]).all():
                    yield samples
                    return
            yield from _equal_sums(samples, _sums(self._numbers(ids), ends))
            return
        # The remaining samples may all have different part sets, so that only the listed ones are grouped.
        if self._known_sums is None:
            listed = np.concatenate([np.array(parts, np.int64) for parts in self._sets])
            self._known_sums = _sums(self._numbers(listed), np.cumsum([len(parts) for parts in self._sets]))
        sums = self._sums_of_sets(ids, ends)
        yield from _equal_sums(np.flatnonzero(np.isin(sums, self._known_sums)), sums)

    def _numbers(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return a random number of each part name: the mixing function of splitmix64."""
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + self._seed
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def _sums_of_sets(self, ids: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        sample = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        order = np.lexsort((ids, sample))
        sample, ids = sample[order], ids[order]
        repeats = np.append(False, (sample[1:] == sample[:-1]) & (ids[1:] == ids[:-1]))
        return _sums(np.where(repeats, np.uint64(0), self._numbers(ids)), ends)


def _equal_sums(samples: npt.NDArray[np.intp], sums: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.intp]]:
    for _ in range(_FEW_SETS):
        if not len(samples):
            return
        is_same = sums[samples] == sums[samples[0]]
        if is_same.all():
            yield samples
            return
        yield samples[is_same]
        samples = samples[~is_same]
    order = samples[np.argsort(sums[samples], kind="stable")]
    yield from np.split(order, np.flatnonzero(np.diff(sums[order])) + 1) if len(order) else ()


def join_part_sets(tables: Iterable[PartSets]) -> PartSets:
    """Return the table of several ranges of samples, one after another; no shard may be in two of them."""
    joined: dict[tuple[str, ...], PartSet] = {}
    total = 0
    for table in tables:
        for each in table.sets:
            earlier = joined.get(each.parts)
            if earlier is not None:
                joined[each.parts] = msgspec.structs.replace(
                    earlier, samples=earlier.samples + each.samples, shards=earlier.shards + each.shards
                )
            elif len(joined) < MAX_PART_SETS:
                joined[each.parts] = msgspec.structs.replace(each, first_sample=each.first_sample + total)
        total += table.samples
    return _table(joined.values(), total)


def _table(sets: Iterable[PartSet], samples: int) -> PartSets:
    ordered = tuple(sorted(sets, key=lambda each: (-each.samples, each.first_sample)))
    return PartSets(sets=ordered, samples=samples, others=samples - sum(each.samples for each in ordered))
