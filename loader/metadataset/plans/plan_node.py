"""A metadataset as a tree, for those who show it; its leaves are what is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..documents.leaf_plan import LeafPlan

__all__ = ["NodeKind", "PlanNode"]

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
