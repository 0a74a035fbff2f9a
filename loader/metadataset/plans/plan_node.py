"""The tree of a metadataset, with checks for datasets that share samples."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from ...errors import escape_controls
from ...format.documents.subset import do_overlap
from ..documents.leaf_plan import EntrySchedule, LeafPlan

NodeKind = Literal["dataset", "join", "metadataset", "blend", "blend_epochized"]
"""The first two are leaves. A metadataset has one child, the contents of its split; blends mix their children."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """A node in a tree of metadatasets.

    Attributes:
        place: Place of the node, as in :class:`.LeafPlan`; empty for the root.
        kind: Kind of the node.
        path: For a leaf or metadataset, its resolved path; for others, the file that contains them.
        split_part: The split of a metadataset, or the split part of a leaf.
        weight: Share of all samples; None if nothing is weighted.
        repetitions: Repetitions in a pass; None if nothing is repeated.
        children: The children, in order.
        leaf: The plan of a leaf; None for other nodes.
        unit: What the weights of a blend are shares of.
        schedule: Share of all samples in each stretch of the run, if weights of the tree change.
    """

    place: str
    kind: NodeKind
    path: str
    split_part: str
    weight: float | None = None
    repetitions: float | None = None
    children: tuple[PlanNode, ...] = ()
    leaf: LeafPlan | None = None
    unit: str = "samples"
    schedule: EntrySchedule | None = None

    def leaves(self) -> Iterator[LeafPlan]:
        if self.leaf is not None:
            yield self.leaf
        for child in self.children:
            yield from child.leaves()


class RepeatedLeafWarning(UserWarning):
    """Two leaves of a metadataset share samples."""


_MAX_COMPARED = 50
"""Places of one dataset that are compared in pairs; of more places, only the first ones are compared."""


def warn_of_repeated_leaves(root: PlanNode) -> None:
    """Warn of each of :func:`find_repeated_leaves`."""
    for message in find_repeated_leaves(root):
        warnings.warn(escape_controls(message), RepeatedLeafWarning, stacklevel=4)


def find_repeated_leaves(root: PlanNode) -> Iterator[str]:
    """Yield a message for each dataset in which two leaves, read with the same settings, share samples."""
    for same in _by_identity(root).values():
        # The first pair that overlaps is enough for a message about the dataset.
        for (path, leaf), (other_path, other) in combinations(same[:_MAX_COMPARED], 2):
            if _do_overlap(leaf, other):
                yield (
                    f"samples of {leaf.path} ({leaf.split_part}) are reached twice, at {path} and at {other_path}; "
                    "both count. Remove one, or give them subsets that do not overlap"
                )
                break


def find_shared_leaves(root: PlanNode, other_root: PlanNode) -> Iterator[str]:
    """Yield a message for each dataset from which two splits read the same samples."""
    others = _by_identity(other_root)
    for identity, same in _by_identity(root).items():
        pairs = product(same[:_MAX_COMPARED], others.get(identity, ())[:_MAX_COMPARED])
        for (path, leaf), (other_path, other) in pairs:
            if _do_overlap(leaf, other):
                yield f"samples of {leaf.path} ({leaf.split_part}) are reached at {path} and at {other_path}"
                break


def _do_overlap(leaf: LeafPlan, other: LeafPlan) -> bool:
    """Return True if two leaves of one dataset share samples, as far as their settings show.

    Subsets count the samples that a filter keeps, so subsets under different filters cannot be compared.
    """
    if leaf.filter == other.filter:
        return do_overlap(leaf.request.subset, other.request.subset)
    return any(either.filter is None and not either.request.subset for either in (leaf, other))


def _by_identity(root: PlanNode) -> dict[Hashable, list[tuple[str, LeafPlan]]]:
    places: dict[Hashable, list[tuple[str, LeafPlan]]] = {}
    for path, leaf in _leaves_with_path(root, ""):
        places.setdefault(_identity(leaf), []).append((path, leaf))
    return places


def _leaves_with_path(node: PlanNode, prefix: str) -> Iterator[tuple[str, LeafPlan]]:
    if node.leaf is not None:
        yield prefix + node.place, node.leaf
    # Places in a nested file follow the place that references it.
    if node.kind == "metadataset" and node.place:
        prefix += f"{node.place} → "
    for child in node.children:
        yield from _leaves_with_path(child, prefix)


def _identity(leaf: LeafPlan) -> Hashable:
    if leaf.ref.kind.is_file:
        return (leaf.path,)  # single files have no split parts
    if leaf.join is None:
        return (leaf.ref, leaf.split_part)
    return tuple((member.ref, member.split_part, member.filter) for member in leaf.join.members)
