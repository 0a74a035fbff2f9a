"""Lint the files of a prepared folder of JSONL or Parquet files, and the samples of typed datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..accounting.large_parts import LargePart
from ..dataset.opening import folder_at
from ..errors import EnergonError, FormatError
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.layout import ShardEntry
from ..format.jsonl.lines import LineBlock
from ..format.records.record_file import RecordFile, open_record_file, read_record
from ..storage import ReadableFile
from .jsonl import JsonlFiles, fault_of_line
from .record_file import ColumnFiles, lint_record_file
from .report import LintPlan, SampleCheck
from .rule import Finding
from .samples import Samples, required_parts, sample_findings
from .shard import Shards
from .task import OfDataset


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
        if self._check is not None and not any(finding.severity == "error" for finding in findings):
            findings += self._faulty_samples(shard, self._check)
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

    def _faulty_samples(self, shard: ShardEntry, check: SampleCheck) -> Iterator[Finding]:
        excluded = self.excluded(shard.name)
        file = open_record_file(self.dataset.storage, shard.name)
        check = value_check(file, check)
        with file.open() as opened:
            for number in range(shard.samples):
                if str(number) not in excluded:
                    parts = read_record(file, opened, number, max_json_bytes=_limit_of(check))
                    yield from sample_findings(check, str(number), parts, shard=shard.name)


def value_check(file: RecordFile, check: SampleCheck) -> SampleCheck:
    """Return the check of the values of a file's samples: nothing needs to be decoded in rows."""
    return check if file.decodes else getattr(check, "check_values", _no_faults)


def lint_record(file: RecordFile, opened: ReadableFile, number: int, check: SampleCheck) -> Iterator[Finding]:
    """Yield the findings about one sample of a file: that its line is no JSON object, or else those of a check.

    Args:
        file: The file.
        opened: The same, open.
        number: Number of the sample in it.
        check: See :func:`value_check`.
    """
    name = file.name
    try:
        parts = read_record(file, opened, number, max_json_bytes=_limit_of(check))
        if file.decodes and not any(isinstance(data, LargePart) for data in parts.values()):
            (offset,), _ = file.spans(np.array([number]))
            for line in LineBlock(b"".join(parts.values()), int(offset), 0, name).examine():
                if line.fault is not None:
                    rule, expected = fault_of_line(line)
                    message = f"the line is not {expected}: {line.fault}"
                    yield Finding(rule, message, shard=name, key=str(number), offset=line.offset)
                    return
    except FormatError as error:
        rule = JsonlFiles.E403 if file.decodes else ColumnFiles.E414
        yield Finding(rule, error.message, shard=name, key=str(number), offset=error.offset)
        return
    yield from sample_findings(check, str(number), parts, shard=name)


def _limit_of(check: SampleCheck) -> int | None:
    return getattr(check, "max_json_bytes", None)


def _no_faults(_key: str, _values: Mapping[str, Any]) -> tuple[()]:
    return ()
