"""Lint a dataset: check its shards, index, split and ``dataset.yaml``; exclude the samples that are broken."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import accumulate
from typing import overload

from ...errors import ConfigError, FormatError, StorageError
from ..dataset_folder import DatasetFolder
from ..documents.dataset_config import DatasetConfig
from ..documents.split_config import SplitConfig, format_split_config, parse_split_config
from ..index.layout import ShardEntry
from ..nv_meta import FOLDER, INDEX_SQLITE, LOCK
from ..worker_pool import run_in_workers
from .metadata import check_config, check_duplicate_keys, check_filters, check_split, check_sqlite, unreadable_dataset
from .record_folder import RecordShardLint
from .report import LEVELS, Finding, LintPlan, LintProgress, LintReport, SampleCheck
from .task import LintChecker, LintTask

__all__ = [
    "LEVELS",
    "LintPlan",
    "LintProgress",
    "LintReport",
    "SampleCheck",
    "exclude_broken_samples",
    "lint_dataset",
]

_SAMPLES_AT_ONCE = 256
_STALE = frozenset(("E005", "E101", "E102", "E104", "E105", "E109"))
"""Findings about a shard after which the index may have wrong offsets, so that every part would fail to decode."""


def lint_dataset(plan: LintPlan, *, on_progress: Callable[[LintProgress], None] | None = None) -> LintReport:
    """Lint a dataset.

    Every fault of the dataset is a finding; only faults of the plan raise.

    Args:
        plan: The plan of the lint.
        on_progress: Called after each task.

    Raises:
        ConfigError: The plan names split parts that the dataset's split does not have.
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
        lint.add([unreadable_dataset(error)])
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
    """A running lint: its findings so far, up to the maximum of the plan."""

    def __init__(self, plan: LintPlan, on_progress: Callable[[LintProgress], None] | None) -> None:
        self.findings: list[Finding] = []
        self.complete = True
        self.shards = 0
        self.samples = 0
        self._plan = plan
        self._on_progress = on_progress
        self._numbers: dict[str, int] = {}  # shard → number

    def add(self, findings: Sequence[Finding]) -> None:
        """Add findings, up to the maximum."""
        self.findings += findings
        limit = self._plan.max_findings
        if limit is not None and len(self.findings) > limit:
            del self.findings[limit:]
            self.complete = False

    def place(self, finding: Finding) -> tuple[int, int, str]:
        """Return the sort key of a finding in the report."""
        return self._numbers.get(finding.shard or "", -1), finding.offset or 0, finding.code

    def check(self, dataset: DatasetFolder) -> None:
        """Check the metadata, then the headers of all shards, then the samples of shards with correct headers."""
        plan = self._plan
        self._numbers = {shard: number for number, shard in enumerate(dataset.shard_counts)}
        if dataset.records is not None:
            self._check_records(dataset, decodes=dataset.records.decodes)
            return
        sqlite_findings = list(check_sqlite(dataset))
        self.add([*check_config(dataset), *check_split(dataset), *check_filters(dataset), *sqlite_findings])
        self.add(list(check_duplicate_keys(dataset.tar_index)))
        shards = _shards_to_check(dataset, plan.split_parts)
        check = _sample_check(dataset, plan)
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            self.add([Finding(code="W009", message=unchecked)])

        has_sqlite = dataset.storage.exists(INDEX_SQLITE) and not sqlite_findings
        numbers = self._numbers if has_sqlite else {}
        checker = LintChecker(plan, check, _readable_config(dataset), numbers)
        total = sum(shard.samples for shard in shards)
        self.shards, self.samples = len(shards), total
        self._run(checker, [LintTask(shard) for shard in shards], 0 if check else len(shards))
        if check is not None:
            stale = {finding.shard for finding in self.findings if finding.code in _STALE}
            fresh = [shard for shard in shards if shard.name not in stale]
            self.samples = sum(shard.samples for shard in fresh)
            self._run(checker, _DecodeTasks(fresh), self.samples)

    def _check_records(self, dataset: DatasetFolder, *, decodes: bool) -> None:
        """Check the metadata, and each file of numbered samples."""
        plan = self._plan
        self.add([*check_config(dataset), *check_split(dataset), *check_filters(dataset)])
        shards = _shards_to_check(dataset, plan.split_parts)
        config = _readable_config(dataset)
        is_typed = decodes and config is not None and not config.crude  # a line that is JSON is a whole crude sample
        self.shards, self.samples = len(shards), sum(shard.samples for shard in shards)
        lint = RecordShardLint(
            path=plan.path,
            split_config=plan.split_config,
            level=plan.level,
            max_findings=plan.max_findings,
            check=_sample_check(dataset, plan) if is_typed else None,
        )
        with closing(run_in_workers(lint, shards, workers=plan.workers)) as results:
            for finished, (_, found) in enumerate(results, start=1):
                self.add(found)
                if self._on_progress:
                    progress = LintProgress(
                        done=finished, total=len(shards), unit="shards", findings=len(self.findings)
                    )
                    self._on_progress(progress)
                if finished < len(shards) and self._is_full():
                    self.complete = False
                    return

    def _run(self, checker: LintChecker, tasks: Sequence[LintTask], total: int) -> None:
        """Run tasks in workers, and report progress unless ``total`` is 0: those tasks are fast."""
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


