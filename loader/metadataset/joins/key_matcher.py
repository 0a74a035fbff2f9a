"""Which samples of one dataset have the keys of another's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ...format.dataset_folder import DatasetFolder
from .keys import Keys, SampleKeys

__all__ = ["KeyMatcher", "Matches"]

_SAMPLES_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The samples found for some keys.

    Attributes:
        samples: Each key's sample, by its number in the index; -1 where there is none. Shape (keys,)
        twice: A key that two samples have, and these; None where there is no such key.
    """

    samples: IntArray
    twice: tuple[bytes, int, int] | None


class KeyMatcher:
    """Finds samples of one split part by their keys, many at once.

    Args:
        folder: The dataset.
        keys: Its keys.
        split_part: Which part of its split.

    Raises:
        ConfigError: There is no such part.
    """

    def __init__(self, folder: DatasetFolder, keys: SampleKeys, split_part: str) -> None:
        self._keys = keys
        runs = sorted((run.start, run.stop) for run in folder.samples_of_part(split_part) if len(run))
        self._starts, self._stops = (np.array(ends, np.int64) for ends in zip(*runs, strict=True)) if runs else _NONE
        self._excluded = folder.excluded_samples()
        self._used = np.zeros((len(folder.index) + 7) // 8, np.uint8)  # a bit for each sample
        self.matched = 0
        """How many keys were found."""

    @property
    def unused(self) -> int:
        """How many samples no key was found for."""
        left_out = int(self._is_in_part(self._excluded).sum())
        return int((self._stops - self._starts).sum()) - left_out - int(np.unpackbits(self._used).sum(dtype=np.int64))

    def match(self, keys: Keys) -> Matches:
        """Find the samples that have some keys.

        Raises:
            FormatError: The index is damaged.
        """
        wanted, sample = self._verified(keys, *self._candidates(keys.hashes()))
        found = np.full(len(keys), -1, np.int64)
        found[wanted] = sample
        self._use(sample)
        self.matched += len(wanted)
        order = np.argsort(wanted, kind="stable")
        again = np.flatnonzero(np.diff(wanted[order]) == 0)
        twice = None
        if len(again):
            one, other = sorted(sample[order[again[0] : again[0] + 2]].tolist())
            twice = keys.one(int(wanted[order[again[0]]])), one, other
        return Matches(samples=found, twice=twice)

    def _candidates(self, hashes: npt.NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
        """Give pairs of a number of a key and a sample of the same hash that counts."""
        order = np.argsort(hashes)
        sought = hashes[order]
        pairs: list[tuple[IntArray, IntArray]] = [(_NONE[0], _NONE[0])]
        for table, samples in self._keys.table():
            start = int(np.searchsorted(sought, table[0], side="left"))
            some = slice(start, int(np.searchsorted(sought, table[-1], side="right")))
            first = np.searchsorted(table, sought[some], side="left")
            count = np.searchsorted(table, sought[some], side="right") - first
            number = np.repeat(order[some], count)
            # The rows from each first one on, count of them.
            row = np.arange(len(number)) + np.repeat(first - (np.cumsum(count) - count), count)
            sample = samples[row]
            counts = self._is_in_part(sample) & ~np.isin(sample, self._excluded)
            pairs.append((number[counts], sample[counts]))
        number, sample = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return number, sample

    def _is_in_part(self, samples: IntArray) -> npt.NDArray[np.bool_]:
        if not len(self._starts):
            return np.zeros(len(samples), np.bool_)
        run = np.searchsorted(self._starts, samples, side="right") - 1
        return (run >= 0) & (samples < self._stops[run])

    def _verified(self, keys: Keys, number: IntArray, sample: IntArray) -> tuple[IntArray, IntArray]:
        """Give the pairs whose keys are the same: other keys may have the same hash."""
        order = np.argsort(sample)
        number, sample = number[order], sample[order]
        same = np.zeros(len(sample), np.bool_)
        for pairs, samples in _neighbourhoods(sample):
            same[pairs] = keys.equal(number[pairs], self._keys.read(samples), sample[pairs] - samples.start)
        return number[same], sample[same]

    def _use(self, samples: IntArray) -> None:
        """Note that a key was found for some samples, ascending."""
        byte = samples >> 3
        first = np.flatnonzero(np.diff(byte, prepend=-1))
        if len(first):
            self._used[byte[first]] |= np.bitwise_or.reduceat((1 << (samples & 7)).astype(np.uint8), first)


_NONE: Sequence[IntArray] = (np.empty(0, np.int64), np.empty(0, np.int64))


def _neighbourhoods(samples: IntArray) -> Iterator[tuple[slice, range]]:
    """Cut ascending samples into runs, each with the range of samples to be read for it; long gaps are left out."""
    start = 0
    while start < len(samples):
        first = int(samples[start])
        stop = int(np.searchsorted(samples, first + _SAMPLES_AT_ONCE, side="left"))
        yield slice(start, stop), range(first, int(samples[stop - 1]) + 1)
        start = stop
