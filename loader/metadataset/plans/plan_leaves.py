"""A metadataset, and those that it names, to the leaves that are to be loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, Fault
from ...format.documents.load_request import LoadRequest, is_metadataset, resolve_path
from ...format.documents.messages import short_repr
from ..documents.leaf_plan import LeafPlan
from ..documents.parse import DocumentStore
from .inherited import InheritedSettings
from .plan_node import PlanNode, warn_of_repeated_leaves
from .tree_planner import TreePlanner

__all__ = ["PlannedSplits", "plan_leaves", "plan_request", "plan_splits", "plan_tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplits:
    """The splits of a metadataset.

    Attributes:
        file: Its absolute path.
        names: The splits that were asked for, in order.
        trees: Those that could be planned, by name.
        faults: What is wrong with the documents, each thing once.
    """

    file: str
    names: tuple[str, ...]
    trees: Mapping[str, PlanNode]
    faults: tuple[Fault, ...]


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


def plan_splits(
    path: str | os.PathLike[str],
    *,
    split_parts: Sequence[str] | None = None,
    split_config: str | None = None,
    dataset_config: str | None = None,
) -> PlannedSplits:
    """Plan splits of a metadataset; no dataset is looked at.

    A split is planned as training would read it. One that is not called ``train…`` may also be what only validation
    reads, where amounts do not count.

    Args:
        path: The metadataset.
        split_parts: Which splits; None plans all.
        split_config: The split file of every dataset, over what documents say.
        dataset_config: The dataset file of every dataset, over what documents say.

    Raises:
        ConfigError: It has no such splits.
        StorageError: It cannot be read.
    """
    file = resolve_path(os.fspath(path), os.getcwd())
    spec = DocumentStore(file).open(file)
    faults: dict[Fault, None] = {}
    trees: dict[str, PlanNode] = {}
    if spec.names is None or split_parts is None:
        names = spec.names or ()
    else:
        names = tuple(split_parts)
        _check_names(names, spec.names, file)
    if spec.names == ():
        faults[Fault(place="splits", message="this is empty; expected a split, such as train")] = None
    for name in names if spec.names is not None else ("train",):  # any name tells what is wrong with the document
        kinds = (True,) if name.startswith("train") else (True, False)
        for training in kinds:
            try:
                trees[name] = plan_tree(
                    file,
                    split_part=name,
                    training=training,
                    split_config=split_config,
                    dataset_config=dataset_config,
                    check_paths=False,
                )
                break
            except ConfigError as error:
                if training == kinds[-1]:
                    faults |= dict.fromkeys(error.faults)
    return PlannedSplits(file=file, names=names, trees=trees, faults=tuple(faults))


def _check_names(names: Sequence[str], known: Sequence[str], file: str) -> None:
    unknown = [short_repr(name) for name in names if name not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise ConfigError(f"there is no split {', '.join(unknown)}; there are: {there}", file=file)


def _plan(request: LoadRequest, *, training: bool, check_paths: bool) -> PlanNode:
    settings = InheritedSettings(request=request)
    if is_metadataset(request.path):
        return TreePlanner(request.path, training=training, check_paths=check_paths).plan(settings)
    leaf = settings.leaf(request, place="")
    return PlanNode(place="", kind="dataset", path=request.path, split_part=request.split_part, leaf=leaf)
