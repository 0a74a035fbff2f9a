"""All splits of a metadataset at once, for those who describe or check it rather than train on one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import ConfigError, Fault
from ...format.documents.load_request import resolve_path
from ...format.documents.messages import short_repr
from ..documents.document_store import DocumentStore
from .plan_leaves import plan_tree
from .plan_node import PlanNode

__all__ = ["PlannedSplits", "plan_splits"]


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
