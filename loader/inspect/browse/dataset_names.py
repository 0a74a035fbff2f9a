"""Name the datasets of ``energon browse``, so that links to samples are the same at each start."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from ...format.documents.providers import is_metadataset
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.plans.plan_leaves import plan_splits

__all__ = ["DatasetNames", "leaf_paths", "names_of"]


class DatasetNames:
    """Unique names of datasets: the last component of the path; for later ones of the same name, with a number.

    >>> names = DatasetNames()
    >>> [names.add(path) for path in ("/a/coco/", "/b/coco", "/b/sa1b", "/")]
    ['coco', 'coco~2', 'sa1b', 'dataset']
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, path: str) -> str:
        """Return the name of the next dataset."""
        name = os.path.basename(path.rstrip("/")) or "dataset"
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}~{self._counts[name]}"


def leaf_paths(leaf: LeafPlan) -> list[str]:
    """Return the paths of the datasets that a leaf reads: of a join, those of its members."""
    return [member.path for member in ((leaf,) if leaf.join is None else leaf.join.members)]


def names_of(paths: Sequence[str]) -> dict[str, str]:
    """Return the datasets that a server of some paths has: path → name, the first one of a path that comes twice.

    Args:
        paths: Datasets and metadatasets; one with faults has no datasets.
    """
    names, found = DatasetNames(), dict[str, str]()
    for one in (one for path in paths for one in _paths(path)):
        name = names.add(one)
        found.setdefault(one, name)
    return found


def _paths(path: str) -> Iterator[str]:
    if not is_metadataset(path):
        yield path
        return
    planned = plan_splits(path)
    if planned.faults:
        return
    for split in planned.names:
        for leaf in planned.trees[split].leaves():
            yield from leaf_paths(leaf)
