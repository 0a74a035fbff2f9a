"""What one metadataset file says, checked, but with nothing looked up: no path is resolved, no other file read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...format.documents.subset import SubsetRange
from .leaf_plan import Joiner, Nonmatch

__all__ = [
    "BlendEntry",
    "BlendKind",
    "BlendSpec",
    "JoinSpec",
    "MemberSpec",
    "MetadatasetSpec",
    "ReferenceSpec",
    "SplitSpec",
]

BlendKind = Literal["blend", "blend_epochized"]
"""Mixed by weights without end, or by repetitions in a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSpec:
    """A ``path`` and what is to be changed of what lies there; paths are as they are written."""

    place: str
    path: str
    split_part: str | None = None
    split_config: str | None = None
    dataset_config: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    subset: SubsetRange | None = None
    aux: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One dataset of a join; ``name`` is its key where the join is a mapping."""

    reference: ReferenceSpec
    name: str | None = None
    nonmatch: Nonmatch = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """Datasets whose samples of one key become one sample; the first is the primary one."""

    place: str
    members: tuple[MemberSpec, ...]
    joiner: Joiner | None = None
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    subset: SubsetRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendEntry:
    """One dataset of a blend; ``amount`` is its weight, or its repetitions."""

    amount: float
    source: ReferenceSpec | JoinSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendSpec:
    """Datasets mixed; ``place`` is that of the list."""

    place: str
    kind: BlendKind
    entries: tuple[BlendEntry, ...]
    subset: SubsetRange | None = None


SplitSpec = ReferenceSpec | JoinSpec | BlendSpec
"""What a split is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadatasetSpec:
    """A metadataset file: what each of its splits is made of.

    ``names`` has all splits, also those of which that is wrong; None where there is no telling.
    """

    file: str
    version: int = 2
    names: tuple[str, ...] | None = None
    splits: Mapping[str, SplitSpec] = field(default_factory=dict)
