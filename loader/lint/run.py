"""Lint a dataset: check its shards, index, split and ``dataset.yaml``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..accounting.part_sets import PartSets
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..errors import ConfigError, EnergonError, FormatError, StorageError
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import nearest_hint
from ..format.index.layout import ShardEntry
from ..format.nv_meta import INDEX_SQLITE
from .metadata import DatasetFiles, unreadable_dataset
from .record_folder import RecordShardLint
from .report import LintPlan, LintProgress, LintReport, SampleCheck
from .rule import Finding
from .samples import media_note
from .task import DecodeTasks, LintChecker, LintTask, RunningLint


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
        dataset = folder_at(plan.ref)
        dataset.storage.list_once("")
        unknown = _unknown_parts(dataset, plan.split_parts or ())
        if unknown is None:
            lint.check(dataset)
    except FormatError as error:
        lint.add([unreadable_dataset(error, DatasetFiles.E005)])
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
        pictures=lint.pictures,
        decoded_media=lint.decoded_media,
        media_note=lint.media_note,
        part_sets=lint.part_sets,
    )


class _Lint(RunningLint):
    """A running lint of a dataset."""

    def __init__(self, plan: LintPlan, on_progress: Callable[[LintProgress], None] | None) -> None:
        super().__init__(workers=plan.workers, max_findings=plan.max_findings, on_progress=on_progress)
        self.shards = 0
        self.samples = 0
        self.media_note: str | None = None
        self.part_sets: PartSets | None = None
        self._plan = plan
        self._numbers: dict[str, int] = {}  # shard → number

    def place(self, finding: Finding) -> tuple[int, int, str]:
        """Return the sort key of a finding in the report."""
        return self._numbers.get(finding.shard or "", -1), finding.offset or 0, finding.code

    def check(self, dataset: Dataset) -> None:
        """Check the metadata, then the headers of all shards, then the samples of shards with correct headers."""
        plan = self._plan
        self._numbers = {shard: number for number, shard in enumerate(dataset.shard_counts)}
        with suppress(EnergonError):  # a damaged column is reported by the check of its shards
            self.part_sets = dataset.index.part_sets()
        if dataset.traits.are_records:
            self._check_records(dataset)
            return
        self.check_dataset(dataset, "tar shards")
        shards = _shards_to_check(dataset, plan.split_parts)
        check = self._sample_check(dataset)
        self.media_note = media_note(dataset.index.part_names, plan.level, check)
        has_sqlite = dataset.storage.exists(INDEX_SQLITE) and not any(
            each.rule is DatasetFiles.E006 for each in self.findings
        )
        numbers = self._numbers if has_sqlite else {}
        checker = LintChecker(plan, check, _readable_config(dataset), numbers)
        total = sum(shard.samples for shard in shards)
        self.shards, self.samples = len(shards), total
        self._run(checker, [LintTask(shard) for shard in shards], 0 if check else len(shards))
        if check is not None:
            stale = {finding.shard for finding in self.findings if finding.rule.hides_samples}
            fresh = [shard for shard in shards if shard.name not in stale]
            self.samples = sum(shard.samples for shard in fresh)
            self._run(checker, DecodeTasks(fresh), self.samples)

    def _check_records(self, dataset: Dataset) -> None:
        """Check the metadata, and each file of numbered samples."""
        plan = self._plan
        self.check_dataset(dataset, "folders of JSONL or Parquet files")
        shards = _shards_to_check(dataset, plan.split_parts)
        config = _readable_config(dataset)
        is_typed = config is not None and not config.crude  # a line that is JSON and a row are whole crude samples
        check = self._sample_check(dataset) if is_typed else None
        self.shards, self.samples = len(shards), sum(shard.samples for shard in shards)
        lint = RecordShardLint(
            ref=plan.ref,
            level=plan.level,
            max_findings=plan.max_findings,
            config=config,
            check=check,
        )
        for finished, _, found in self.results(lint, shards):
            self.add(found)
            self.report(finished, len(shards), "shards")

    def _run(self, checker: LintChecker, tasks: Sequence[LintTask], total: int) -> None:
        """Run tasks in workers, and report progress unless ``total`` is 0: those tasks are fast."""
        if tasks and self.is_full:
            self.complete = False
            return
        done = 0
        for _, number, checked in self.results(checker, tasks):
            self.take(checked)
            samples = tasks[number].samples
            done += 1 if samples is None else len(samples)
            if total:
                self.report(done, total, "shards" if samples is None else "samples")

    def _sample_check(self, dataset: Dataset) -> SampleCheck | None:
        """Return the check that decodes samples; what it cannot check is a finding."""
        plan = self._plan
        if plan.level != "decode" or plan.make_sample_check is None:  # a plan for level decode has one
            return None
        check = plan.make_sample_check(_readable_config(dataset), dataset.documents.folder)
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            self.add([Finding(DatasetFiles.W009, unchecked)])
        return check


def _readable_config(dataset: Dataset) -> DatasetConfig | None:
    try:
        return dataset.documents.config
    except ConfigError:
        return None  # reported by check_config


def _shards_to_check(dataset: Dataset, split_parts: tuple[str, ...] | None) -> list[ShardEntry]:
    """Return the shards to check: all that are not excluded, or only those of some split parts.

    Without a readable split, split parts have no shards.
    """
    try:
        split = dataset.documents.split
    except ConfigError:
        split = None  # reported by check_split
    excluded = split.excluded_shards() if split else frozenset()
    shards = [shard for shard in dataset.index.shards if shard.name not in excluded]
    if split_parts is None:
        return shards
    chosen = {shard for part in split_parts if split for shard in split.split_parts[part]}
    return [shard for shard in shards if shard.name in chosen]


def _unknown_parts(dataset: Dataset, names: Sequence[str]) -> ConfigError | None:
    """Return an error for unknown names of split parts.

    Returns:
        None if all are known, or if the split is missing or invalid, which is a finding.
    """
    try:
        split = dataset.documents.split
    except ConfigError:
        return None
    unknown = [name for name in names if split and name not in split.split_parts]
    if not unknown or split is None:
        return None
    known = ", ".join(split.split_parts) or "none"
    near = nearest_hint(unknown[0], split.split_parts) if len(unknown) == 1 else ""
    return ConfigError(f"there is no split part {', '.join(map(repr, unknown))}; there are: {known}{near}")
