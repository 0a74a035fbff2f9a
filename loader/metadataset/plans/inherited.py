"""What the levels around a place in a tree of metadatasets say about everything below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from sys import float_info
from typing import Any

from .leaf_plan import JoinPlan, LeafPlan
from .metadataset_spec import BlendSpec, JoinSpec, ReferenceSpec
from .subset import SubsetRange

__all__ = ["OuterLevels", "combine_epochs_together"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterLevels:
    """What holds below a place.

    Attributes:
        split_part: The split that is loaded, where a reference names none.
        split_config: The caller's split file; None: the document's.
        dataset_config: The caller's dataset file; None: the document's.
        subflavors: Labels; they win over those further in.
        epochs_together: The combined ``shuffle_over_epochs_multiplier``.
        subset: The subsets, inner first.
        weight: The share of all samples; None where nothing is weighted so far.
        repetitions: How often it comes in a pass; None where nothing is repeated so far.
        files: The metadatasets around, each with its split, from the root.
    """

    split_part: str
    split_config: str | None = None
    dataset_config: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    subset: tuple[SubsetRange, ...] = ()
    weight: float | None = None
    repetitions: float | None = None
    files: tuple[tuple[str, str], ...] = ()

    def within(self, spec: ReferenceSpec | JoinSpec) -> OuterLevels:
        """Add what a reference or join says."""
        return replace(
            self,
            split_part=spec.split_part or self.split_part,
            subflavors={**spec.subflavors, **self.subflavors},
            epochs_together=combine_epochs_together(spec.epochs_together, self.epochs_together),
            subset=_ranges(spec) + self.subset,
        )

    def shares(self, blend: BlendSpec, *, training: bool) -> Sequence[OuterLevels]:
        """Add what a blend says about each of its entries; where it is not for training, amounts do not count."""
        inner = replace(self, subset=_ranges(blend) + self.subset)
        amounts = [entry.amount for entry in blend.entries]
        if not training:
            return [inner] * len(amounts)
        if blend.kind == "blend_epochized":
            outer = 1.0 if self.repetitions is None else self.repetitions
            return [replace(inner, repetitions=outer * amount) for amount in amounts]
        outer = 1.0 if self.weight is None else self.weight
        largest = max(amounts)  # so that the sum of large weights is no infinity
        total = fsum(amount / largest for amount in amounts)
        # Shares of shares may come out smaller than any float; even so they are shares, not nothing.
        shares = [max(outer * (amount / largest / total), float_info.min) for amount in amounts]
        return [replace(inner, weight=share) for share in shares]

    def leaf(
        self,
        *,
        place: str,
        path: str,
        reference: ReferenceSpec | None = None,
        aux: Mapping[str, str] | None = None,
        join: JoinPlan | None = None,
    ) -> LeafPlan:
        """Make the plan of a leaf, what it says itself being added already by :meth:`within`."""
        return LeafPlan(
            place=place,
            path=path,
            split_part=self.split_part,
            split_config=self.split_config or (reference.split_config if reference else None),
            dataset_config=self.dataset_config or (reference.dataset_config if reference else None),
            subflavors=self.subflavors,
            epochs_together=self.epochs_together,
            subset=self.subset,
            aux=aux or {},
            weight=self.weight,
            repetitions=self.repetitions,
            join=join,
        )


def _ranges(spec: ReferenceSpec | JoinSpec | BlendSpec) -> tuple[SubsetRange, ...]:
    return () if spec.subset is None else (spec.subset,)


def combine_epochs_together(one: int | None, other: int | None) -> int | None:
    """Combine two levels' ``shuffle_over_epochs_multiplier``: None wins, then -1, else they multiply.

    >>> combine_epochs_together(2, 3), combine_epochs_together(-1, 3), combine_epochs_together(-1, None)
    (6, -1, None)
    """
    if one is None or other is None:
        return None
    return -1 if -1 in (one, other) else one * other
