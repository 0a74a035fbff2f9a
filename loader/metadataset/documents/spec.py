"""Contents of one metadataset file, with types checked. Paths are not resolved, and no other file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...format.dataset_ref import DatasetRef
from ...format.documents.subset import SubsetRange
from .leaf_plan import Joiner, Nonmatch
from .weight_schedule import EntrySchedule

BlendKind = Literal["blend", "blend_epochized"]
"""``blend`` mixes by weights without end, ``blend_epochized`` by repetitions in a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSpec:
    """A reference to a dataset, and the settings for it; paths are as written in the file.

    A member of a join also has ``nonmatch``, and ``name``, its key, if the join is a mapping.
    """

    place: str
    ref: DatasetRef
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    filter: str | None = None
    epochs_together: int | None = 1
    subset: SubsetRange | None = None
    aux: Mapping[str, DatasetRef] = field(default_factory=dict)
    name: str | None = None
    nonmatch: Nonmatch = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """A join: samples of several datasets with the same key become one sample; the first dataset is the primary one."""

    place: str
    members: tuple[ReferenceSpec, ...]
    joiner: Joiner | None = None
    split_part: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    subset: SubsetRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendEntry:
    """One dataset of a blend; ``amount`` is its weight, or its repetitions.

    If the weight changes during the run, ``amount`` is the first one, and ``schedule`` has all.
    """

    amount: float
    source: ReferenceSpec | JoinSpec
    schedule: EntrySchedule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendSpec:
    """A mix of datasets; ``place`` is the place of the list, ``unit`` what its weights are shares of."""

    place: str
    kind: BlendKind
    entries: tuple[BlendEntry, ...]
    unit: str = "samples"
    epochs_together: int | None = 1
    subset: SubsetRange | None = None


SplitSpec = ReferenceSpec | JoinSpec | BlendSpec
"""Contents of a split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadatasetSpec:
    """Contents of a metadataset file.

    ``names`` has all splits, invalid ones included; None if the document has no readable splits.
    """

    file: str
    version: int = 2
    names: tuple[str, ...] | None = None
    splits: Mapping[str, SplitSpec] = field(default_factory=dict)
