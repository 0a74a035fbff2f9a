"""The split parts of samples, and the parts of samples that patterns choose."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.index.dataset_index import DatasetIndex
from ...format.tar.names import is_outside_name

_SAMPLES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSplits:
    """The split part of each sample.

    Attributes:
        names: The parts.
        number: Position of each sample's part in ``names``, shape (n,); -1 for none.
        overlapping: Number of samples that are in several parts; the first one counts.
    """

    names: tuple[str, ...]
    number: IntArray
    overlapping: int

    def name(self, sample: int) -> str:
        """Return the part of a sample; ``""`` for none."""
        number = int(self.number[sample])
        return "" if number < 0 else self.names[number]


def splits_of_samples(folder: DatasetFolder) -> SampleSplits:
    """Return the split part of each sample.

    Args:
        folder: The dataset.

    Raises:
        ConfigError: The split file is invalid, or a filter that it names is missing.
        FormatError: Such a filter is damaged.
    """
    names = tuple(folder.split.split_parts) if folder.split else ()
    numbers = np.full(len(folder.index), -1, np.int64)
    overlapping = 0
    for number, name in enumerate(names):
        kept = folder.filter_of_part(name)
        for samples in folder.samples_of_part(name, excluded_shards=True):
            own = numbers[samples.start : samples.stop]
            is_member = True if kept is None else kept.keeps(np.arange(samples.start, samples.stop))
            overlapping += int((is_member & (own >= 0)).sum())
            own[is_member & (own < 0)] = number
    return SampleSplits(names=names, number=numbers, overlapping=overlapping)


def kept_parts(names: Sequence[str], *, keep: Sequence[str], drop: Sequence[str], at: str) -> tuple[str, ...]:
    """Return the parts that patterns choose.

    Args:
        names: All part names of the dataset.
        keep: Only parts that match one of these patterns, as in shells; empty for all.
        drop: No parts that match one of these.
        at: The dataset, for messages.

    Raises:
        ConfigError: A pattern matches no part, or no part is left.

    >>> kept_parts(["jpg", "seg.png", "txt"], keep=(), drop=("*.png",), at="/data")
    ('jpg', 'txt')
    """
    for pattern in (*keep, *drop):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"no part matches {pattern!r}; there are: {', '.join(names[:20])}", at=at, hint="check the pattern"
            )
    kept = tuple(name for name in names if is_kept(name, keep=keep, drop=drop))
    if not kept:
        raise ConfigError("no part is left", at=at, hint="keep at least one part")
    return kept


def is_kept(name: str, *, keep: Sequence[str], drop: Sequence[str]) -> bool:
    """Return True if the patterns of :func:`kept_parts` choose a part.

    >>> is_kept("seg.png", keep=["*.png"], drop=["depth.*"])
    True
    """
    is_wanted = not keep or any(fnmatchcase(name, pattern) for pattern in keep)
    return is_wanted and not any(fnmatchcase(name, pattern) for pattern in drop)


def samples_in_folder(index: DatasetIndex, samples: IntArray) -> IntArray:
    """Return those samples whose keys do not lead out of a folder.

    Args:
        index: The dataset.
        samples: Numbers of samples, ascending.
    """
    kept = []
    for start in range(0, len(samples), _SAMPLES_AT_ONCE):
        some = samples[start : start + _SAMPLES_AT_ONCE]
        low, high = int(some[0]), int(some[-1]) + 1
        first = int(index.key_ends[low - 1]) if low else 0
        ends = index.key_ends[low:high].astype(np.int64) - first
        keys = np.asarray(index.key_bytes[first : first + int(ends[-1])])
        dots = np.flatnonzero((keys[:-1] == ord(".")) & (keys[1:] == ord(".")))
        slashes = np.flatnonzero((keys == ord("/")) & np.isin(np.arange(len(keys)), np.append(0, ends)))
        suspect = low + np.searchsorted(ends, np.concatenate((dots, slashes)), "right")
        outside = [number for number in suspect.tolist() if is_outside_name(index.key(number))]
        kept.append(some[~np.isin(some, outside)])
    return np.concatenate([np.empty(0, np.int64), *kept])


def samples_with_parts(index: DatasetIndex, samples: IntArray, names: Collection[str]) -> IntArray:
    """Return those samples that have at least one of some parts.

    Args:
        index: The dataset.
        samples: Numbers of samples, ascending.
        names: The parts.
    """
    if len(names) == len(index.part_names):
        return samples
    wanted = np.array([name in names for name in index.part_names], np.bool_)
    found = []
    for start in range(0, len(samples), _SAMPLES_AT_ONCE):
        some = samples[start : start + _SAMPLES_AT_ONCE]
        low, high = int(some[0]), int(some[-1]) + 1
        ends = index.part_ends[low:high].astype(np.int64)
        first = int(index.part_ends[low - 1]) if low else 0
        kept = wanted[index.part_name[first : int(ends[-1])]]
        counts = np.concatenate(([0], np.cumsum(kept)))
        starts = np.concatenate(([first], ends[:-1]))
        found.append(some[(counts[ends - first] > counts[starts - first])[some - low]])
    return np.concatenate([np.empty(0, np.int64), *found])
