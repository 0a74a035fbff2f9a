"""Lint the files of a prepared folder of JSONL or Parquet files, and the samples of typed datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..dataset.opening import folder_at
from ..errors import EnergonError
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.layout import ShardEntry
from ..format.records.record_file import open_record_file
from .contents import SampleLint
from .record_file import lint_record_file
from .report import LintPlan, SampleCheck
from .rule import Finding, kind_of
from .samples import Samples, required_parts
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
