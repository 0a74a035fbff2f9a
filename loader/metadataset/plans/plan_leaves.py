"""A metadataset, and those that it names, to the leaves that are to be loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...format.documents.load_request import LoadRequest, is_metadataset
from ..documents.leaf_plan import LeafPlan
from .inherited import InheritedSettings
from .plan_node import PlanNode
from .repeated_leaves import warn_of_repeated_leaves
from .tree_planner import TreePlanner

__all__ = ["plan_leaves", "plan_request", "plan_tree"]


def plan_leaves(
    path: str | os.PathLike[str],
    *,
    split_part: str,
    training: bool,
    subflavors: Mapping[str, Any] | None = None,
    split_config: str | None = None,
    dataset_config: str | None = None,
    epochs_together: int | None = 1,
) -> tuple[LeafPlan, ...]:
    """Give the leaves of a metadataset, or the one that a dataset is; only metadataset files are read.

    Args:
        path: The folder of a prepared dataset, a ``.jsonl`` file, or a metadataset (``.yaml``, ``.yml``).
        split_part: The split of the metadataset, or the split part of the dataset.
        training: Weights and repetitions count; else leaves follow one another, each once.
        subflavors: Labels of all samples; they win over those of the documents.
        split_config: The split file of every dataset, over what documents say.
        dataset_config: The dataset file of every dataset, over what documents say.
        epochs_together: The caller's ``shuffle_over_epochs_multiplier``.

    Raises:
        ConfigError: Everything that is wrong in all documents, with its places.
        StorageError: The metadataset cannot be read.

    Warns:
        UserWarning: Samples of one dataset are reached at two places of the tree.
    """
    request = LoadRequest.at(
        path,
        split_part=split_part,
        split_config=split_config,
        dataset_config=dataset_config,
        subflavors=dict(subflavors or {}),
        epochs_together=epochs_together,
    )
    return plan_request(request, training=training)


def plan_request(request: LoadRequest, *, training: bool) -> tuple[LeafPlan, ...]:
    """Return the leaves of a request; arguments and errors are those of :func:`plan_leaves`."""
    root = _plan(request, training=training, check_paths=True)
    warn_of_repeated_leaves(root)
    return tuple(root.leaves())


def plan_tree(
    path: str | os.PathLike[str],
    *,
    split_part: str,
    training: bool = True,
    subflavors: Mapping[str, Any] | None = None,
    split_config: str | None = None,
    dataset_config: str | None = None,
    epochs_together: int | None = 1,
    check_paths: bool = True,
) -> PlanNode:
    """Give a metadataset as a tree, with what each node comes to in the whole; see :func:`plan_leaves`.

    Args:
        check_paths: It is a fault where a dataset is not there.

    Raises:
        ConfigError: Everything that is wrong in all documents, with its places.
        StorageError: The metadataset cannot be read.
    """
    request = LoadRequest.at(
        path,
        split_part=split_part,
        split_config=split_config,
        dataset_config=dataset_config,
        subflavors=dict(subflavors or {}),
        epochs_together=epochs_together,
    )
    return _plan(request, training=training, check_paths=check_paths)


def _plan(request: LoadRequest, *, training: bool, check_paths: bool) -> PlanNode:
    settings = InheritedSettings(request=request)
    if is_metadataset(request.path):
        return TreePlanner(request.path, training=training, check_paths=check_paths).plan(settings)
    leaf = settings.leaf(request, place="")
    return PlanNode(place="", kind="dataset", path=request.path, split_part=request.split_part, leaf=leaf)
