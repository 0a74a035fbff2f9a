"""Lint a dataset: check its documents, then the headers of its shards, then their samples, in worker processes."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any

from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.job_journal import job_journal, no_journal, request_of_data
from ..dataset.opening import folder_at
from ..dataset.records import SingleFile
from ..dataset.tar import tar_index
from ..dataset.unprepared.tar_index import (
    ShardSummary,
    TarFolder,
    TarIndex,
    UnpreparedDataset,
    find_tars,
    join_summaries,
    summarize_shard,
)
from ..errors import ConfigError, EnergonError, FormatError, MissingPackageError, StorageError, plural
from ..format.data_kind import Kind
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.messages import nearest_hint
from ..format.index.layout import Layout, ShardEntry
from ..format.index.shard_index import index_shard
from ..format.nv_meta import FOLDER, INDEX_SQLITE, SPLIT_JSON
from ..format.records.folder_index import open_record_file
from ..prepare.shards import compressed_warning
from ..storage import FileInfo, Storage, list_once, open_parent
from .contents import SampleLint, media_note
from .metadata import DatasetFiles, Split, check_sqlite, readable_config, unreadable_dataset
from .record_file import ColumnFiles, JsonlFiles, check_record_file
from .report import LintPlan, LintReport, PictureCounts, SampleCheck, take_pictures
from .rule import Finding, ScannedShard, checks_of
from .running import OnProgress, RequestError, RunningLint
from .samples import SampleFaults, required_parts
from .shard import Shards, compare_file, read_all, unreadable
from .stored import CheckedSamples, CheckedShard, pack_findings, unpack_findings

_SAMPLES_AT_ONCE = 256  # of a task: enough to hide its cost, few enough for a smooth progress bar

DecodedSamples = tuple[list[Finding], PictureCounts, int]
"""Findings about some samples, the traits of their pictures, and the number of their media."""

RULES_OF_DATASETS = (DatasetFiles, Split, SampleFaults, Shards, JsonlFiles, ColumnFiles)
"""The groups whose checks run on datasets and their shards."""


def lint_dataset(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint a dataset.

    Every fault of the dataset is a finding; only faults of the plan raise.

    Args:
        plan: The plan of the lint.
        on_progress: Called after each task.

    Raises:
        ConfigError: The plan names split parts that the dataset's split does not have; or shares are missing.
        MissingPackageError: The format of the data needs a package that is not installed.
        WorkerError: A worker process was killed.
        ShareDone: The engine runs one share, which is done.
    """
    lint = _DatasetLint(plan, on_progress)
    try:
        lint.check(_open_listed(plan.ref))
    except RequestError as error:
        raise error.error from None
    except MissingPackageError:
        raise
    except FormatError as error:
        lint.add(unreadable_dataset(error, DatasetFiles.E005))
    except (ConfigError, StorageError) as error:
        lint.add(unreadable_dataset(error))
    return lint.report()


