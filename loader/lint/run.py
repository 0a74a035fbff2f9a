"""Lint a dataset: check its shards, index, split and ``dataset.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.records import SingleFile
from ..dataset.unprepared.scan import ShardSummary, UnpreparedDataset, join_summaries
from ..dataset.unprepared.tar_index import TarFolder, TarIndex, find_tars
from ..errors import ConfigError, EnergonError, FormatError, StorageError
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import nearest_hint
from ..format.documents.providers import data_path
from ..format.index.layout import Layout, ShardEntry
from ..format.nv_meta import INDEX_SQLITE
from ..format.prepare.shards import compressed_warning
from ..storage import open_parent
from .contents import SampleLint, media_note
from .metadata import DatasetFiles, readable_config, unreadable_dataset
from .record_file import check_record_file
from .report import LintPlan, LintReport, SampleCheck
from .rule import Finding, kind_of
from .running import OnProgress, RunningLint
from .samples import Samples, required_parts
from .shard import Shards
from .task import RULES_OF_DATASETS, DecodeCheck, DecodeTasks, HeaderCheck, RecordShardLint, UnpreparedHeaderCheck


def lint_dataset(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint a dataset.

    Every fault of the dataset is a finding; only faults of the plan raise.

    Args:
        plan: The plan of the lint.
        on_progress: Called after each task.

    Raises:
        ConfigError: The plan names split parts that the dataset's split does not have.
        WorkerError: A worker process was killed.
    """
    lint = _Lint(plan, on_progress)
    unknown: ConfigError | None = None
    try:
        dataset = folder_at(plan.ref)
        dataset.storage.list_once("")
        unknown = _unknown_parts(dataset, plan.split_parts or ())
        if unknown is None:
            lint.check(dataset)
    except FormatError as error:
        lint.add(unreadable_dataset(error, DatasetFiles.E005))
    except (ConfigError, StorageError) as error:
        lint.add(unreadable_dataset(error))
    if unknown is not None:
        raise unknown
    return lint.report()


