"""Name the datasets of ``energon browse``, so that links to samples are the same at each start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...format.documents.providers import is_metadataset
from ...metadataset.datasets import DatasetNames
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.plans.plan_leaves import plan_splits


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
