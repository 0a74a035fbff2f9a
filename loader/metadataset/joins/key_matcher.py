"""Find the samples of one dataset that have the keys of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...format.dataset_folder import DatasetFolder
from ...format.filters.rows import FilterRows
from .keys import Keys, SampleKeys

_SAMPLES_PER_READ = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The samples found for some keys.

    Attributes:
        samples: Shape (keys,): the number of each key's sample in the index; -1 if there is none.
        duplicate: A key that two samples have, and the two samples; None if there is no such key.
    """

    samples: IntArray
    duplicate: tuple[bytes, int, int] | None


class KeyMatcher:
    """Vectorised lookup of samples of one split part by key.

    Args:
        folder: The dataset.
        keys: Its keys.
        split_part: Part of its split.
        kept: The filter that selects its samples; None keeps all.

    Raises:
        ConfigError: The split has no such part.
    """

    def __init__(
        self, folder: DatasetFolder, keys: SampleKeys, split_part: str, kept: FilterRows | None = None
    ) -> None:
        self._keys = keys
        runs = sorted((run.start, run.stop) for run in folder.samples_of_part(split_part) if len(run))
        self._starts, self._stops = (np.array(ends, np.int64) for ends in zip(*runs, strict=True)) if runs else _EMPTY
        self._excluded = folder.excluded_samples()
        self._kept = kept
        self._shards = [folder.index.shard_of(start).name for start in self._starts.tolist()]
        self._used = np.zeros((len(folder.index) + 7) // 8, np.uint8)  # a bit for each sample
        self.matched = 0
        """Number of keys found."""

    @property
    def unused(self) -> int:
        """Number of samples that no key has matched."""
        excluded = self._excluded[self._is_in_part(self._excluded)]
        samples = int((self._stops - self._starts).sum())
        if self._kept is not None:
            excluded = excluded[self._kept.keeps(excluded)]
            samples = sum(len(self._kept.rows_of(shard)) for shard in self._shards)
        return samples - len(excluded) - int(np.unpackbits(self._used).sum(dtype=np.int64))

    def match(self, keys: Keys) -> Matches:
        """Find the samples with the given keys.

        Raises:
            FormatError: The index is damaged.
        """
        number, sample = self._verified(keys, *self._candidates(keys.hashes()))
        found = np.full(len(keys), -1, np.int64)
        found[number] = sample
        self._mark_used(sample)
        self.matched += len(number)
        order = np.argsort(number, kind="stable")
        repeated = np.flatnonzero(np.diff(number[order]) == 0)
        duplicate = None
        if len(repeated):
            one, other = sorted(sample[order[repeated[0] : repeated[0] + 2]].tolist())
            duplicate = keys.one(int(number[order[repeated[0]]])), one, other
        return Matches(samples=found, duplicate=duplicate)

    def _candidates(self, hashes: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
        """Return pairs of a key's number and a sample with the same hash, in the part and not excluded."""
        order = np.argsort(hashes)
        ascending = hashes[order]
        pairs: list[tuple[IntArray, IntArray]] = [(_EMPTY[0], _EMPTY[0])]
        for table, samples in self._keys.table():
            start = int(np.searchsorted(ascending, table[0], side="left"))
            some = slice(start, int(np.searchsorted(ascending, table[-1], side="right")))
            first = np.searchsorted(table, ascending[some], side="left")
            count = np.searchsorted(table, ascending[some], side="right") - first
            number = np.repeat(order[some], count)
            # For each key, `count` rows from `first` on.
            row = np.arange(len(number)) + np.repeat(first - (np.cumsum(count) - count), count)
            sample = samples[row]
            included = self._is_in_part(sample) & ~np.isin(sample, self._excluded)
            if self._kept is not None:
                included &= self._kept.keeps(sample)
            pairs.append((number[included], sample[included]))
        number, sample = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return number, sample

    def _is_in_part(self, samples: IntArray) -> npt.NDArray[np.bool_]:
        if not len(self._starts):
            return np.zeros(len(samples), np.bool_)
        run = np.searchsorted(self._starts, samples, side="right") - 1
        return (run >= 0) & (samples < self._stops[run])

    def _verified(self, keys: Keys, number: IntArray, sample: IntArray) -> tuple[IntArray, IntArray]:
        """Return the pairs with equal keys, since different keys may have the same hash."""
        order = np.argsort(sample)
        number, sample = number[order], sample[order]
        same = np.zeros(len(sample), np.bool_)
        for pairs, samples in _sample_ranges(sample):
            same[pairs] = keys.equal(number[pairs], self._keys.read(samples), sample[pairs] - samples.start)
        return number[same], sample[same]

    def _mark_used(self, samples: IntArray) -> None:
        """Set the bits of matched samples, which are ascending."""
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