def lint_tars(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint tar shards without an index. That a folder is not prepared is a finding; a single file need not be.

    Args:
        plan: The plan of the lint; it names a folder that is not prepared, or a tar file.
        on_progress: Called after each task.

    Raises:
        WorkerError: A worker process was killed.
    """
    lint = _Lint(plan, on_progress)
    try:
        lint.check_tars(find_tars(plan.ref.path))
    except EnergonError as error:
        lint.add(unreadable_dataset(error))
    return lint.report()


def lint_file(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint a JSONL, token or Parquet file, with the rules of datasets if it has no errors.

    Args:
        plan: The plan of the lint; it names a file.
        on_progress: Called with numbers of bytes.
    """
    lint = RunningLint(max_findings=plan.max_findings, on_progress=on_progress)
    check_record_file(lint, *open_parent(data_path(plan.ref.path)), level=plan.level)
    if lint.complete and not any(finding.severity == "error" for finding in lint.findings):
        dataset = SingleFile(plan.ref)
        _check_rules(lint, dataset)
        if plan.level == "decode" and Samples.checks(kind_of(dataset), "of_sample"):
            lint.add(*SampleLint(None, with_lines=False).findings(dataset, range(len(dataset))))
    return lint.report()


class _Lint(RunningLint):
    """A running lint of a dataset, or of tar shards that are not prepared."""

    def __init__(self, plan: LintPlan, on_progress: OnProgress | None) -> None:
        super().__init__(workers=plan.workers, max_findings=plan.max_findings, on_progress=on_progress)
        self._plan = plan
        self._numbers: dict[str, int] = {}  # shard → number

    def report(self) -> LintReport:
        """Return the report, with its findings in the order of shards and offsets."""
        self.findings.sort(key=lambda each: (self._numbers.get(each.shard or "", -1), each.offset or 0, each.code))
        return super().report()

    def check(self, dataset: Dataset) -> None:
        """Check the metadata, then the headers of all shards, then the samples of shards with correct headers."""
        self._numbers = {shard: number for number, shard in enumerate(dataset.shard_counts)}
        with suppress(EnergonError):  # a damaged column is reported by the check of its shards
            self.part_sets = dataset.index.part_sets()
        shards = _shards_to_check(dataset, self._plan.split_parts)
        self.shards, self.samples = len(shards), sum(shard.samples for shard in shards)
        config = readable_config(dataset)
        if dataset.traits.are_records:
            _check_rules(self, dataset)
            is_typed = config is not None and not config.crude  # a line that is JSON and a row are whole crude samples
            check = self._sample_check(dataset) if is_typed else None
            files = RecordShardLint(plan=self._plan, config=config, check=check)
            for done, _, findings in self.results(files, shards):
                self.add(*findings)
                self.progress(done, len(shards), "shards")
            return
        _check_rules(self, dataset)
        check = self._sample_check(dataset)
        self.media_note = media_note(dataset.index.part_names, self._plan.level, check)
        is_damaged = any(finding.rule is DatasetFiles.E006 for finding in self.findings)
        numbers = self._numbers if dataset.storage.exists(INDEX_SQLITE) and not is_damaged else {}
        headers = HeaderCheck(self._plan, config, numbers)
        for done, _, checked in self.results(headers, shards):
            self.take(checked)
            if check is None:  # otherwise they take a small part of the time
                self.progress(done, len(shards), "shards")
        if check is not None:
            stale = {finding.shard for finding in self.findings if finding.rule.hides_samples}
            self._decode(headers.open, [shard for shard in shards if shard.name not in stale], check, config)

    def check_tars(self, tars: TarFolder) -> None:
        """Check the headers of all shards, then the samples of whole shards."""
        self._numbers = {shard.name: number for number, shard in enumerate(tars.shards)}
        self.shards = len(tars.shards)
        if not tars.is_file:
            self.add(unreadable_dataset(tars.not_prepared))
        if tars.compressed:
            self.add(Finding(Shards.W106, compressed_warning(tars.compressed)))
        check = self._plan.sample_check()
        summaries: dict[int, ShardSummary] = {}
        headers = UnpreparedHeaderCheck(tars.storage, self._plan.level == "bytes")
        for done, number, (summary, findings) in self.results(headers, tars.shards):
            self.add(*findings)
            if summary is not None:
                summaries[number] = summary
            if check is None:
                self.progress(done, len(tars.shards), "shards")
        if not self.complete:
            return
        index = join_summaries(tars, [summaries[number] for number in sorted(summaries)])
        self.samples, self.part_sets = len(index), index.part_sets()
        self.media_note = media_note(index.part_names, self._plan.level, check)
        _check_rules(self, UnpreparedDataset(tars, index, complete=True))
        if check is not None:
            self._decode(partial(_open_tars, tars, index.layout), index.shards, check, None)

    def _decode(
        self,
        open_dataset: Callable[[], Dataset],
        shards: Sequence[ShardEntry],
        check: SampleCheck,
        config: DatasetConfig | None,
    ) -> None:
        """Decode the samples of shards."""
        required = frozenset(part for parts in required_parts(config).values() for part in parts)
        tasks = DecodeTasks(shards)
        self.samples = sum(shard.samples for shard in shards)
        done = 0
        for _, number, checked in self.results(DecodeCheck(open_dataset, SampleLint(check, required)), tasks):
            self.take(checked)
            done += len(tasks[number].samples)
            self.progress(done, self.samples, "samples")

    def _sample_check(self, dataset: Dataset) -> SampleCheck | None:
        """Return the check that decodes samples; what it cannot check is a finding."""
        check = self._plan.sample_check(readable_config(dataset), dataset.documents.folder)
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            self.add(Finding(DatasetFiles.W009, unchecked))
        return check


def _check_rules(lint: RunningLint, dataset: Dataset) -> None:
    """Run the checks of a dataset as a whole."""
    for rules in RULES_OF_DATASETS:
        lint.add(*rules.check_dataset(dataset))


def _open_tars(tars: TarFolder, layout: Layout) -> Dataset:
    return UnpreparedDataset(tars, TarIndex(tars.storage, layout, path=tars.path), complete=True)


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
