"""A metadataset as a tree, for those who show it; its leaves are what is loaded."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from ...format.documents.subset import do_overlap
from ..documents.leaf_plan import LeafPlan

__all__ = ["NodeKind", "PlanNode", "find_repeated_leaves", "find_shared_leaves", "warn_of_repeated_leaves"]

NodeKind = Literal["dataset", "join", "metadataset", "blend", "blend_epochized"]
"""The first two are leaves; a metadataset has one child, what its split is made of; the others mix theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """One place of a tree of metadatasets.

    Attributes:
        place: Where it stands, as in :class:`.LeafPlan`; empty for the root.
        kind: What stands there.
        path: Of a leaf or metadataset: its own resolved path; of others: the file they stand in.
        split_part: The split of a metadataset, or the split part of a leaf.
        weight: Its share of all samples; None where nothing is weighted.
        repetitions: How often it comes in a pass; None where nothing is repeated.
        children: What it is made of, in order.
        leaf: What is to be loaded, where it is a leaf.
    """

    place: str
    kind: NodeKind
    path: str
    split_part: str
    weight: float | None = None
    repetitions: float | None = None
    children: tuple[PlanNode, ...] = ()
    leaf: LeafPlan | None = None

    def leaves(self) -> Iterator[LeafPlan]:
        """Yield all leaves in order."""
        if self.leaf is not None:
            yield self.leaf
        for child in self.children:
            yield from child.leaves()


_MOST_COMPARED = 50
"""Places of one dataset that are compared with one another; a repetition among more is found all the same."""


def warn_of_repeated_leaves(root: PlanNode) -> None:
    """Warn of each of :func:`find_repeated_leaves`."""
    for message in find_repeated_leaves(root):
        warnings.warn(message, UserWarning, stacklevel=4)


def find_repeated_leaves(root: PlanNode) -> Iterator[str]:
    """Say, once a dataset, where two leaves are the same dataset read in the same way, and share samples."""
    for same in _by_identity(root).values():
        for (place, leaf), (other_place, other) in combinations(same[:_MOST_COMPARED], 2):
            if do_overlap(leaf.subset, other.subset):
                yield (
                    f"samples of {leaf.path} ({leaf.split_part}) are reached twice, at {place} and at {other_place}; "
                    "both count. Remove one, or give them subsets that do not overlap"
                )
                break


def find_shared_leaves(root: PlanNode, other_root: PlanNode) -> Iterator[str]:
    """Say, once a dataset, where two splits read the same samples."""
    others = _by_identity(other_root)
    for identity, same in _by_identity(root).items():
        pairs = product(same[:_MOST_COMPARED], others.get(identity, ())[:_MOST_COMPARED])
        for (place, leaf), (other_place, other) in pairs:
            if do_overlap(leaf.subset, other.subset):
                yield f"samples of {leaf.path} ({leaf.split_part}) are reached at {place} and at {other_place}"
                break


def _by_identity(root: PlanNode) -> dict[Hashable, list[tuple[str, LeafPlan]]]:
    """Group the leaves, each with its place, by what they read but for subsets."""
    places: dict[Hashable, list[tuple[str, LeafPlan]]] = {}
    for place, leaf in _leaves_with_way(root, ""):
        places.setdefault(_identity(leaf), []).append((place, leaf))
    return places


def _leaves_with_way(node: PlanNode, way: str) -> Iterator[tuple[str, LeafPlan]]:
    """Yield the leaves, each with the places by which it is reached."""
    if node.leaf is not None:
        yield way + node.place, node.leaf
    if node.kind == "metadataset" and node.place:
        way += f"{node.place} → "
    for child in node.children:
        yield from _leaves_with_way(child, way)


def _identity(leaf: LeafPlan) -> Hashable:
    if leaf.path.endswith(".jsonl"):
        return (leaf.path,)  # it has no split parts
    if leaf.join is None:
        return (leaf.path, leaf.split_part, leaf.split_config, leaf.dataset_config)
    members = leaf.join.members
    return tuple((member.path, member.split_part, member.split_config, member.dataset_config) for member in members)
