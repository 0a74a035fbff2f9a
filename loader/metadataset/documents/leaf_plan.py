"""What is to be loaded of one leaf: all that a metadataset says about a dataset, from every level, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .subset import SubsetRange

__all__ = ["JoinMember", "JoinPlan", "Joiner", "LeafPlan", "Nonmatch"]

Nonmatch = Literal["error", "skip", "none"]
"""What becomes of a primary sample whose key a member of the join lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """The code that makes one sample of the members' samples; nothing is imported for it here.

    Attributes:
        module: The module's name.
        name: The class (whose ``from_joined`` is called) or function.
        is_function: It is a function.
    """

    module: str
    name: str
    is_function: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinMember:
    """One dataset of a join.

    Attributes:
        place: Where it stands, as in :class:`LeafPlan`.
        name: Its key where the join is a mapping; None in a list.
        path: The folder of a prepared dataset, absolute, or a URL.
        split_part: Which part of its split.
        split_config: Which split file; None: the default one.
        dataset_config: Which dataset file; None: the default one.
        subflavors: Labels of the member's samples, outer levels' merged in.
        nonmatch: What happens where it lacks a key of the primary.
        aux: Auxiliary stores, as in :class:`LeafPlan`.
    """

    place: str
    name: str | None
    path: str
    split_part: str
    split_config: str | None = None
    dataset_config: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    nonmatch: Nonmatch = "error"
    aux: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Datasets whose samples of one key become one sample.

    Attributes:
        file: The metadataset that holds the join, absolute.
        place: Its place in that file.
        members: The datasets; the first is the primary one, whose order and keys count.
        joiner: What makes the sample; None where the file names nothing.
    """

    file: str
    place: str
    members: tuple[JoinMember, ...]
    joiner: Joiner | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPlan:
    """One leaf of a tree of metadatasets.

    Attributes:
        place: Its place in the document that names it (``splits.train.blend[2]``), in nested ones with the file in
            front; empty where no document does.
        path: The folder of a prepared dataset or a ``.jsonl`` file, absolute, or a URL as it is written; of a join, the
            metadataset file that holds it.
        split_part: Which part of its split.
        split_config: Which split file; None: the default one.
        dataset_config: Which dataset file; None: the default one.
        subflavors: Labels of its samples, of all levels; the outer one's values win.
        epochs_together: The product of all levels' ``shuffle_over_epochs_multiplier``; but None where one is None, else
            -1 where one is -1.
        subset: The subsets of all levels, inner first; see :func:`.resolve_subset`.
        aux: Name → auxiliary store: the absolute path of a dataset, ``filesystem://`` and an absolute path, or a
            ``msc://`` or ``filesystem+msc://`` URL as it is written.
        weight: Its share of all samples, over all leaves 1; None where nothing is weighted.
        repetitions: How often it comes in a pass, the product of all levels; None where nothing is repeated.
        join: The datasets behind it, where it is a join.
    """

    place: str
    path: str
    split_part: str
    split_config: str | None = None
    dataset_config: str | None = None
    subflavors: Mapping[str, Any] = field(default_factory=dict)
    epochs_together: int | None = 1
    subset: tuple[SubsetRange, ...] = ()
    aux: Mapping[str, str] = field(default_factory=dict)
    weight: float | None = None
    repetitions: float | None = None
    join: JoinPlan | None = None
