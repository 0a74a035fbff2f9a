"""Warns where samples are reached twice in one tree: mostly a mistake, which counts them with both weights."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from itertools import combinations, product

from ...format.documents.subset import do_overlap
from ..documents.leaf_plan import LeafPlan
from .plan_node import PlanNode

__all__ = ["find_repeated_leaves", "find_shared_leaves", "warn_of_repeated_leaves"]

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