def _shards_to_check(dataset: DatasetFolder, split_parts: tuple[str, ...] | None) -> list[ShardEntry]:
    """Return the shards to check: all that are not excluded, or only those of some split parts.

    Without a readable split, split parts have no shards.
    """
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
    """Return an error for unknown names of split parts.

    Returns:
        None if all are known, or if the split is missing or invalid, which is a finding.
    """
    try:
        split = dataset.split
    except ConfigError:
        return None
    unknown = [repr(name) for name in names if split and name not in split.split_parts]
    if not unknown or split is None:
        return None
    known = ", ".join(split.split_parts) or "none"
    return ConfigError(f"there is no split part {', '.join(unknown)}; there are: {known}")


class _DecodeTasks(Sequence[LintTask]):
    """The tasks that decode the samples of shards; built on access, because a large dataset has millions."""

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
        shard_number = bisect_right(self._ends, number)
        shard = self._shards[shard_number]
        start = (number - (self._ends[shard_number - 1] if shard_number else 0)) * _SAMPLES_AT_ONCE
        stop = min(start + _SAMPLES_AT_ONCE, shard.samples)
        return LintTask(shard, range(shard.first_sample + start, shard.first_sample + stop))


def exclude_broken_samples(dataset: DatasetFolder, findings: Iterable[Finding]) -> int:
    """Add broken and incomplete samples to ``exclude`` in the dataset's split file, after copying it to ``….bak``.

    Args:
        dataset: The dataset; its ``split_file`` is changed, and stays YAML or JSON.
        findings: Findings of a lint of this dataset.

    Returns:
        Number of samples that were added.

    Raises:
        ConfigError: The split file is missing or invalid, or no sample would remain.
    """
    storage = dataset.storage
    with storage.lock(LOCK):
        name = dataset.split_file
        if name is None:
            raise ConfigError(
                "there is no split file to exclude samples in",
                file=storage.path(FOLDER),
                hint="run energon prepare --split-ratio 8,1,1 first",
            )
        file = f"{FOLDER}/{name}"
        before = storage.read(file)
        config = parse_split_config(before.decode("utf-8", "replace"), file=storage.path(file))
        known = set(config.exclude)
        broken = [f"{finding.shard}/{finding.key}" for finding in findings if finding.is_sample]
        added = [sample for sample in dict.fromkeys(broken) if sample not in known]
        if added and 1 < len(dataset.index) <= len(added):
            raise ConfigError(
                "every sample of the dataset is broken, so excluding them would leave none",
                file=storage.path(FOLDER),
                hint="check the findings: one fault in dataset.yaml, such as a wrong field_map, breaks all samples",
            )
        if added:
            with storage.create(f"{file}.bak") as backup:
                backup.write(before)
            config = SplitConfig(split_parts=config.split_parts, exclude=(*config.exclude, *added))
            with storage.create(file) as target:
                target.write(format_split_config(config, file=name).encode("utf-8"))
        return len(added)
