"""Plan which leaves a metadataset loads; the entry point of planning."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import ConfigError, Fault
from ...format.documents.load_request import LoadRequest
from ...format.documents.messages import short_repr
from ...format.documents.providers import is_metadataset
from ...storage import resolve_path
from ..documents.leaf_plan import LeafPlan
from ..documents.parse import DocumentStore
from .inherited import InheritedSettings
from .plan_node import PlanNode, warn_of_repeated_leaves
from .tree_planner import TreePlanner


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSplits:
    """The planned splits of a metadataset.

    Attributes:
        file: Absolute path of the metadataset.
        names: The requested splits, in order.
        trees: The trees of the splits without faults, by name.
        faults: The faults of the documents, each once.
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
    """Return the leaves of a metadataset, or the single leaf of a dataset; only metadataset files are read.

    Args:
        path: The folder of a prepared dataset, a file of samples, or a metadataset (``.yaml``, ``.yml``).
        split_part: The split of the metadataset, or the split part of the dataset.
        training: Apply weights and repetitions; otherwise each leaf comes once, in order.
        subflavors: Labels of all samples; they override those of the documents.
        split_config: The split file of every dataset; overrides the documents.
        dataset_config: The dataset file of every dataset; overrides the documents.
        epochs_together: The caller's ``shuffle_over_epochs_multiplier``.

    Raises:
        ConfigError: The documents have faults; the error lists all of them with their places.
        StorageError: The metadataset cannot be read.

    Warns:
        UserWarning: Two places of the tree share samples of a dataset.
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
    check_urls: bool = False,
) -> PlanNode:
    """Return a metadataset as a tree, with the share of each node in the whole.

    Args:
        path: See :func:`plan_leaves`.
        split_part: See :func:`plan_leaves`.
        training: See :func:`plan_leaves`.
        subflavors: See :func:`plan_leaves`.
        split_config: See :func:`plan_leaves`.
        dataset_config: See :func:`plan_leaves`.
        epochs_together: See :func:`plan_leaves`.
        check_paths: Treat a missing dataset as a fault.
        check_urls: Likewise one at a URL, which takes a request each.

    Raises:
        ConfigError: The documents have faults; the error lists all of them with their places.
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
    return _plan(request, training=training, check_paths=check_paths, check_urls=check_urls)


def plan_splits(
    path: str | os.PathLike[str],
    *,
    split_parts: Sequence[str] | None = None,
    split_config: str | None = None,
    dataset_config: str | None = None,
) -> PlannedSplits:
    """Plan several splits of a metadataset, to describe or check it; no dataset is read.

    Splits are planned for training. A split whose name does not begin with ``train`` is planned for validation, without
    weights and repetitions, if planning it for training fails.

    Args:
        path: The metadataset.
        split_parts: The splits to plan; None plans all.
        split_config: The split file of every dataset; overrides the documents.
        dataset_config: The dataset file of every dataset; overrides the documents.

    Raises:
        ConfigError: The metadataset does not have one of the splits.
        StorageError: The metadataset cannot be read.
    """
    file = resolve_path(path)
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
    for name in names if spec.names is not None else ("train",):  # planning any split reports the document's faults
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
                    faults |= dict.fromkeys(error.faults or [Fault(place="", message=error.message)])
    return PlannedSplits(file=file, names=names, trees=trees, faults=tuple(faults))


def _check_names(names: Sequence[str], known: Sequence[str], file: str) -> None:
    unknown = [short_repr(name) for name in names if name not in known]
    if unknown:
        available = ", ".join(known) or "none"
        raise ConfigError(f"there is no split {', '.join(unknown)}; there are: {available}", file=file)


def _plan(request: LoadRequest, *, training: bool, check_paths: bool, check_urls: bool = False) -> PlanNode:
    settings = InheritedSettings(request=request)
    if is_metadataset(request.path):
        planner = TreePlanner(request.path, training=training, check_paths=check_paths, check_urls=check_urls)
        return planner.plan(settings)
    leaf = settings.leaf(request, place="")
    return PlanNode(place="", kind="dataset", path=request.path, split_part=request.split_part, leaf=leaf)
