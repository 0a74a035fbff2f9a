"""Is all of it true? Check a dataset against its index, its split and its ``dataset.yaml``."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import accumulate
from typing import overload

from ..errors import ConfigError, FormatError, StorageError
from .dataset_config import DatasetConfig
from .dataset_folder import DatasetFolder
from .findings import Finding
from .index_layout import ShardEntry
from .lint_metadata import check_config, check_duplicate_keys, check_split, unreadable
from .lint_plan import LEVELS, LintPlan, LintProgress, LintReport, SampleCheck
from .lint_sqlite import check_sqlite
from .lint_task import LintChecker, LintTask
from .nv_meta import INDEX_SQLITE
from .worker_pool import run_in_workers

__all__ = ["LEVELS", "LintPlan", "LintProgress", "LintReport", "SampleCheck", "lint_dataset"]

_SAMPLES_AT_ONCE = 256
_UNTRUE = frozenset(("E005", "E101", "E102", "E104", "E105", "E109"))
"""Findings about a shard after which the index may not say where its parts are: each would fail to decode."""


def lint_dataset(plan: LintPlan, *, on_progress: Callable[[LintProgress], None] | None = None) -> LintReport:
    """Check a dataset.

    Whatever is wrong with the dataset is a finding; only what is wrong with the plan raises.

    Args:
        plan: What to check.
        on_progress: Called after each piece of work.

    Raises:
        ConfigError: The dataset has a split, and the plan names parts that it does not have.
        WorkerError: A worker process was killed.
    """
    started = time.perf_counter()
    lint = _Lint(plan, on_progress)
    unknown: ConfigError | None = None
    try:
        dataset = DatasetFolder(plan.path, split_config=plan.split_config, dataset_config=plan.dataset_config)
        unknown = _unknown_parts(dataset, plan.split_parts or ())
        if unknown is None:
            lint.check(dataset)
    except FormatError as error:
        lint.add([Finding(code="E005", message=str(error).replace("\n", " "))])
    except (ConfigError, StorageError) as error:
        lint.add([unreadable(error)])
    if unknown is not None:
        raise unknown
    return LintReport(
        findings=tuple(sorted(lint.findings, key=lint.place)),
        complete=lint.complete,
        shards=lint.shards,
        samples=lint.samples,
        seconds=time.perf_counter() - started,
    )


class _Lint:
    """One lint: what it has found so far, until there are as many findings as were asked for."""

    def __init__(self, plan: LintPlan, on_progress: Callable[[LintProgress], None] | None) -> None:
        self.findings: list[Finding] = []
        self.complete = True
        self.shards = 0
        self.samples = 0
        self._plan = plan
        self._on_progress = on_progress
        self._numbers: dict[str, int] = {}  # of the shards

    def add(self, findings: Sequence[Finding]) -> None:
        """Keep findings, as many as were asked for."""
        self.findings += findings
        wanted = self._plan.max_findings
        if wanted is not None and len(self.findings) > wanted:
            del self.findings[wanted:]
            self.complete = False

    def place(self, finding: Finding) -> tuple[int, int, str]:
        """Give where a finding stands in the report."""
        return self._numbers.get(finding.shard or "", -1), finding.offset or 0, finding.code

    def check(self, dataset: DatasetFolder) -> None:
        """Check the metadata, then the headers, then the samples of shards whose headers are as indexed."""
        plan = self._plan
        self._numbers = {shard: number for number, shard in enumerate(dataset.shard_counts)}
        of_sqlite = list(check_sqlite(dataset))
        self.add([*check_config(dataset), *check_split(dataset), *of_sqlite])
        self.add(list(check_duplicate_keys(dataset.index)))
        shards = _chosen(dataset, plan.split_parts)
        check = _sample_check(dataset, plan)
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            self.add([Finding(code="W009", message=unchecked)])

        compares_sqlite = dataset.storage.exists(INDEX_SQLITE) and not of_sqlite
        numbers = self._numbers if compares_sqlite else {}
        checker = LintChecker(plan, check, _readable_config(dataset), numbers)
        total = sum(shard.samples for shard in shards)
        self.shards, self.samples = len(shards), total
        self._run(checker, [LintTask(shard) for shard in shards], 0 if check else len(shards))
        if check is not None:
            untrue = {finding.shard for finding in self.findings if finding.code in _UNTRUE}
            true = [shard for shard in shards if shard.name not in untrue]
            self.samples = sum(shard.samples for shard in true)
            self._run(checker, _DecodeTasks(true), self.samples)

    def _run(self, checker: LintChecker, tasks: Sequence[LintTask], total: int) -> None:
        """Do tasks, and report progress where there is a total: what the others do takes a moment."""
        if tasks and self._is_full():
            self.complete = False
            return
        done = 0
        with closing(run_in_workers(checker, tasks, workers=self._plan.workers)) as results:
            for finished, (number, found) in enumerate(results, start=1):
                self.add(found)
                samples = tasks[number].samples
                done += 1 if samples is None else len(samples)
                if total and self._on_progress:
                    unit = "shards" if samples is None else "samples"
                    self._on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(self.findings)))
                if finished < len(tasks) and self._is_full():
                    self.complete = False
                    return

    def _is_full(self) -> bool:
        return self._plan.max_findings is not None and len(self.findings) >= self._plan.max_findings


def _readable_config(dataset: DatasetFolder) -> DatasetConfig | None:
    try:
        return dataset.config
    except ConfigError:
        return None  # reported by check_config


def _sample_check(dataset: DatasetFolder, plan: LintPlan) -> SampleCheck | None:
    if plan.level != "decode" or plan.make_sample_check is None:  # a plan for level decode has one
        return None
    return plan.make_sample_check(_readable_config(dataset), dataset.meta_folder)


def _chosen(dataset: DatasetFolder, split_parts: tuple[str, ...] | None) -> list[ShardEntry]:
    """Give the shards to check: all but excluded ones, or those of some split parts; none where these are unknown."""
    try:
        split = dataset.split
    except ConfigError:
        split = None  # reported by check_split
    excluded = split.excluded_shards() if split else frozenset()
    shards = [shard for shard in dataset.index.shards if shard.name not in excluded]
    if split_parts is None:
        return shards
    chosen = {shard for part in split_parts if split for shard in split.split_parts[part]}
    return [shard for shard in shards if shard.name in chosen]


def _unknown_parts(dataset: DatasetFolder, names: Sequence[str]) -> ConfigError | None:
    """Give the error for names of no split part; None where there are none, or no split to read (a finding)."""
    try:
        split = dataset.split
    except ConfigError:
        return None
    unknown = [repr(name) for name in names if split and name not in split.split_parts]
    if not unknown or split is None:
        return None
    there = ", ".join(split.split_parts) or "none"
    return ConfigError(f"there is no split part {', '.join(unknown)}; there are: {there}")


class _DecodeTasks(Sequence[LintTask]):
    """The samples of shards as tasks that are made when asked for: a large dataset has millions."""

    def __init__(self, shards: Sequence[ShardEntry]) -> None:
        self._shards = shards
        self._ends = list(accumulate(-(-shard.samples // _SAMPLES_AT_ONCE) for shard in shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, number: int, /) -> LintTask: ...
    @overload
    def __getitem__(self, number: slice, /) -> Sequence[LintTask]: ...
    def __getitem__(self, number: int | slice, /) -> LintTask | Sequence[LintTask]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(f"expected a task in [0, {len(self)}), found {number}")
        which = bisect_right(self._ends, number)
        shard = self._shards[which]
        start = (number - (self._ends[which - 1] if which else 0)) * _SAMPLES_AT_ONCE
        stop = min(start + _SAMPLES_AT_ONCE, shard.samples)
        return LintTask(shard, range(shard.first_sample + start, shard.first_sample + stop))
