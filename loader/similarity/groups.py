"""Groups of near-duplicates: a sample with all similar ones, or the samples that a chain of pairs connects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from ..arrays import Components, IntArray
from ..convert.split_groups import LeakReport, leaks_of
from ..dataset.dataset import Dataset
from ..engine.workers import usable_cores
from ..format.columns.column import Column
from ..format.dataset_ref import DatasetRef
from ..lazy_torch import torch
from ..metadataset.leaf_samples import samples_of_splits
from .candidates import OnProgress, Pairs, pairs_of_bands, pairs_of_blocks, pairs_of_cells
from .vectors import Vectors, vectors_of, vectors_of_datasets

EXACT_SAMPLES = 300_000
"""With more samples, all pairs take too long on a CPU, and only samples of the same cells are compared."""

_MAX_THREADS = 16  # whose blocks take 16 MiB each

_COMPARED_AT_ONCE = 16_384
_EQUAL = 1e-9  # similarities are fractions: a threshold of 0.8 is reached by 4 of 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearDuplicates:
    """Groups of near-duplicates.

    Attributes:
        groups: Numbers of the samples of each group, ascending; the largest group first, then by the first sample.
            Without chains, all samples of a group are near its first, and the first ones are near none of each other.
        samples: Number of the samples that were compared.
        metric: How vectors were compared.
        threshold: Similarity of near-duplicates.
        is_exact: All pairs were compared; False if only samples of the same cells were, which misses a few.
    """

    groups: list[IntArray]
    samples: int
    metric: str
    threshold: float
    is_exact: bool

    @property
    def copies(self) -> IntArray:
        """The samples of all groups but the first of each, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(group[1:] for group in self.groups)]))


def near_duplicate_groups(
    column: Column,
    threshold: float | None = None,
    *,
    chains: bool = False,
    chosen: IntArray | None = None,
    exact: bool | None = None,
    on_progress: OnProgress | None = None,
) -> NearDuplicates:
    """Group the samples of a column whose vectors are similar.

    Samples are taken in their order: one that is similar to the first sample of a group is in the first such group,
    and any other begins a group. The result is the same every time.

    Args:
        threshold: Least similarity, above 0 and at most 1; None for the metric's own: 0.95 of cosines, 0.78 of bits,
            0.8 of MinHashes.
        chains: Also let two samples be in one group if a chain of similar ones connects them.
        chosen: Numbers of the samples to compare; None for all. Samples without a vector are in no group.
        exact: Compare all pairs, or only those in the same cells of nearby vectors; None compares all pairs of up to
            300,000 samples, of MinHashes, and where there is a GPU.
        on_progress: Called while samples are compared.

    Raises:
        ConfigError: The column has no vectors, or the threshold is no similarity.
    """
    vectors = vectors_of(column)
    least, rows = vectors.threshold(threshold), vectors.known_rows(chosen)
    device = "cuda" if len(rows) > _COMPARED_AT_ONCE and find_spec("torch") and torch.cuda.is_available() else None
    if exact is None:
        exact = len(rows) <= EXACT_SAMPLES or vectors.metric == "jaccard" or device is not None
    # Find candidates, compare them exactly, and join those that are similar.
    components = Components(len(rows))
    threads = 1 if device is not None else min(_MAX_THREADS, usable_cores())
    candidates: Iterator[Pairs]
    if vectors.metric == "jaccard":
        candidates = pairs_of_bands(vectors, rows, least, components, on_progress=on_progress)
    elif exact:
        candidates = pairs_of_blocks(
            vectors, rows, least, components, threads=threads, device=device, on_progress=on_progress
        )
    else:
        candidates = pairs_of_cells(vectors, rows, least, components, threads=threads, on_progress=on_progress)
    for pairs in candidates:
        _join_similar(vectors, rows, pairs, least, components)
    # Similar samples are in one chain, so only chains are divided.
    groups = [rows[group] for group in components.groups()]
    if not chains:
        groups = [part for group in groups for part in _around_firsts(vectors, group, least)]
    return NearDuplicates(
        groups=sorted(groups, key=lambda group: (-len(group), int(group[0]))),
        samples=len(rows),
        metric=vectors.metric,
        threshold=least,
        is_exact=exact,
    )


def _join_similar(vectors: Vectors, rows: IntArray, pairs: Pairs, least: float, components: Components) -> None:
    # Samples of one group need no comparison.
    left, right = components.apart(*pairs)
    for start in range(0, len(left), _COMPARED_AT_ONCE):
        stop, values = start + _COMPARED_AT_ONCE, vectors.values
        first, second = components.apart(left[start:stop], right[start:stop])
        similar = vectors.similarities(values[rows[first]], values[rows[second]]) >= least - _EQUAL
        components.join(first[similar], second[similar])


def _around_firsts(vectors: Vectors, group: IntArray, least: float) -> Iterator[IntArray]:
    """Yield the first sample with all similar ones, then continue with the rest."""
    while len(group) > 1:
        first = vectors.values[group[:1]]
        blocks = np.split(group, range(_COMPARED_AT_ONCE, len(group), _COMPARED_AT_ONCE))
        similarities = np.concatenate([vectors.similarities(vectors.values[block], first) for block in blocks])
        similarities[0] = 1
        is_near = similarities >= least - _EQUAL
        if np.count_nonzero(is_near) > 1:
            yield group[is_near]
        group = group[~is_near]


def near_duplicates_of(
    folders: Dataset | Sequence[Dataset],
    column: str,
    threshold: float | None = None,
    *,
    chains: bool = False,
    chosen: IntArray | None = None,
    on_progress: OnProgress | None = None,
) -> NearDuplicates:
    """Group the samples of datasets by a column of vectors; see :func:`near_duplicate_groups`.

    Samples are numbered through all datasets.
    """
    opened = vectors_of_datasets([folders] if isinstance(folders, Dataset) else folders, column)
    return near_duplicate_groups(opened, threshold, chains=chains, chosen=chosen, on_progress=on_progress)


def find_near_leaks(
    path: str, column: str, threshold: float | None = None, *, on_progress: OnProgress | None = None
) -> LeakReport:
    """Find the groups of near-duplicates whose samples are in several parts of the split; excluded ones do not count.

    Chains of near-duplicates are groups, so that no two near-duplicates are in several parts without a report.

    Raises:
        ConfigError: The dataset has no split, or no column of vectors of this name.
    """
    datasets, members = samples_of_splits(DatasetRef(path))
    chosen = np.unique(np.concatenate([np.empty(0, np.int64), *members.values()]))
    folders = datasets.folders
    duplicates = near_duplicates_of(folders, column, threshold, chains=True, chosen=chosen, on_progress=on_progress)
    # A group has the number of its first sample; a sample without near-duplicates is a group of its own.
    firsts = np.arange(datasets.starts[-1])
    for group in duplicates.groups:
        firsts[group] = group[0]
    return leaks_of(firsts, members, datasets.full_key)
