"""Is all of it true? Check a dataset against its index, its split and its ``dataset.yaml``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import ConfigError, EnergonError, FormatError, StorageError
from ..storage import ReadableFile
from .dataset_config import DatasetConfig
from .dataset_folder import DatasetFolder
from .dataset_index import PartLocation
from .findings import Finding
from .index_layout import ShardEntry
from .lint_metadata import check_config, check_duplicate_keys, check_split, check_sqlite, unreadable
from .lint_shard import check_shard
from .nv_meta import DATASET_YAML, SPLIT_YAML
from .worker_pool import run_in_workers

__all__ = ["LEVELS", "LintPlan", "LintProgress", "LintReport", "SampleCheck", "lint_dataset"]

LEVELS = ("headers", "bytes", "decode")

SampleCheck = Callable[[str, Mapping[str, bytes]], Sequence[tuple[str | None, str]]]
"""``check(key, parts)`` gives what is wrong with a sample: part (None: all of it) and message."""

_SAMPLES_AT_ONCE = 256
_GAP = 64 * 1024  # read over gaps between parts up to this size: one read costs more


@dataclass(frozen=True, slots=True, kw_only=True)
class LintPlan:
    """What to check.

    Attributes:
        path: The dataset.
        level: ``headers``, ``bytes`` (the contents are read too) or ``decode`` (and decoded).
        workers: Processes.
        split_parts: Check only the shards of these; None checks all.
        max_findings: Stop at this many; None finds all.
        make_sample_check: Makes the check of level ``decode``; called once, its result must be picklable.
    """

    path: str
    level: str = "decode"
    workers: int = 1
    split_parts: tuple[str, ...] | None = None
    split_config: str = SPLIT_YAML
    dataset_config: str = DATASET_YAML
    max_findings: int | None = None
    make_sample_check: Callable[[DatasetConfig | None, str], SampleCheck] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintProgress:
    """How far a lint is; samples count at level decode, shards at the others."""

    done: int
    total: int
    unit: str
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What a lint found, in order of shards and offsets."""

    findings: tuple[Finding, ...]
    complete: bool  # False: it stopped at max_findings
    shards: int
    samples: int
    seconds: float

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Task:
    """A piece of work: all of a shard's headers, or (with a range) the decoding of some of its samples."""

    shard: ShardEntry
    samples: range | None = None

    def __str__(self) -> str:
        return self.shard.name if self.samples is None else f"{self.shard.name}, samples {self.samples}"


def lint_dataset(plan: LintPlan, *, on_progress: Callable[[LintProgress], None] | None = None) -> LintReport:
    """Check a dataset.

    Nothing but a bug raises: whatever is wrong with the dataset is a finding.

    Args:
        plan: What to check.
        on_progress: Called after each piece of work.
    """
    started = time.perf_counter()
    findings: list[Finding] = []
    tasks: list[_Task] = []
    complete = True
    try:
        dataset = DatasetFolder(plan.path, split_config=plan.split_config, dataset_config=plan.dataset_config)
        findings += [*check_config(dataset), *check_split(dataset), *check_sqlite(dataset)]
        findings += check_duplicate_keys(dataset.index)
        shards = _chosen(dataset, plan.split_parts)
        check = _sample_check(dataset, plan)
        unchecked = getattr(check, "unchecked", None)
        if unchecked:
            findings.append(Finding(code="W009", message=unchecked))
        tasks = [_Task(shard) for shard in shards]
        if check is not None:
            tasks += [task for shard in shards for task in _decode_tasks(dataset, shard)]
        worker = _Checker(plan, check, _readable_config(dataset))
        complete = _run(worker, tasks, plan, findings, on_progress)
        order = {shard.name: number for number, shard in enumerate(dataset.index.shards)}
    except FormatError as error:
        findings.append(Finding(code="E005", message=str(error).replace("\n", " ")))
        order = {}
    except (ConfigError, StorageError) as error:
        findings.append(unreadable(error))
        order = {}
    findings.sort(key=lambda each: (order.get(each.shard or "", -1), each.offset or 0, each.code))
    decoded = sum(len(task.samples) for task in tasks if task.samples is not None)
    headers = [task.shard for task in tasks if task.samples is None]
    return LintReport(
        findings=tuple(findings),
        complete=complete,
        shards=len(headers),
        samples=decoded or sum(shard.samples for shard in headers),
        seconds=time.perf_counter() - started,
    )


def _readable_config(dataset: DatasetFolder) -> DatasetConfig | None:
    try:
        return dataset.config
    except ConfigError:
        return None  # reported by check_config


def _sample_check(dataset: DatasetFolder, plan: LintPlan) -> SampleCheck | None:
    if plan.level != "decode" or plan.make_sample_check is None:
        return None
    return plan.make_sample_check(_readable_config(dataset), dataset.meta_folder)


