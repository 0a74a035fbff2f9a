"""List the datasets of a metadataset, without opening them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError
from ...format.documents.messages import did_you_mean
from ...format.documents.providers import files_folder, is_metadataset
from ...storage import EPath
from ..documents.leaf_plan import JoinMember, LeafPlan
from .plan_leaves import plan_tree


@dataclass(frozen=True, slots=True)
class TraversedDatasetReference:
    """One dataset that a metadataset references.

    Attributes:
        path: The resolved path, or the URL as written.
        split_part: Part of its split.
        aux: Auxiliary stores, folders of files included: name → resolved path or URL.
        subflavors: Labels of its samples, combined over all levels.
        place: Place of the reference; see :class:`.LeafPlan`.
    """

    path: EPath
    split_part: str
    aux: dict[str, EPath]
    subflavors: dict[str, Any]
    place: str = ""


def traverse_metadataset(
    path: str | os.PathLike[str], *, split_part: str, **kwargs: Any
) -> list[TraversedDatasetReference]:
    """List the datasets of a split of a metadataset, in order; a join is listed as its members.

    The datasets need not exist.

    Args:
        path: The metadataset.
        split_part: The split.
        **kwargs: No other argument is known; accepted for compatibility of the signature.

    Raises:
        ConfigError: The path is no metadataset, or the documents have faults.
        StorageError: The file cannot be read.
        TypeError: An argument is unknown.
    """
    for name in kwargs:
        raise TypeError(f"traverse_metadataset() has no argument {name!r}{did_you_mean(name, ['path', 'split_part'])}")
    if not is_metadataset(path):
        found = "this is no metadataset; expected a file that ends in .yaml or .yml"
        raise ConfigError(found, file=os.fspath(path), hint="pass the path of a metadataset")
    root = plan_tree(path, split_part=split_part, training=False, check_paths=False)
    return [_traversed(source) for leaf in root.leaves() for source in leaf.datasets]


def _traversed(source: LeafPlan | JoinMember) -> TraversedDatasetReference:
    return TraversedDatasetReference(
        path=EPath(source.path),
        split_part=source.split_part,
        aux={name: EPath(files_folder(store.path) or store.path) for name, store in source.request.aux.items()},
        subflavors=dict(source.request.subflavors),
        place=source.place,
    )
