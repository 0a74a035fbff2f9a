"""Which datasets a metadataset is made of, without looking at any of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...format.documents.load_request import is_metadataset
from ...format.documents.messages import did_you_mean
from ..documents.leaf_plan import JoinMember, LeafPlan
from ..documents.references import FILESYSTEM
from .plan_leaves import plan_tree

__all__ = ["TraversedDatasetReference", "traverse_metadataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraversedDatasetReference:
    """One dataset that a metadataset names.

    Attributes:
        path: Its resolved path, or its URL as it is written.
        split_part: Which part of its split.
        aux: Its auxiliary stores: name → resolved path or URL, of folders of files also.
        subflavors: Labels of its samples, of all levels.
        place: Where it is named; see :class:`.LeafPlan`.
    """

    path: str
    split_part: str
    aux: dict[str, str]
    subflavors: dict[str, Any]
    place: str


def traverse_metadataset(
    path: str | os.PathLike[str], *, split_part: str, **kwargs: Any
) -> list[TraversedDatasetReference]:
    """List the datasets behind a split of a metadataset, in order; of a join, its members.

    The datasets need not be there.

    Args:
        path: The metadataset.
        split_part: Which of its splits.
        **kwargs: None is known; they are there for the signature's sake.

    Raises:
        ConfigError: The path names no metadataset, or a document says something wrong.
        StorageError: The file cannot be read.
        TypeError: There is no such argument.
    """
    for name in kwargs:
        raise TypeError(f"traverse_metadataset() has no argument {name!r}{did_you_mean(name, ['path', 'split_part'])}")
    if not is_metadataset(path):
        found = "this is no metadataset; expected a file that ends in .yaml or .yml"
        raise ConfigError(found, file=os.fspath(path), hint="give the path of a metadataset")
    root = plan_tree(path, split_part=split_part, training=False, check_paths=False)
    return [_traversed(source) for leaf in root.leaves() for source in _sources(leaf)]


def _sources(leaf: LeafPlan) -> Iterator[LeafPlan | JoinMember]:
    if leaf.join is None:
        yield leaf
    else:
        yield from leaf.join.members


def _traversed(source: LeafPlan | JoinMember) -> TraversedDatasetReference:
    return TraversedDatasetReference(
        path=source.path,
        split_part=source.split_part,
        aux={name: store.removeprefix(FILESYSTEM) for name, store in source.aux.items()},
        subflavors=dict(source.subflavors),
        place=source.place,
    )
