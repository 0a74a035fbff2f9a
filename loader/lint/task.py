"""Tasks of a lint for worker processes: check the headers of a shard, or decode some of its samples."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, overload

from ..cached_property import cached_property
from ..dataset.dataset import Dataset
from ..dataset.opening import folder_at
from ..dataset.tar import tar_index
from ..errors import ConfigError, EnergonError, FormatError
from ..format.documents.dataset_config import DatasetConfig
from ..format.index.layout import ShardEntry
from ..format.index.shard_index import index_shard
from ..format.worker_pool import run_in_workers
from .metadata import DatasetFiles
from .report import CheckedTask, LintPlan, LintProgress, PictureCounts, SampleCheck, take_pictures
from .rule import Finding, Kind, ScannedShard
from .samples import SampleLint, Samples, required_parts
from .shard import Shards, compare_file, read_all
from .split import Split

_SAMPLES_AT_ONCE = 256

RULES_OF_DATASETS = (DatasetFiles, Split, Samples, Shards)
"""The groups whose checks run on datasets and their shards."""


@dataclass(frozen=True, slots=True)
class LintTask:
    """A check of all headers of a shard, or of a range of samples, which are decoded."""

    shard: ShardEntry
    samples: range | None = None

    def __str__(self) -> str:
        return self.shard.name if self.samples is None else f"{self.shard.name}, samples {self.samples}"


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


class LintChecker:
    """Runs tasks in a worker process; picklable.

    Args:
        plan: The plan of the lint.
        check: The check of samples; None checks headers only.
        config: The parsed ``dataset.yaml``; None if it is missing or invalid.
        sqlite_numbers: Shard → its number in ``index.sqlite``; empty if that file is missing or unreadable.
    """

    def __init__(
        self,
        plan: LintPlan,
        check: SampleCheck | None,
        config: DatasetConfig | None,
        sqlite_numbers: Mapping[str, int],
    ) -> None:
        self._plan = plan
        self._config = config
        self._sqlite_numbers = sqlite_numbers
        required = frozenset(part for parts in required_parts(config).values() for part in parts)
        self._samples = SampleLint(check, required)

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker opens the dataset itself.
        return {name: value for name, value in self.__dict__.items() if name not in ("_dataset", "_excluded")}

    @cached_property
    def _dataset(self) -> Dataset:
        dataset = folder_at(self._plan.ref)
        dataset.storage.list_once("")
        return dataset

    @cached_property
    def _excluded(self) -> Mapping[str, frozenset[str]]:
        try:
            return self._dataset.documents.split.excluded_samples() if self._dataset.documents.split else {}
        except ConfigError:
            return {}

    def __call__(self, task: LintTask) -> CheckedTask:
        """Return the findings of a task, and what it counted."""
        excluded = self._excluded.get(task.shard.name, frozenset())
        if task.samples is not None:
            keys = map(self._dataset.index.key, task.samples)
            kept = [sample for sample, key in zip(task.samples, keys, strict=True) if key not in excluded]
            index = tar_index(self._dataset)
            findings = list(self._samples.findings(self._dataset.storage, index, task.shard, kept))
            return CheckedTask(findings, take_pictures(self._samples.check), self._samples.count_media(index, kept))
        findings = [
            finding for finding in self._of_headers(task.shard) if not (finding.is_sample and finding.key in excluded)
        ]
        return CheckedTask(findings, Counter())

    def _of_headers(self, shard: ShardEntry) -> Iterator[Finding]:
        storage = self._dataset.storage
        info, changes = compare_file(storage, shard)
        yield from changes
        if info is None:
            return

        def scan() -> ScannedShard:
            return ScannedShard(
                storage=storage,
                info=info,
                headers=index_shard(storage, shard.name),
                config=self._config,
                index=tar_index(self._dataset),
                entry=shard,
                sqlite_number=self._sqlite_numbers.get(shard.name),
            )

        yield from check_headers(shard.name, scan, "tar shards", read_bytes=self._plan.level == "bytes")


def check_headers(name: str, scan: Callable[[], ScannedShard], kind: Kind, *, read_bytes: bool) -> Iterator[Finding]:
    """Scan the headers of a shard and run all their checks; damage of the shard is a finding.

    Args:
        name: Name of the shard.
        scan: Function that reads the headers.
        kind: Kind of the data.
        read_bytes: Read the contents too, to find bytes that the disk cannot read.
    """
    try:
        shard = scan()
        for rules in RULES_OF_DATASETS:
            yield from rules.check_shard(shard, kind)
        if read_bytes:
            read_all(shard.storage, name)
    except FormatError as error:
        yield Finding(Shards.E104, error.message, shard=name, offset=error.offset)
    except EnergonError as error:
        yield Finding(Shards.E109, error.message, shard=name)


# A running lint: its findings so far, up to a maximum, and its progress.


class RunningLint:
    """A lint whose tasks run in worker processes.

    Args:
        workers: Number of worker processes.
        max_findings: Number of findings to stop at; None finds all.
        on_progress: Called with the progress.

    Attributes:
        findings: The findings so far.
        pictures: The traits of the pictures so far.
        decoded_media: Number of parts with sound or video that were decoded so far.
        complete: All tasks are done, and no finding was dropped.
    """

    def __init__(
        self, *, workers: int, max_findings: int | None, on_progress: Callable[[LintProgress], None] | None
    ) -> None:
        self.findings: list[Finding] = []
        self.pictures: PictureCounts = Counter()
        self.decoded_media = 0
        self.complete = True
        self._workers = workers
        self._max_findings = max_findings
        self._on_progress = on_progress

    def add(self, findings: Sequence[Finding]) -> None:
        """Add findings, up to the maximum."""
        self.findings += findings
        if self._max_findings is not None and len(self.findings) > self._max_findings:
            del self.findings[self._max_findings :]
            self.complete = False

    def check_dataset(self, dataset: Dataset, kind: Kind) -> None:
        """Run the checks of a dataset as a whole."""
        for rules in RULES_OF_DATASETS:
            self.add([*rules.check_dataset(dataset, kind)])

    def take(self, checked: CheckedTask) -> None:
        """Add the result of a task."""
        self.add(checked.findings)
        self.pictures += checked.pictures
        self.decoded_media += checked.decoded_media

    @property
    def is_full(self) -> bool:
        """True if the maximum is reached."""
        return self._max_findings is not None and len(self.findings) >= self._max_findings

    def results(self, check: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield the number of finished tasks, the number of the task and its result, until the lint is full."""
        with closing(run_in_workers(check, tasks, workers=self._workers)) as results:
            for finished, (number, result) in enumerate(results, start=1):
                yield finished, number, result
                if finished < len(tasks) and self.is_full:
                    self.complete = False
                    return

    def report(self, done: int, total: int, unit: str) -> None:
        """Report the progress."""
        if self._on_progress is not None:
            self._on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(self.findings)))