def lint_tars(plan: LintPlan, *, on_progress: OnProgress | None = None) -> LintReport:
    """Lint a tar file, or the tar files of a folder that is not prepared, which is a finding.

    Args:
        plan: The plan of the lint.
        on_progress: Called after each task.

    Raises:
        WorkerError: A worker process was killed.
        StorageError: The engine runs a share: without an index, its results have no folder.
    """
    if plan.runs_on.is_partial:
        raise no_journal(plan.ref.path)
    lint = _DatasetLint(plan, on_progress)
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

    Raises:
        StorageError: The engine runs a share: a single file has no folder for its results.
    """
    if plan.runs_on.is_partial:
        raise no_journal(plan.ref.path)
    lint = RunningLint(max_findings=plan.max_findings, on_progress=on_progress)
    check_record_file(lint, *open_parent(plan.ref.path), level=plan.level)
    if lint.complete and not _has_errors(lint.findings):
        dataset = SingleFile(plan.ref)
        _check_rules(lint, dataset)
        if plan.level == "decode" and checks_of([SampleFaults], dataset.kind, "of_sample"):
            [file] = dataset.index.shards
            lint.add(*SampleLint(None, with_lines=False).findings(dataset, file, range(len(dataset))))
    return lint.report()


class _DatasetLint(RunningLint):
    def __init__(self, plan: LintPlan, on_progress: OnProgress | None) -> None:
        super().__init__(engine=plan.runs_on, max_findings=plan.max_findings, on_progress=on_progress)
        self._plan = plan
        self._numbers: dict[str, int] = {}  # shard → number

    def report(self) -> LintReport:
        """Return the report, with its findings in the order of shards and offsets."""
        self.findings.sort(key=lambda each: (self._numbers.get(each.shard or "", -1), each.offset or 0, each.code))
        return super().report()

    def check(self, dataset: Dataset) -> None:
        """Check the metadata, then the headers of all shards, then the samples of shards with correct headers."""
        self._numbers = {shard: index for index, shard in enumerate(dataset.shard_counts)}
        with suppress(EnergonError):  # the check of its shards reports a damaged column
            self.part_sets = dataset.index.part_sets
        shards = _shards_to_check(dataset, self._plan.split_parts)
        self.shards, self.samples = len(shards), sum(shard.samples for shard in shards)
        config = readable_config(dataset)
        is_share = self._engine.share is not None
        if not is_share:  # the merge checks the documents
            _check_rules(self, dataset)
        # Each task checks the headers of a shard, or a file of records whole, in workers with other working folders.
        ref_of_workers = self._plan.ref if self._engine.sees_this_disk else self._plan.ref.resolved()
        decode = None
        if dataset.format == "webdataset":
            check = self._sample_check(dataset, config)
            self.media_note = media_note(dataset.index.part_names, self._plan.level, check)
            open_dataset = partial(_open_listed, ref_of_workers)
            # The headers are compared with the indexes that can be read.
            faults = check_sqlite(dataset) if is_share else self.findings
            is_damaged = any(finding.rule is DatasetFiles.E006 for finding in faults)
            numbers = self._numbers if dataset.storage.exists(INDEX_SQLITE) and not is_damaged else {}
            reads = self._plan.level == "bytes"
            check_one = partial(check_shard, read_bytes=reads, config=config, sqlite_numbers=numbers)
            if check is not None:
                required = frozenset(chain.from_iterable(required_parts(config).values()))
                decode = partial(decode_samples, lint=SampleLint(check, required))
        else:
            check_one, open_dataset = self._check_of_files(dataset, config), partial(folder_at, ref_of_workers)
        # Run these tasks; a share stores their results, and the merge reads them.
        stored = None
        if self._engine.is_partial:
            in_one_task = OnDataset(open_dataset, partial(check_whole_shard, check_headers=check_one, decode=decode))
            stored = self._stored(dataset, shards, in_one_task, decodes=decode is not None)
        known = None if stored is None else [unpack_findings(each.findings, RULES_OF_DATASETS) for each in stored]
        for done, _, findings in self.results(OnDataset(open_dataset, check_one), shards, known):
            self.add(*findings)
            if decode is None:  # otherwise they take a small part of the time
                self.progress(done, len(shards), "shards")
        # Decode the samples of shards whose offsets are right.
        if decode is not None:
            stale = {finding.shard for finding in self.findings if finding.rule.hides_samples}
            decoded: Iterator[DecodedSamples] | None = None
            if stored is not None:
                of_shards = zip(shards, stored, strict=True)
                kept = [samples for shard, each in of_shards if shard.name not in stale for samples in each.samples]
                decoded = (each.unpack(RULES_OF_DATASETS) for each in kept)
            right = [shard for shard in shards if shard.name not in stale]
            self._decode(OnDataset(open_dataset, decode), right, decoded)

    def _stored(
        self, dataset: Dataset, shards: Sequence[ShardEntry], check: Callable[[Any], CheckedShard], *, decodes: bool
    ) -> list[CheckedShard]:
        """Run a share of the shards, or return what all shares have found in them."""
        # The options name the journal.
        plan, storage = self._plan, dataset.storage
        options = {
            "level": plan.level,
            "split file": plan.ref.split_file,
            "dataset file": plan.ref.dataset_file,
            "split parts": str(plan.split_parts),
            "limit of JSON": str(plan.max_json_bytes),
            "trust in code": str(plan.ref.trust_code),
        }
        # Other documents are another lint, and so are shards that were changed, whose faults are known by now.
        list_once(storage, "")
        current = [storage.stat(shard.name) for shard in shards if storage.exists(shard.name)]
        documents = (f"{FOLDER}/{name}" for name in (plan.ref.split_file, SPLIT_JSON, plan.ref.dataset_file))
        contents = b"\0".join(storage.read(file) for file in documents if storage.exists(file))
        # Run the checks, or read their results.
        return self.stored_results(
            check,
            shards,
            sizes=[shard.size_bytes for shard in shards],
            amounts=[shard.samples if decodes else 1 for shard in shards],
            unit="samples" if decodes else "shards",
            journal=lambda: job_journal(plan.ref, f"lint-{plan.level}", options, CheckedShard),
            command=plan.command,
            request={
                **options,
                **request_of_data(dataset, current),
                "split or dataset config": hashlib.sha256(contents).hexdigest()[:16],
            },
        )

    def _check_of_files(self, dataset: Dataset, config: DatasetConfig | None) -> partial[list[Finding]]:
        """Return the check of a whole file, whose lines have to be read from the start."""
        is_typed = config is not None and not config.crude  # a line that is JSON and a row are whole crude samples
        most = self._plan.max_findings
        return partial(
            check_record_shard,
            config=config,
            check=self._sample_check(dataset, config) if is_typed else None,
            level=self._plan.level,
            # One more than fits shows that a finding was dropped; a share does not know how many the merge wants.
            max_findings=None if most is None or self._engine.is_partial else most + 1,
        )

    def check_tars(self, tars: TarFolder) -> None:
        """Check the headers of all shards, then the samples of whole shards."""
        self._numbers = {shard.name: shard_index for shard_index, shard in enumerate(tars.shards)}
        self.shards = len(tars.shards)
        if not tars.is_file:
            self.add(unreadable_dataset(tars.not_prepared))
        if tars.compressed:
            self.add(Finding(Shards.W106, compressed_warning(tars.compressed)))
        # Check the headers, and summarize the shards that are whole.
        check = self._plan.sample_check()
        summaries: dict[int, ShardSummary] = {}
        headers = partial(check_unprepared_shard, tars.storage, read_bytes=self._plan.level == "bytes")
        for done, shard_index, (summary, findings) in self.results(headers, tars.shards):
            self.add(*findings)
            if summary is not None:
                summaries[shard_index] = summary
            if check is None:
                self.progress(done, len(tars.shards), "shards")
        if not self.complete:
            return
        # Check these shards as a dataset, and decode their samples.
        index = join_summaries(tars, [summaries[shard_index] for shard_index in sorted(summaries)])
        self.samples, self.part_sets = len(index), index.part_sets
        self.media_note = media_note(index.part_names, self._plan.level, check)
        _check_rules(self, UnpreparedDataset(tars, index, complete=True))
        if check is not None:
            decode = partial(decode_samples, lint=SampleLint(check))
            self._decode(OnDataset(partial(_open_tars, tars, index.layout), decode), index.shards)

    def _decode(
        self, decode: OnDataset, shards: Sequence[ShardEntry], stored: Iterator[DecodedSamples] | None = None
    ) -> None:
        tasks = DecodeTasks(shards)
        self.samples = sum(shard.samples for shard in shards)
        done = 0
        for _, task_index, (findings, pictures, decoded_media) in self.results(decode, tasks, stored):
            self.add(*findings)
            self.pictures += pictures
            self.decoded_media += decoded_media
            done += len(tasks[task_index].samples)
            self.progress(done, self.samples, "samples")

    def _sample_check(self, dataset: Dataset, config: DatasetConfig | None) -> SampleCheck | None:
        """Return the check that decodes samples; what it cannot check is a finding."""
        check = self._plan.sample_check(config, dataset.storage.path(FOLDER))
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            self.add(Finding(DatasetFiles.W009, unchecked))
        return check


def _check_rules(lint: RunningLint, dataset: Dataset) -> None:
    for check in checks_of(RULES_OF_DATASETS, dataset.kind, "of_dataset"):
        lint.add(*check(dataset))


def _has_errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _open_listed(ref: DatasetRef) -> Dataset:
    # List the folder once, instead of asking for each file.
    dataset = folder_at(ref)
    list_once(dataset.storage, "")
    return dataset


def _open_tars(tars: TarFolder, layout: Layout) -> Dataset:
    return UnpreparedDataset(tars, TarIndex(tars.storage, layout, path=tars.path), complete=True)


def _shards_to_check(dataset: Dataset, split_parts: tuple[str, ...] | None) -> list[ShardEntry]:
    """Return the shards to check: all that are not excluded, or the shards of some split parts.

    Raises:
        RequestError: There are no such split parts.
    """
    split, excluded = None, frozenset[str]()
    with suppress(ConfigError):  # an invalid split is a finding of its own
        split, excluded = dataset.documents.split, dataset.documents.excluded_shards
    if split and split_parts:
        _check_parts(split_parts, split.split_parts)
    # Excluded shards may be damaged: that is often why they are excluded.
    shards = [shard for shard in dataset.index.shards if shard.name not in excluded]
    if split_parts is None:
        return shards
    # Without a readable split, split parts have no shards.
    chosen = {shard for part in split_parts if split for shard in split.split_parts[part]}
    return [shard for shard in shards if shard.name in chosen]


def _check_parts(names: Sequence[str], known: Collection[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        near = nearest_hint(unknown[0], known) if len(unknown) == 1 else ""
        names_of_all = ", ".join(known) or "none"
        message = f"there is no split part {', '.join(map(repr, unknown))}; there are: {names_of_all}{near}"
        raise RequestError(ConfigError(message))


# Tasks for worker processes: check the headers of a shard, decode some of its samples, or check a file.


@dataclass(frozen=True, slots=True)
class LintTask:
    """A range of samples of a shard to decode."""

    shard: ShardEntry
    samples: range

    def __str__(self) -> str:
        return f"{self.shard.name}, samples {self.samples}"


class DecodeTasks(Sequence[LintTask]):
    """The tasks that decode the samples of shards; built on access, because a large dataset has millions."""

    def __init__(self, shards: Sequence[ShardEntry]) -> None:
        self._shards = shards
        self._ends = list(accumulate(-(-shard.samples // _SAMPLES_AT_ONCE) for shard in shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: Any, /) -> Any:  # an integer: workers take one task after another
        if not 0 <= index < len(self):
            raise IndexError(f"expected a task in [0, {len(self)}), found {index}")
        # Find the shard of the task, then its range of samples.
        shard_number = bisect_right(self._ends, index)
        shard = self._shards[shard_number]
        start = (index - (self._ends[shard_number - 1] if shard_number else 0)) * _SAMPLES_AT_ONCE
        stop = min(start + _SAMPLES_AT_ONCE, shard.samples)
        return LintTask(shard, range(shard.first_sample + start, shard.first_sample + stop))


@dataclass(frozen=True)
class OnDataset:
    """Call ``check(dataset, task)`` with a dataset that each worker process opens itself.

    Args:
        open_dataset: Picklable function that opens the dataset.
        check: Picklable function.
    """

    open_dataset: Callable[[], Dataset]
    check: Callable[[Dataset, Any], Any]

    def __call__(self, task: Any) -> Any:
        return self.check(self._dataset, task)

    def __reduce__(self) -> tuple[Any, ...]:
        return OnDataset, (self.open_dataset, self.check)

    @cached_property
    def _dataset(self) -> Dataset:
        return self.open_dataset()


def _excluded_keys(dataset: Dataset, shard: str) -> frozenset[str]:
    try:
        return dataset.documents.excluded_keys.get(shard, frozenset())
    except ConfigError:
        return frozenset()  # reported with the split


def check_shard(
    dataset: Dataset,
    shard: ShardEntry,
    *,
    read_bytes: bool,
    config: DatasetConfig | None,
    sqlite_numbers: Mapping[str, int],
) -> list[Finding]:
    """Return the findings about the headers of a shard, without those about excluded samples.

    Args:
        dataset: The dataset.
        shard: The shard.
        read_bytes: Read the contents too, to find bytes that the disk cannot read.
        config: The parsed ``dataset.yaml``; None if it is missing or invalid.
        sqlite_numbers: Shard → its number in ``index.sqlite``; empty if that file is missing or unreadable.
    """
    info, findings = compare_file(dataset.storage, shard)
    if info is not None:
        findings += _check_headers(
            dataset.storage,
            info,
            read_bytes=read_bytes,
            config=config,
            index=tar_index(dataset),
            entry=shard,
            sqlite_number=sqlite_numbers.get(shard.name),
        )[1]
    # Faults of samples that are excluded already need no attention.
    excluded = _excluded_keys(dataset, shard.name)
    return [each for each in findings if not (each.is_sample and each.key in excluded)]


def check_whole_shard(
    dataset: Dataset,
    shard: ShardEntry,
    *,
    check_headers: Callable[[Dataset, ShardEntry], list[Finding]],
    decode: Callable[[Dataset, LintTask], DecodedSamples] | None,
) -> CheckedShard:
    """Return the findings about a shard and about its samples, as they are stored.

    Args:
        check_headers: Checks the shard.
        decode: Checks some of its samples; None leaves them out.
    """
    findings, samples = check_headers(dataset, shard), []
    if decode is not None and not any(finding.rule.hides_samples for finding in findings):
        samples = [CheckedSamples.pack(*decode(dataset, task)) for task in DecodeTasks([shard])]
    return CheckedShard(pack_findings(findings), samples)


def check_unprepared_shard(
    storage: Storage, shard: FileInfo, *, read_bytes: bool
) -> tuple[ShardSummary | None, list[Finding]]:
    """Return the summary of a shard that is whole, and the findings about its headers."""
    scanned, findings = _check_headers(storage, shard, read_bytes=read_bytes)
    if scanned is None or any(finding.rule.hides_samples for finding in findings):
        return None, findings
    return summarize_shard(shard, scanned.headers), findings


def _check_headers(
    storage: Storage, info: FileInfo, *, read_bytes: bool, entry: ShardEntry | None = None, **known: Any
) -> tuple[ScannedShard | None, list[Finding]]:
    scanned, findings, shard = None, list[Finding](), info.name
    # Damage ends the checks of the shard, and is a finding itself.
    try:
        headers = index_shard(storage, shard, info=info)
        scanned = ScannedShard(storage=storage, info=info, headers=headers, entry=entry, **known)
        kind: Kind = "unprepared tar files" if entry is None else "tar shards"
        for check in checks_of(RULES_OF_DATASETS, kind, "of_shard"):
            findings.extend(check(scanned))  # one by one: those before an error are kept
        if read_bytes:
            read_all(storage, shard)
    except FormatError as error:
        findings.append(Finding(Shards.E104, error.message, shard=shard, offset=error.offset))
    except EnergonError as error:
        findings.append(unreadable(error, shard))
    return scanned, findings


def decode_samples(dataset: Dataset, task: LintTask, *, lint: SampleLint) -> DecodedSamples:
    """Return the findings about samples that are not excluded, the traits of pictures, and the number of media."""
    index, excluded, decoded_media = dataset.index, _excluded_keys(dataset, task.shard.name), 0
    try:
        kept = [sample for sample in task.samples if not excluded or index.key(sample) not in excluded]
        findings = list(lint.findings(dataset, task.shard, kept))
        decoded_media = lint.count_media(dataset, kept)
    except EnergonError as error:  # the shard changed since its headers were checked
        findings = [unreadable(error, task.shard.name)]
    return findings, take_pictures(lint.check), decoded_media


def check_record_shard(
    dataset: Dataset,
    shard: ShardEntry,
    *,
    config: DatasetConfig | None,
    check: SampleCheck | None,
    level: str,
    max_findings: int | None,
) -> list[Finding]:
    """Return the findings about a JSONL or Parquet file of a folder."""
    if not dataset.storage.exists(shard.name):
        return [Finding(Shards.E101, "the file is missing", shard=shard.name)]
    # Check the file, and compare it with the index of the folder.
    findings = list(_changes(dataset, shard))
    lint = RunningLint(max_findings=max_findings)
    check_record_file(lint, dataset.storage, shard.name, level=level)
    findings += (replace(finding, shard=shard.name) for finding in lint.findings)
    # Only the samples of a file without errors can be told apart.
    if not _has_errors(findings):
        findings += _missing_columns(dataset, shard, config)
    has_check = check is not None or checks_of([SampleFaults], dataset.kind, "of_sample")
    if level == "decode" and has_check and not _has_errors(findings):
        excluded = _excluded_keys(dataset, shard.name)
        samples = range(shard.first_sample, shard.first_sample + shard.samples)
        kept = [sample for sample in samples if dataset.index.key(sample) not in excluded]
        findings += SampleLint(check, with_lines=False).findings(dataset, shard, kept)
    return findings


def _changes(dataset: Dataset, shard: ShardEntry) -> Iterator[Finding]:
    try:
        now = dataset.storage.stat(shard.name)
        if now.size_bytes != shard.size_bytes:
            message = f"it had {shard.size_bytes:,} bytes, now {now.size_bytes:,}; run energon prepare again"
            yield Finding(Shards.E102, message, shard=shard.name)
            return
        if shard.was_touched(now):
            yield Finding(Shards.W103, "the file was touched or copied", shard=shard.name)
        samples = len(open_record_file(dataset.storage, shard.name))
    except EnergonError:
        return  # reported by the lint of the file
    if samples != shard.samples:
        message = f"the dataset has {plural(shard.samples, 'sample')} of this file, the file {samples:,}"
        yield Finding(Shards.E105, f"{message}; run energon prepare again", shard=shard.name)


def _missing_columns(dataset: Dataset, shard: ShardEntry, config: DatasetConfig | None) -> Iterator[Finding]:
    # A field needs one of its alternatives in the file.
    columns = open_record_file(dataset.storage, shard.name).part_names
    for name, alternatives in required_parts(config).items():
        if not set(alternatives) & set(columns):
            needed, present = " or ".join(alternatives), ", ".join(columns)
            message = f"field {name!r} needs part {needed}; the samples of this file have {present}"
            yield Finding(SampleFaults.E301, message, shard=shard.name, part=alternatives[0])
