"""Lint tar shards that are not prepared: their headers, names and keys, and the decoding of their parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..cached_property import cached_property
from ..dataset.unprepared.scan import ShardSummary, UnpreparedDataset, join_summaries, summarize_shard
from ..dataset.unprepared.tar_folder import TarFolder
from ..dataset.unprepared.tar_index import TarIndex
from ..errors import EnergonError
from ..format.index.layout import Layout
from ..format.index.shard_index import index_shard
from ..format.prepare.shards import compressed_warning
from ..storage import FileInfo, Storage
from .metadata import unreadable_dataset
from .report import CheckedTask, LintProgress, LintReport, SampleCheck, take_pictures
from .rule import Finding, ScannedShard
from .samples import SampleLint, media_note
from .shard import Shards
from .task import DecodeTasks, LintTask, RunningLint, check_headers


def lint_tars(
    tars: TarFolder,
    *,
    read_bytes: bool = False,
    check: SampleCheck | None = None,
    workers: int = 1,
    max_findings: int | None = None,
    on_progress: Callable[[LintProgress], None] | None = None,
) -> LintReport:
    """Lint tar shards without an index. That a folder is not prepared is a finding; a single file need not be.

    Args:
        tars: The shards.
        read_bytes: Read the contents too, to find bytes that the disk cannot read.
        check: Check that decodes the parts of samples; None does not decode.
        workers: Number of worker processes.
        max_findings: Number of findings to stop at; None finds all.
        on_progress: Called after each task.

    Raises:
        WorkerError: A worker process was killed.
    """
    started = time.perf_counter()
    lint = _TarLint(tars, workers=workers, max_findings=max_findings, on_progress=on_progress)
    if not tars.is_file:
        lint.add([unreadable_dataset(tars.not_prepared)])
    if tars.compressed:
        lint.add([Finding(Shards.W106, compressed_warning(tars.compressed))])
    index = lint.check_headers(read_bytes=read_bytes, reports=check is None)
    if index is not None and check is not None:
        lint.decode(index, check)
    numbers = {shard.name: number for number, shard in enumerate(tars.shards)}
    return LintReport(
        findings=tuple(
            sorted(lint.findings, key=lambda each: (numbers.get(each.shard or "", -1), each.offset or 0, each.code))
        ),
        complete=lint.complete,
        shards=len(tars.shards),
        samples=0 if index is None else len(index),
        seconds=time.perf_counter() - started,
        pictures=lint.pictures,
        decoded_media=lint.decoded_media,
        media_note=None if index is None else media_note(index.part_names, "bytes" if read_bytes else "headers", check),
        part_sets=None if index is None else index.part_sets(),
    )


class _TarLint(RunningLint):
    """A running lint of tar shards."""

    def __init__(self, tars: TarFolder, **options: Any) -> None:
        super().__init__(**options)
        self._tars = tars

    def check_headers(self, *, read_bytes: bool, reports: bool) -> TarIndex | None:
        """Check the headers of all shards; return an index of those that are whole, or None if the lint stopped."""
        summaries: dict[int, ShardSummary] = {}
        shards = self._tars.shards
        checker = _HeaderCheck(self._tars.storage, read_bytes)
        for done, number, (summary, findings) in self.results(checker, shards):
            self.add(findings)
            if summary is not None:
                summaries[number] = summary
            if reports:
                self.report(done, len(shards), "shards")
        if not self.complete:
            return None
        index = join_summaries(self._tars, [summaries[number] for number in sorted(summaries)])
        self.check_dataset(UnpreparedDataset(self._tars, index, complete=True), "unprepared tar files")
        return index

    def decode(self, index: TarIndex, check: SampleCheck) -> None:
        """Decode the samples of an index."""
        tasks = DecodeTasks(index.shards)
        decoded = 0
        checker = _DecodeCheck(self._tars.storage, index.layout, self._tars.path, SampleLint(check))
        for _, number, checked in self.results(checker, tasks):
            self.take(checked)
            decoded += len(tasks[number].samples or ())
            self.report(decoded, len(index), "samples")


@dataclass(frozen=True, slots=True)
class _HeaderCheck:
    """Check the headers of one shard; runs in a worker."""

    storage: Storage
    read_bytes: bool

    def __call__(self, shard: FileInfo) -> tuple[ShardSummary | None, list[Finding]]:
        scans: list[ScannedShard] = []

        def scan() -> ScannedShard:
            headers = index_shard(self.storage, shard.name, info=shard)
            scans.append(ScannedShard(storage=self.storage, info=shard, headers=headers))
            return scans[0]

        findings = list(check_headers(shard.name, scan, "unprepared tar files", read_bytes=self.read_bytes))
        is_whole = scans and not any(finding.rule.hides_samples for finding in findings)
        return summarize_shard(shard, scans[0].headers) if is_whole else None, findings


class _DecodeCheck:
    """Decode some samples of a shard; picklable, for workers."""

    def __init__(self, storage: Storage, layout: Layout, path: str, samples: SampleLint) -> None:
        self._storage = storage
        self._layout = layout
        self._path = path
        self._samples = samples

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    @cached_property
    def _index(self) -> TarIndex:
        return TarIndex(self._storage, self._layout, path=self._path)

    def __call__(self, task: LintTask) -> CheckedTask:
        samples, decoded_media = task.samples or (), 0
        try:
            found = list(self._samples.findings(self._storage, self._index, task.shard, samples))
            decoded_media = self._samples.count_media(self._index, samples)
        except EnergonError as error:  # the shard changed since its headers were checked
            found = [Finding(Shards.E109, error.message, shard=task.shard.name)]
        return CheckedTask(found, take_pictures(self._samples.check), decoded_media)
