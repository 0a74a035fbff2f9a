"""Tasks of a lint for worker processes: check the headers of a shard, decode some of its samples, or check a file."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, overload

from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.tar import tar_index
from ..dataset.unprepared.scan import ShardSummary, summarize_shard
from ..errors import ConfigError, EnergonError, FormatError
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import index_shard
from ..format.records.opening import open_record_file
from ..storage import FileInfo, Storage
from .contents import SampleLint
from .jsonl import JsonlFiles
from .metadata import DatasetFiles
from .record_file import ColumnFiles, lint_record_file
from .report import CheckedTask, LintPlan, SampleCheck, take_pictures
from .rule import Finding, ScannedShard, kind_of
from .samples import Samples, required_parts
from .shard import Shards, compare_file, read_all
from .split import Split

_SAMPLES_AT_ONCE = 256

RULES_OF_DATASETS = (DatasetFiles, Split, Samples, Shards, JsonlFiles, ColumnFiles)
"""The groups whose checks run on datasets and their shards."""


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


class OfDataset:
    """A check that opens a dataset in its worker process; picklable.

    Args:
        open_dataset: Function that opens it; picklable.
    """

    def __init__(self, open_dataset: Callable[[], Dataset]) -> None:
        self.open = open_dataset

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker opens the dataset itself.
        return {name: value for name, value in self.__dict__.items() if name != "dataset"}

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self.open()

    def excluded(self, shard: str) -> frozenset[str]:
        """Return the keys of a shard that the split excludes."""
        try:
            return self.dataset.documents.excluded_keys.get(shard, frozenset())
        except ConfigError:
            return frozenset()  # reported with the split


class HeaderCheck(OfDataset):
    """Check the headers of shards of a dataset.

    Args:
        plan: The plan of the lint.
        config: The parsed ``dataset.yaml``; None if it is missing or invalid.
        sqlite_numbers: Shard → its number in ``index.sqlite``; empty if that file is missing or unreadable.
    """

    def __init__(self, plan: LintPlan, config: DatasetConfig | None, sqlite_numbers: Mapping[str, int]) -> None:
        super().__init__(partial(_open_folder, plan.ref))
        self._read_bytes = plan.level == "bytes"
        self._config = config
        self._sqlite_numbers = sqlite_numbers

    def __call__(self, shard: ShardEntry) -> CheckedTask:
        """Return the findings about a shard, without those about excluded samples."""
        storage = self.dataset.storage
        info, findings = compare_file(storage, shard)

        def scan() -> ScannedShard:
            return ScannedShard(
                storage=storage,
                info=info or shard.info,
                headers=index_shard(storage, shard.name),
                config=self._config,
                index=tar_index(self.dataset),
                entry=shard,
                sqlite_number=self._sqlite_numbers.get(shard.name),
            )

        if info is not None:
            findings += check_headers(shard.name, scan, read_bytes=self._read_bytes)
        excluded = self.excluded(shard.name)
        return CheckedTask([each for each in findings if not (each.is_sample and each.key in excluded)], Counter())


@dataclass(frozen=True, slots=True)
class UnpreparedHeaderCheck:
    """Check the headers of shards that are not prepared, and summarize those that are whole."""

    storage: Storage
    read_bytes: bool

    def __call__(self, shard: FileInfo) -> tuple[ShardSummary | None, list[Finding]]:
        scans: list[ScannedShard] = []

        def scan() -> ScannedShard:
            headers = index_shard(self.storage, shard.name, info=shard)
            scans.append(ScannedShard(storage=self.storage, info=shard, headers=headers))
            return scans[0]

        findings = list(check_headers(shard.name, scan, read_bytes=self.read_bytes))
        is_whole = scans and not any(finding.rule.hides_samples for finding in findings)
        return summarize_shard(shard, scans[0].headers) if is_whole else None, findings


class DecodeCheck(OfDataset):
    """Decode samples of a dataset of tar shards.

    Args:
        open_dataset: Function that opens it; picklable.
        samples: The check of the samples.
    """

    def __init__(self, open_dataset: Callable[[], Dataset], samples: SampleLint) -> None:
        super().__init__(open_dataset)
        self._samples = samples

    def __call__(self, task: LintTask) -> CheckedTask:
        """Return the findings about samples that are not excluded, and what was counted."""
        index, excluded, decoded_media = self.dataset.index, self.excluded(task.shard.name), 0
        try:
            kept = [sample for sample in task.samples if not excluded or index.key(sample) not in excluded]
            findings = list(self._samples.findings(self.dataset, kept))
            decoded_media = self._samples.count_media(self.dataset, kept)
        except EnergonError as error:  # the shard changed since its headers were checked
            findings = [Finding(Shards.E109, error.message, shard=task.shard.name)]
        return CheckedTask(findings, take_pictures(self._samples.check), decoded_media)


class RecordShardLint(OfDataset):
    """Lint the files of a folder, one by one.

    Args:
        plan: The plan of the lint.
        config: Content of ``dataset.yaml``; None if it is missing or invalid.
        check: Check of samples for level ``decode``; None skips it.
    """

    def __init__(self, *, plan: LintPlan, config: DatasetConfig | None, check: SampleCheck | None) -> None:
        super().__init__(partial(folder_at, plan.ref))
        self._plan, self._config, self._check = plan, config, check

    def __call__(self, shard: ShardEntry) -> list[Finding]:
        """Return the findings of a file."""
        storage = self.dataset.storage
        if not storage.exists(shard.name):
            return [Finding(Shards.E101, "the file is missing", shard=shard.name)]
        changed = list(self._changes(shard))
        report = lint_record_file(storage, shard.name, level=self._plan.level, max_findings=self._plan.max_findings)
        findings = [*changed, *(replace(finding, shard=shard.name) for finding in report.findings)]
        if not any(finding.severity == "error" for finding in findings):
            findings += self._missing_columns(shard)
        has_check = self._check is not None or Samples.checks(kind_of(self.dataset), "of_sample")
        if self._plan.level == "decode" and has_check and not any(each.severity == "error" for each in findings):
            findings += self._faulty_samples(shard)
        return findings

    def _changes(self, shard: ShardEntry) -> Iterator[Finding]:
        try:
            now = self.dataset.storage.stat(shard.name)
            if now.size_bytes != shard.size_bytes:
                message = f"it had {shard.size_bytes:,} bytes, now {now.size_bytes:,}; run energon prepare again"
                yield Finding(Shards.E102, message, shard=shard.name)
                return
            if shard.was_touched(now):
                yield Finding(Shards.W103, "the file was touched or copied", shard=shard.name)
            samples = len(open_record_file(self.dataset.storage, shard.name))
        except EnergonError:
            return  # reported by the lint of the file
        if samples != shard.samples:
            message = f"the dataset has {shard.samples:,} samples of this file, the file {samples:,}"
            yield Finding(Shards.E105, f"{message}; run energon prepare again", shard=shard.name)

    def _missing_columns(self, shard: ShardEntry) -> Iterator[Finding]:
        """Yield a finding for each required field whose column no sample of the file has."""
        columns = open_record_file(self.dataset.storage, shard.name).part_names
        for field, alternatives in required_parts(self._config).items():
            if not set(alternatives) & set(columns):
                needed, found = " or ".join(alternatives), ", ".join(columns)
                message = f"field {field!r} needs part {needed}; the samples of this file have {found}"
                yield Finding(Samples.E301, message, shard=shard.name, part=alternatives[0])

    def _faulty_samples(self, shard: ShardEntry) -> Iterator[Finding]:
        excluded = self.excluded(shard.name)
        samples = range(shard.first_sample, shard.first_sample + shard.samples)
        kept = [sample for sample in samples if self.dataset.index.key(sample) not in excluded]
        return SampleLint(self._check, with_lines=False).findings(self.dataset, kept)


def _open_folder(ref: DatasetRef) -> Dataset:
    dataset = folder_at(ref)
    dataset.storage.list_once("")
    return dataset


def check_headers(name: str, scan: Callable[[], ScannedShard], *, read_bytes: bool) -> Iterator[Finding]:
    """Scan the headers of a shard and run all their checks; damage of the shard is a finding.

    Args:
        name: Name of the shard.
        scan: Function that reads the headers.
        read_bytes: Read the contents too, to find bytes that the disk cannot read.
    """
    try:
        shard = scan()
        for rules in RULES_OF_DATASETS:
            yield from rules.check_shard(shard)
        if read_bytes:
            read_all(shard.storage, name)
    except FormatError as error:
        yield Finding(Shards.E104, error.message, shard=name, offset=error.offset)
    except EnergonError as error:
        yield Finding(Shards.E109, error.message, shard=name)