def _chosen(dataset: DatasetFolder, split_parts: tuple[str, ...] | None) -> list[ShardEntry]:
    """Give the shards to check: all but excluded ones, or those of some split parts."""
    try:
        split = dataset.split
    except ConfigError:
        split = None
    excluded = split.excluded_shards() if split else frozenset()
    shards = [shard for shard in dataset.index.shards if shard.name not in excluded]
    if split_parts is None:
        return shards
    chosen = {
        dataset.index.shard_of(samples[0]).name
        for part in split_parts
        for samples in dataset.samples_of_part(part)
        if samples
    }
    return [shard for shard in shards if shard.name in chosen]


def _decode_tasks(dataset: DatasetFolder, shard: ShardEntry) -> Iterator[_Task]:
    storage = dataset.storage
    if not storage.exists(shard.name) or storage.stat(shard.name).size_bytes != shard.size_bytes:
        return  # reported as stale: the index does not say where its parts are
    samples = dataset.index.samples_of(shard)
    for start in range(0, len(samples), _SAMPLES_AT_ONCE):
        yield _Task(shard, samples[start : start + _SAMPLES_AT_ONCE])


def _run(
    worker: Callable[[_Task], list[Finding]],
    tasks: Sequence[_Task],
    plan: LintPlan,
    findings: list[Finding],
    on_progress: Callable[[LintProgress], None] | None,
) -> bool:
    """Do all tasks; False where that stopped at ``max_findings``."""
    decodes = any(task.samples is not None for task in tasks)
    total = sum(len(task.samples or ()) for task in tasks) if decodes else len(tasks)
    done = 0
    with closing(run_in_workers(worker, tasks, workers=plan.workers)) as results:
        for number, found in results:
            findings += found
            done += len(tasks[number].samples or ()) if decodes else 1
            if on_progress:
                unit = "samples" if decodes else "shards"
                on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(findings)))
            if plan.max_findings is not None and len(findings) >= plan.max_findings:
                del findings[plan.max_findings :]
                return False
    return True


class _Checker:
    """Does a task in a worker process."""

    def __init__(self, plan: LintPlan, check: SampleCheck | None, config: DatasetConfig | None) -> None:
        self._plan = plan
        self._check = check
        self._config = config

    def __getstate__(self) -> dict[str, Any]:
        # The open dataset is opened again in a spawned worker.
        return {name: value for name, value in self.__dict__.items() if name != "_dataset"}

    @cached_property
    def _dataset(self) -> DatasetFolder:
        plan = self._plan
        return DatasetFolder(plan.path, split_config=plan.split_config, dataset_config=plan.dataset_config)

    @cached_property
    def _excluded(self) -> Mapping[str, frozenset[str]]:
        try:
            return self._dataset.split.excluded_samples() if self._dataset.split else {}
        except ConfigError:
            return {}

    def __call__(self, task: _Task) -> list[Finding]:
        excluded = self._excluded.get(task.shard.name, frozenset())
        if task.samples is not None:
            return list(self._decode(task.shard, task.samples, excluded))
        read_bytes = self._plan.level == "bytes"
        found = check_shard(self._dataset.storage, self._dataset.index, task.shard, self._config, read_bytes=read_bytes)
        return [finding for finding in found if not (finding.is_sample and finding.key in excluded)]

    def _decode(self, shard: ShardEntry, samples: range, excluded: frozenset[str]) -> Iterator[Finding]:
        check = self._check
        if check is None:
            return
        index = self._dataset.index
        try:
            with self._dataset.storage.open(shard.name) as file:
                for sample in samples:
                    key = index.key(sample)
                    if key not in excluded:
                        locations = index.parts(sample)
                        yield from _findings_of(shard.name, key, locations, check(key, _read(file, locations)))
        except EnergonError as error:
            yield Finding(code="E109", message=error.found, shard=shard.name)


def _read(file: ReadableFile, locations: list[PartLocation]) -> dict[str, bytes]:
    """Read a sample's parts: in one piece where they are near each other."""
    start = locations[0].offset
    end = max(part.offset + part.size_bytes for part in locations)
    if end - start > sum(part.size_bytes for part in locations) + _GAP or start > min(
        part.offset for part in locations
    ):
        return {part.name: file.read_at(part.offset, part.size_bytes) for part in locations}
    data = file.read_at(start, end - start)
    return {part.name: data[part.offset - start : part.offset - start + part.size_bytes] for part in locations}


def _findings_of(
    shard: str, key: str, locations: list[PartLocation], faults: Sequence[tuple[str | None, str]]
) -> Iterator[Finding]:
    by_name = {part.name: part for part in locations}
    for part, message in faults:
        location = by_name.get(part or "")
        if location is not None and location.size_bytes == 0:
            continue  # E303 or W308, found in the headers
        if location is None and part is not None:
            continue  # E301, found in the headers
        yield Finding(
            code="E307" if part is None else "E302",
            message=message,
            shard=shard,
            key=key,
            part=part,
            offset=(location or locations[0]).offset,
        )
