"""The split parts of samples, and the parts of samples that patterns choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder

__all__ = ["SampleSplits", "kept_parts", "splits_of_samples"]


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
        ConfigError: The split file is invalid.
    """
    names = tuple(folder.split.split_parts) if folder.split else ()
    numbers = np.full(len(folder.index), -1, np.int64)
    overlapping = 0
    for number, name in enumerate(names):
        for samples in folder.samples_of_part(name, excluded_shards=True):
            own = numbers[samples.start : samples.stop]
            overlapping += int((own >= 0).sum())
            own[own < 0] = number
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
    kept = tuple(
        name
        for name in names
        if (not keep or any(fnmatchcase(name, pattern) for pattern in keep))
        and not any(fnmatchcase(name, pattern) for pattern in drop)
    )
    if not kept:
        raise ConfigError("no part is left", at=at, hint="keep at least one part")
    return kept
