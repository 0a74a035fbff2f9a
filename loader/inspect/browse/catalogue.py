"""Open the datasets of paths, with their weights in a metadataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from ...dataset.unprepared.tar_index import with_index
from ...format.dataset_ref import DatasetRef
from ...metadataset.datasets import DatasetNames
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.plans.plan_leaves import plan_splits
from ...metadataset.plans.plan_node import PlanNode
from ...prepare.plan import ProgressCallback
from .dataset import BrowsedDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueNode:
    """A node of a path's tree.

    Attributes:
        kind: ``"dataset"``, ``"join"``, ``"metadataset"``, ``"blend"``, ``"blend_epochized"`` or ``"split"``.
        weight: Share of all samples; None if nothing is weighted.
        repetitions: Repetitions in a pass; None if nothing is repeated.
        datasets: Numbers of the datasets that a leaf reads; a join reads several.
    """

    kind: str
    name: str
    path: str
    weight: float | None = None
    repetitions: float | None = None
    datasets: tuple[int, ...] = ()
    children: tuple[CatalogueNode, ...] = ()


class Catalogue:
    """The datasets of some paths, whose names are unique and the same at each start.

    Tar shards that are not prepared are indexed in a temporary folder, until :meth:`close`.

    Args:
        refs: Datasets, single files of samples, tar shards that are not prepared, and metadatasets.
        on_progress: Called after each shard that is indexed.
    """

    def __init__(self, refs: Sequence[DatasetRef], on_progress: ProgressCallback | None = None) -> None:
        self.refs = refs
        self.datasets: list[BrowsedDataset] = []
        self._names = DatasetNames()
        with ExitStack() as stack:
            self._temporary, self._on_progress = stack, on_progress
            self.trees: tuple[CatalogueNode, ...] = tuple(self._tree(ref) for ref in refs)
            self._temporary = stack.pop_all()

    def dataset_of(self, path: str) -> int | None:
        """Return the number of the first dataset of a path; None for an unknown path."""
        return next((index for index, dataset in enumerate(self.datasets) if _same(dataset.folder.path, path)), None)

    def close(self) -> None:
        """Close all datasets."""
        for dataset in self.datasets:
            dataset.close()
        self._temporary.close()

    def _tree(self, ref: DatasetRef) -> CatalogueNode:
        path = ref.path
        if ref.kind.is_mix:
            planned = plan_splits(path).checked()
            splits = (self._split(split, planned.trees[split]) for split in planned.names)
            return CatalogueNode(
                kind="metadataset", name=os.path.basename(path.rstrip("/")), path=path, children=tuple(splits)
            )
        name = self._names.add(path)
        indexed = with_index(ref, self._temporary, self._on_progress)
        dataset_index = self._add(name, indexed, is_prepared=indexed is ref and not ref.kind.is_file)
        return CatalogueNode(kind="dataset", name=name, path=path, datasets=(dataset_index,))

    def _split(self, name: str, tree: PlanNode) -> CatalogueNode:
        nodes = tree.children if tree.kind == "metadataset" else (tree,)
        return CatalogueNode(
            kind="split", name=name, path=tree.path, children=tuple(self._node(name, node) for node in nodes)
        )

    def _node(self, split: str, node: PlanNode) -> CatalogueNode:
        numbers: tuple[int, ...] = ()
        name = os.path.basename(node.path.rstrip("/"))
        if node.leaf is not None:
            numbers = tuple(self._of_leaf(split, node.leaf))
            name = " + ".join(self.datasets[index].name for index in numbers) or name
        return CatalogueNode(
            kind=node.kind,
            name=name,
            path=node.path,
            weight=node.weight,
            repetitions=node.repetitions,
            datasets=numbers,
            children=tuple(self._node(split, child) for child in node.children),
        )

    def _of_leaf(self, split: str, leaf: LeafPlan) -> Iterator[int]:
        for member in leaf.datasets:
            is_file = member.ref.kind.is_file
            yield self._add(
                self._names.add(member.path),
                replace(member.ref, dataset_config=None),
                weight=leaf.weight,
                split_part=None if is_file else member.split_part,
                place=f"{split}: {leaf.place}",
                is_prepared=not is_file,
            )

    def _add(self, name: str, ref: DatasetRef, **settings: Any) -> int:
        self.datasets.append(BrowsedDataset(name, ref, **settings))
        return len(self.datasets) - 1


def _same(path: str, other: str) -> bool:
    return path.rstrip("/") == other.rstrip("/") or ("://" not in path and os.path.realpath(path) == other)
