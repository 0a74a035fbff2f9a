"""Is all of a mix true? Check its documents, what they name, and every dataset behind it once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ..errors import ConfigError, EnergonError
from ..format.dataset_config import DatasetConfig
from ..format.dataset_folder import DatasetFolder
from ..format.findings import Finding
from ..format.lint import lint_dataset
from ..format.lint_jsonl import lint_jsonl
from ..format.lint_plan import LintPlan, LintProgress, LintReport, SampleCheck
from ..format.nv_meta import DATASET_YAML, SPLIT_YAML
from ..storage import open_storage
from .dataset_paths import DatasetPaths
from .leaf_plan import JoinMember, LeafPlan
from .leaf_samples import LeafCounter
from .plan_splits import PlannedSplits, plan_splits
from .repeated_leaves import find_repeated_leaves, find_shared_leaves

__all__ = ["MetadatasetLintPlan", "lint_metadataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadatasetLintPlan:
    """What to check of a metadataset.

    Attributes:
        path: The metadataset.
        splits: Which of its splits; None checks all.
        level: How its datasets are checked; see :class:`~loader.format.lint_plan.LintPlan`.
        workers: Processes.
        split_config: The split file of every dataset, over what documents say.
        dataset_config: The dataset file of every dataset, over what documents say.
        max_findings: Stop at this many; None finds all.
        make_sample_check: Makes the check of samples for level ``decode``.
        open_aux: Opens an auxiliary store.
    """

    path: str
    splits: tuple[str, ...] | None = None
    level: str = "decode"
    workers: int = 1
    split_config: str | None = None
    dataset_config: str | None = None
    max_findings: int | None = None
    make_sample_check: Callable[[DatasetConfig | None, str], SampleCheck] | None = None
    open_aux: Callable[[str], object] | None = None


def lint_metadataset(
    plan: MetadatasetLintPlan, *, on_progress: Callable[[LintProgress], None] | None = None
) -> LintReport:
    """Check a metadataset, and of each of its datasets the split parts that it uses.

    Whatever is wrong with the metadataset or a dataset is a finding; only what is wrong with the plan raises.

    Args:
        plan: What to check.
        on_progress: Called after each piece of work.

    Raises:
        ConfigError: The plan names splits that the metadataset does not have.
        StorageError: The metadataset cannot be read.
        WorkerError: A worker process was killed.
    """
    started = time.perf_counter()
    planned = plan_splits(
        plan.path, split_parts=plan.splits, split_config=plan.split_config, dataset_config=plan.dataset_config
    )
    lint = _MetadatasetLint(plan, on_progress)
    lint.check(planned)
    return LintReport(
        findings=tuple(lint.findings),
        complete=lint.complete and not planned.faults,
        shards=lint.shards,
        samples=lint.samples,
        seconds=time.perf_counter() - started,
        datasets=lint.datasets,
    )


_MOST_ALONE = {"headers": 4, "bytes": 4, "decode": 256}
"""Shards, or samples to decode, for which no other processes are started: a mix may have hundreds of small datasets."""

_Dataset = tuple[str, str, str]
"""A dataset as it is checked: its path, split file and dataset file."""


class _MetadatasetLint:
    """One lint: what it has found so far."""

    def __init__(self, plan: MetadatasetLintPlan, on_progress: Callable[[LintProgress], None] | None) -> None:
        self.findings: dict[Finding, None] = {}  # two configurations of a dataset find the same in its shards
        self.complete = True
        self.datasets = self.shards = self.samples = 0
        self._plan = plan
        self._on_progress = on_progress
        self._paths = DatasetPaths()
        self._counter = LeafCounter()
        self._told: set[object] = set()
        self._used: dict[_Dataset, dict[str, None]] = {}  # with the split parts that are read
        self._work: dict[_Dataset, _Work] = {}

    def check(self, planned: PlannedSplits) -> None:
        """Check the documents, then what they name, then the datasets."""
        self._add(Finding(code="E501", message=str(fault)) for fault in planned.faults)
        for name, tree in planned.trees.items():
            self._add(Finding(code="W503", message=f"split {name!r}: {found}") for found in find_repeated_leaves(tree))
            for leaf in tree.leaves():
                self._add(self._leaf(leaf))
        self._add(_seen_in_training(planned))
        self._work = {dataset: _work(dataset, tuple(parts), self._plan.level) for dataset, parts in self._used.items()}
        for dataset, work in self._work.items():
            if self._room() == 0:
                self.complete = False
                return
            self._dataset(dataset, work)

    def _add(self, findings: Iterator[Finding] | Sequence[Finding]) -> None:
        for finding in findings:
            if finding in self.findings:
                continue
            if self._room() == 0:
                self.complete = False
                return
            self.findings[finding] = None

    def _room(self) -> int | None:
        wanted = self._plan.max_findings
        return None if wanted is None else wanted - len(self.findings)

    # ------------------------------------------------------------------------------------------- what documents name

    def _leaf(self, leaf: LeafPlan) -> Iterator[Finding]:
        """Check that what a leaf names is there, and note its datasets."""
        datasets = leaf.join.members if leaf.join is not None else (leaf,)
        missing = [(dataset.path, self._missing(dataset)) for dataset in datasets]
        for path, fault in missing:
            if fault is not None:
                yield from self._once(("path", path), fault)
        for dataset in datasets:
            yield from self._stores(dataset)
        if all(fault is None for _, fault in missing):
            yield from self._samples(leaf)

    def _samples(self, leaf: LeafPlan) -> Iterator[Finding]:
        """Check that a leaf whose datasets are there has samples."""
        if leaf.join is not None:
            try:
                self._counter.count_rows(leaf.join)
            except EnergonError as error:
                yield Finding(code="E505", message=f"{leaf.place}: {_in_one_line(error)}")
                return
        try:
            self._counter.count(leaf)
        except ConfigError as error:
            if not error.file:  # else it is about a file of the dataset, and found there
                place = leaf.place if leaf.join is not None else ""
                about = ("samples", leaf.path, place, leaf.split_part, leaf.split_config, leaf.subset)
                at = "" if place else f"{leaf.path}: "
                yield from self._once(about, Finding(code="E504", message=f"{leaf.place}: {at}{error.found}"))
        except EnergonError:
            pass  # found in the dataset, too

    def _missing(self, dataset: LeafPlan | JoinMember) -> Finding | None:
        """Say why a dataset cannot be opened; where it can, note that it is used."""
        try:
            fault = self._paths.fault_of_dataset(dataset.path)
        except EnergonError as error:
            fault = error.found
        if fault is not None:
            return Finding(code="E502", message=f"{dataset.place}.path: {fault}")
        used = (dataset.path, dataset.split_config or SPLIT_YAML, dataset.dataset_config or DATASET_YAML)
        self._used.setdefault(used, {})[dataset.split_part] = None
        return None

    def _stores(self, dataset: LeafPlan | JoinMember) -> Iterator[Finding]:
        for name, url in dataset.aux.items():
            if self._plan.open_aux is None or ("store", url) in self._told:
                continue
            self._told.add(("store", url))
            try:
                self._plan.open_aux(url)
            except EnergonError as error:
                yield Finding(code="E506", message=f"{dataset.place}.aux.{name}: {url}: {_in_one_line(error)}")

    def _once(self, about: object, finding: Finding) -> Iterator[Finding]:
        if about not in self._told:
            self._told.add(about)
            yield finding

    # ---------------------------------------------------------------------------------------------------- datasets

    def _dataset(self, dataset: _Dataset, work: _Work) -> None:
        path, split_config, dataset_config = dataset
        plan = self._plan

        def progress(now: LintProgress) -> None:
            work.done = work.total * now.done / now.total
            if self._on_progress is not None:
                done = round(sum(each.done for each in self._work.values()))
                total = sum(each.total for each in self._work.values())
                unit = "samples" if plan.level == "decode" else "shards"
                self._on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(self.findings)))

        room = self._room()
        if path.endswith(".jsonl"):
            folder, name = os.path.split(path)
            report = lint_jsonl(open_storage(folder), name, level=plan.level, max_findings=room, on_progress=progress)
        else:
            of_one = LintPlan(
                path=path,
                level=plan.level,
                workers=plan.workers if work.total > _MOST_ALONE.get(plan.level, 0) else 1,
                split_parts=work.split_parts,
                split_config=split_config,
                dataset_config=dataset_config,
                max_findings=room,
                make_sample_check=plan.make_sample_check,
            )
            report = lint_dataset(of_one, on_progress=progress)
        work.done = work.total
        self.complete &= report.complete
        self.datasets += 1
        self.shards += report.shards
        self.samples += report.samples
        self._add([replace(finding, dataset=path) for finding in report.findings])


def _seen_in_training(planned: PlannedSplits) -> Iterator[Finding]:
    """Find samples of a split for training that another split has, too."""
    training = [name for name in planned.trees if name.startswith("train")]
    for name, other in product(training, planned.trees):
        if other not in training:
            for found in find_shared_leaves(planned.trees[name], planned.trees[other]):
                yield Finding(code="W507", message=f"splits {name!r} and {other!r}: {found}")


def _in_one_line(error: EnergonError) -> str:
    found = error.found.replace("\n", "; ")
    return f"{found}; {error.do}" if error.do else found


@dataclass(slots=True, kw_only=True)
class _Work:
    """What there is to do for a dataset: which split parts it has of those that are used, and how much that is."""

    split_parts: tuple[str, ...] | None
    total: int
    done: float = 0.0


def _work(dataset: _Dataset, parts: tuple[str, ...], level: str) -> _Work:
    path, split_config, dataset_config = dataset
    if path.endswith(".jsonl"):
        return _Work(split_parts=None, total=1)
    try:
        folder = DatasetFolder(path, split_config=split_config, dataset_config=dataset_config)
        split = folder.split.split_parts if folder.split else {}
    except EnergonError:
        return _Work(split_parts=None, total=1)  # linting it says what is wrong
    known = tuple(part for part in parts if part in split)
    counts = [folder.shard_counts.get(shard, 0) for part in known for shard in split[part]]
    return _Work(split_parts=known, total=sum(counts) if level == "decode" else len(counts))
