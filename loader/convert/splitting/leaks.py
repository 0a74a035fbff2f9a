"""Find what the parts of a split share: groups, or equal contents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.query import Compute
from .groups import Groups, ProgressCallback, find_groups, group_contents

_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A group with samples in several parts.

    Attributes:
        group: Its name.
        samples: Part → number of its samples.
    """

    group: str
    samples: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakReport:
    """Groups and samples that parts of a split share.

    Attributes:
        groups: Number of groups.
        leaking: Number of groups in several parts.
        samples: Number of samples in these.
        leaks: The largest of them.
        overlapping: Number of samples that are in several parts themselves.
    """

    groups: int
    leaking: int
    samples: int
    leaks: tuple[Leak, ...]
    overlapping: int

    @property
    def is_clean(self) -> bool:
        """True if the parts share nothing."""
        return not self.leaking and not self.overlapping


def find_leaks(
    path: str,
    *,
    group_by: str | None = None,
    part: str | None = None,
    split_config: str = "split.yaml",
    compute: Compute | None = None,
    on_progress: ProgressCallback | None = None,
) -> LeakReport:
    """Find the groups of which several parts of the present split have samples; excluded samples do not count.

    Args:
        path: Folder of the dataset.
        group_by: Expression of the groups, see :func:`.groups.find_groups`; None compares contents.
        part: Compare the contents of this part of samples alone.
        split_config: Name of the split file.
        compute: As for :func:`.groups.find_groups`.
        on_progress: Called while samples are read.

    Raises:
        ConfigError: The dataset has no split, or the expression names nothing.
    """
    folder = DatasetFolder(path, split_config=split_config)
    if folder.split is None:
        raise ConfigError(
            "this dataset has no split file", at=folder.path, hint="split it: energon split PATH --split-ratio 8,1,1"
        )
    if group_by is not None:
        groups = find_groups(folder, group_by, compute=compute, on_progress=on_progress)
    else:
        groups = group_contents(folder, part, on_progress=on_progress)
    members = {name: _members(folder, name) for name in folder.split.split_parts}
    return leaks_of(groups, members, len(folder.index))


def _members(folder: DatasetFolder, part: str) -> IntArray:
    runs = folder.runs_of_part(part)
    numbers = np.concatenate([np.empty(0, np.int64), *(np.arange(run.start, run.stop) for run in runs)])
    return np.setdiff1d(numbers, folder.excluded_samples(), assume_unique=True)


def leaks_of(groups: Groups, members: dict[str, IntArray], samples: int) -> LeakReport:
    """Return what parts share.

    Args:
        groups: The groups of all samples.
        members: Part → numbers of its samples.
        samples: Number of all samples.
    """
    counts = np.zeros((len(groups.names), len(members)), np.int64)
    times = np.zeros(samples, np.int64)
    for column, numbers in enumerate(members.values()):
        counts[:, column] = np.bincount(groups.numbers[numbers], minlength=len(groups.names))
        times[numbers] += 1
    leaking = np.flatnonzero((counts > 0).sum(axis=1) > 1)
    totals = counts[leaking].sum(axis=1)
    largest = leaking[np.argsort(-totals, kind="stable")][:_MAX_SHOWN]
    return LeakReport(
        groups=int((counts.sum(axis=1) > 0).sum()),
        leaking=len(leaking),
        samples=int(totals.sum()),
        leaks=tuple(
            Leak(
                group=groups.names[group],
                samples={part: int(n) for part, n in zip(members, counts[group].tolist(), strict=True) if n},
            )
            for group in largest.tolist()
        ),
        overlapping=int((times > 1).sum()),
    )
