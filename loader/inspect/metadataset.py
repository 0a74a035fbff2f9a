"""Collect facts about a metadataset, as plain data with stable keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError, EnergonError
from ..format.dataset_ref import DOCUMENT_CHOICES, DatasetRef
from ..metadataset.documents.leaf_plan import JoinMember, JoinPlan, LeafPlan
from ..metadataset.documents.paths import DatasetPaths
from ..metadataset.leaf_samples import LeafCounter
from ..metadataset.plans.blend_tree import SAMPLES
from ..metadataset.plans.plan_leaves import plan_splits
from ..metadataset.plans.plan_node import PlanNode


def metadataset_facts(ref: DatasetRef | str) -> dict[str, Any]:
    """Return the facts about the splits of a metadataset, and the shards of its datasets at ``hf://``.

    Args:
        ref: The metadataset; its split file and dataset file replace those that the documents name for a dataset.

    Raises:
        ConfigError: Documents contain faults; all are listed. Faults of datasets are part of the facts instead.
        StorageError: The file cannot be read.
    """
    planned = plan_splits(ref).checked()
    # All splits share what is known of datasets: splits often read the same ones.
    paths, counter = DatasetPaths(), LeafCounter()
    splits = [_SplitFacts(tree, paths, counter).facts(name) for name, tree in planned.trees.items()]
    datasets = {dataset.ref for tree in planned.trees.values() for leaf in tree.leaves() for dataset in leaf.datasets}
    return {
        "path": planned.file,
        "type": "metadataset",
        "faults": sum(split["faults"] for split in splits),
        "splits": splits,
        "shards_of_hub": {ref.path: counter.shards(ref) for ref in datasets if ref.path.startswith("hf://")},
    }


class _SplitFacts:
    """The shares and repetitions of the leaves of one split."""

    def __init__(self, tree: PlanNode, paths: DatasetPaths, counter: LeafCounter) -> None:
        self._tree = tree
        self._paths, self._counter = paths, counter
        leaves = list(tree.leaves())
        self._counts = {id(leaf): self._count(leaf) for leaf in leaves}
        # Validation may mix weights and repetitions, which then have no effect.
        self._weighted = all(leaf.weight is not None and leaf.repetitions is None for leaf in leaves)
        self._total = _sum([self._counts[id(leaf)][0] for leaf in leaves])
        self._pass = _sum([self._pass_samples(leaf) for leaf in leaves])
        self._is_repeated = all(leaf.repetitions is not None and leaf.weight is None for leaf in leaves)
        self._faults = 0

    def facts(self, name: str) -> dict[str, Any]:
        """Return the facts of the split; ``epoch`` is the number of samples in a pass, with repetitions."""
        tree = self._node(self._tree)
        return {
            "name": name,
            "leaves": len(self._counts),
            "samples": self._total,
            "epoch": self._total if self._weighted or self._pass is None else round(self._pass),
            "mixed_by": "weight" if self._weighted else "repetitions" if self._is_repeated else None,
            "faults": self._faults,
            "tree": tree,
        }

    def _fault(self, dataset: LeafPlan | JoinMember) -> str | None:
        """Return the first fault of a dataset's path and of the paths of its auxiliary stores; None without faults."""
        try:
            faults = [self._paths.fault_of_dataset(dataset.ref)]
            for name, store in dataset.request.aux.items():
                fault = self._paths.fault_of_aux(store)
                faults.append(fault and f"aux {name}: {fault}")
        except EnergonError as error:
            return _one_line(error)
        return next(filter(None, faults), None)

    def _count(self, leaf: LeafPlan) -> tuple[int | None, str | None]:
        """Return the number of samples of a leaf, and why it is unknown or the leaf cannot be loaded."""
        fault = None if leaf.join is not None else self._fault(leaf)
        try:
            return self._counter.count(leaf), fault
        except EnergonError as error:
            return None, fault or _one_line(error, of_dataset=leaf.join is None)

    def _pass_samples(self, leaf: LeafPlan) -> float | None:
        samples = self._counts[id(leaf)][0]
        return None if samples is None else samples * (1.0 if leaf.repetitions is None else leaf.repetitions)

    def _share(self, leaf: LeafPlan) -> float | None:
        if self._weighted:
            return leaf.weight
        times = self._pass_samples(leaf)
        return times / self._pass if times is not None and self._pass else None

    def _expected_repetitions(self, leaf: LeafPlan) -> float | None:
        # The repetitions of each sample in a pass are unknown if a blend with a unit leads to the leaf, as its share of
        # samples depends on their sizes, or if its share changes during the run.
        samples = self._counts[id(leaf)][0]
        if leaf.schedule is not None or any(step.unit != SAMPLES for step in leaf.blends):
            return None
        # Without weights, the documents name the repetitions.
        if not self._weighted or leaf.weight is None:
            return 1.0 if leaf.repetitions is None else leaf.repetitions
        # With weights, the leaf has its share of as many samples as the whole mix has.
        return leaf.weight * self._total / samples if self._total is not None and samples else None

    def _node(self, node: PlanNode) -> dict[str, Any]:
        # Every node has all keys, so that readers of the JSON need no checks; leaves replace some values.
        children = [self._node(child) for child in node.children]
        facts: dict[str, Any] = {
            "kind": node.kind,
            "place": node.place,
            "path": node.path,
            "split_part": node.split_part,
            "unit": node.unit,
            "share": _sum([child["share"] for child in children]),
            "schedule": _schedule(node),
            "repetitions": node.repetitions,
            "expected_repetitions": None,
            "samples": _sum([child["samples"] for child in children]),
            **_documents(DatasetRef("")),
            "filter": None,
            "subset": [],
            "subflavors": {},
            **_stores({}),
            "join": None,
            "fault": None,
            "children": children,
        }
        if node.leaf is not None:
            facts |= self._leaf(node.leaf)
        return facts

    def _leaf(self, leaf: LeafPlan) -> dict[str, Any]:
        samples, fault = self._counts[id(leaf)]
        join = None if leaf.join is None else self._join(leaf.join)
        # A fault of a member is reported in place of the fault of the join, which follows from it.
        if join is not None:
            fault = next((member["fault"] for member in join["members"] if member["fault"]), fault)
        self._faults += fault is not None
        return {
            "share": self._share(leaf),
            "expected_repetitions": self._expected_repetitions(leaf),
            "samples": samples,
            **_documents(leaf.ref),
            "filter": leaf.filter,
            "subset": [str(applied) for applied in leaf.request.subset],
            "subflavors": dict(leaf.request.subflavors),
            **_stores(leaf.request.aux),
            "join": join,
            "fault": fault,
        }

    def _join(self, join: JoinPlan) -> dict[str, Any]:
        joiner = join.joiner
        return {
            "joiner": None if joiner is None else f"{joiner.module}.{joiner.name}",
            "members": [
                {
                    "name": member.name,
                    "path": member.path,
                    "split_part": member.split_part,
                    **_documents(member.ref),
                    "filter": member.filter,
                    "nonmatch": member.nonmatch,
                    "subflavors": dict(member.request.subflavors),
                    **_stores(member.request.aux),
                    "fault": self._fault(member),
                }
                for member in join.members
            ],
        }


def _documents(ref: DatasetRef) -> dict[str, str | None]:
    return {name: getattr(ref, name) for name in DOCUMENT_CHOICES}


def _stores(aux: Mapping[str, DatasetRef]) -> dict[str, dict[str, str]]:
    return {
        "aux": {name: ref.path for name, ref in aux.items()},
        "aux_meta_folders": {name: ref.meta_folder for name, ref in aux.items() if ref.meta_folder is not None},
    }


def _schedule(node: PlanNode) -> dict[str, Any] | None:
    """Return the share of a node in each stretch of a run; None if it never changes."""
    if node.schedule is None:
        return None
    return {
        "unit": node.schedule.unit,
        "starts": [*node.schedule.starts],
        "shares": [*node.schedule.weights],
        "text": str(node.schedule),
    }


def _one_line(error: EnergonError, *, of_dataset: bool = True) -> str:
    text = error.message.replace("\n", "; ")
    if of_dataset and isinstance(error, ConfigError) and error.file:
        text = f"{error.file}: {text}"
    return f"{text}; {error.hint}" if error.hint else text


def _sum(numbers: Sequence[Any]) -> Any:
    # A sum with an unknown number is unknown.
    return None if any(count is None for count in numbers) else sum(numbers)
