"""Run a user's function over the samples of a dataset, and write what it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..engine.journal import Journal
from ..engine.run import Engine, JobTasks
from ..errors import SampleError
from ..format.nv_meta import JOBS_FOLDER
from ..pipeline.reading.dataset_source import WholeDataset
from ..storage import Storage
from ..version import __version__
from .function import UserFunction
from .reading import SampleReader
from .tasks import SAMPLES_OF_TASK, Failure, MapTask, MapWork, Output, TaskResult, tasks_of

_MAX_SHOWN = 100  # failures of a report; the journal has all


class MapOutput(Output, Protocol):
    """What becomes of the values: the part that runs in workers, and the end of the job."""

    def check(self) -> None:
        """Raise a ``ConfigError`` if the target cannot be written."""

    def storage(self, folder: Dataset) -> Storage:
        """Return where the journal lies."""

    def commit(
        self, folder: Dataset, tasks: Sequence[MapTask], journal: Journal[TaskResult], made_by: str
    ) -> list[str]:
        """Write the target from the results of all tasks; return the names of what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProgress:
    """Progress of a map.

    Attributes:
        samples: Number of samples that are done.
        total: Number of the chosen samples.
        failed: Number of samples that failed.
    """

    samples: int
    total: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class MapRequest:
    """A function, the samples to call it with, and what becomes of its results.

    Attributes:
        source: The dataset.
        function: The function.
        output: Where results go.
        target: Name of the output, unique in the dataset: ``"write-score"``.
        samples: Numbers of the chosen samples, ascending; None for all.
        batch_size: The function is called with lists of so many samples; None for single samples.
        raw: Samples are dictionaries of the bytes of their parts.
        max_failures: With more failed samples, nothing is written and the journal stays.
        timeout_s: A call that takes longer is a failure.
        task_samples: Most samples of a task; a batch never crosses the end of a task.
        retry_failed: Run tasks again that an unfinished map has left with failed samples.
        engine: Where the tasks run.
        storage: Where the journal lies; None for the dataset's ``.nv-meta``.
        command: Name of the command, for messages and records.
    """

    source: WholeDataset
    function: UserFunction
    output: MapOutput
    target: str
    samples: IntArray | None = None
    batch_size: int | None = None
    raw: bool = False
    max_failures: int = 0
    timeout_s: float | None = None
    task_samples: int = SAMPLES_OF_TASK
    retry_failed: bool = False
    engine: Engine = field(default_factory=Engine)
    storage: Storage | None = None
    command: str = "map"

    def digest(self) -> dict[str, str]:
        """Return all that the results depend on."""
        folder = self.source.folder
        chosen = "all" if self.samples is None else str(hash_of(self.samples))
        return {
            "dataset": str(folder.index.uuid),
            "function": str(self.function),
            "source of the function": self.function.source_digest(),
            "version": self.function.version,
            "samples": chosen,
            "batch size": str(self.batch_size),
            "form of samples": "raw" if self.raw else "decoded",
            "output": self.target,
            "samples of a task": str(self.task_samples),
        }


def hash_of(numbers: IntArray) -> str:
    """Return a digest of numbers."""
    import hashlib

    return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReport:
    """The outcome of a map.

    Attributes:
        target: Name of the output.
        written: Names of the columns or filter, or the path of the dataset.
        samples: Number of samples that the function was called with.
        failed: Number of samples that failed.
        skipped: Number of samples that the function, or the dataset's code, skipped.
        failures: The first failures.
        resumed: Number of tasks that an earlier run had finished.
        tasks: Number of tasks.
    """

    target: str
    written: tuple[str, ...]
    samples: int
    failed: int
    skipped: int
    failures: tuple[Failure, ...]
    resumed: int
    tasks: int
    seconds: float


def run_map(request: MapRequest, *, on_progress: Callable[[MapProgress], None] | None = None) -> MapReport:
    """Run a function over samples.

    The same dataset, function and options make the same bytes, whatever the engine, the number of workers and the
    interruptions. Results of finished tasks stay in a journal until all are there: after an interruption, even a kill,
    the same request continues.

    Raises:
        ConfigError: The function cannot be imported, or the target cannot be written; or an unfinished map of the same
            target had another function or options.
        SampleError: More samples failed than allowed, or their values cannot be in one column.
        WorkerError: The processes of one task were killed three times.
        ShareDone: The engine runs one share, which is done.
    """
    started = time.perf_counter()
    request.output.check()
    request.function.load()
    folder = request.source.folder
    storage = request.storage or request.output.storage(folder)
    # The tasks, and their journal.
    tasks = list(tasks_of(folder, request.samples, most=request.task_samples))
    journal: Journal[TaskResult] = Journal(storage, f"{JOBS_FOLDER}/map-{request.target}", TaskResult)
    reader = SampleReader(request.source, raw=request.raw)
    work = MapWork(
        reader=reader,
        function=request.function,
        batch_size=request.batch_size,
        output=request.output,
        timeout_s=request.timeout_s,
    )
    job: JobTasks[TaskResult] = JobTasks(
        function=work,
        tasks=tasks,
        sizes=[len(task.numbers()) for task in tasks],
        journal=journal,
        command=request.command,
        request=request.digest(),
        receipt=TaskResult.receipt,
        again=_has_failures if request.retry_failed else None,
    )
    # Run them; every failure counts, of earlier runs too.
    total = sum(job.sizes)
    failures: dict[int, tuple[Failure, ...]] = {}
    samples = skipped = failed = 0
    for number, result in job.run(request.engine):
        samples += result.samples
        skipped += result.skipped
        failed += len(result.failures)
        if result.failures:
            failures[number] = result.failures
        if on_progress is not None:
            on_progress(MapProgress(samples=samples, total=total, failed=failed))
        if failed > request.max_failures:
            first = next(failure for _, some in sorted(failures.items()) for failure in some)
            raise _too_many(request, failed, first, at=storage.path(journal.folder))
    # Write the results.
    made_by = f"energon {request.command} {request.function} (energon-toolkit {__version__})"
    written = request.output.commit(folder, tasks, journal, made_by)
    journal.discard()
    shown = [failure for _, some in sorted(failures.items()) for failure in some]
    return MapReport(
        target=request.target,
        written=tuple(written),
        samples=samples,
        failed=failed,
        skipped=skipped,
        failures=tuple(shown[:_MAX_SHOWN]),
        resumed=job.resumed,
        tasks=len(tasks),
        seconds=time.perf_counter() - started,
    )


def show_values(
    source: WholeDataset,
    function: UserFunction,
    samples: IntArray,
    *,
    batch_size: int | None = None,
    raw: bool = False,
    show: Callable[[str, Any], None],
) -> None:
    """Run a function over some samples in this process, and show each key with its value or error; a trial.

    Args:
        samples: Numbers of the samples, ascending.
        show: Called with the key of a sample, and what the function returned or raised.
    """
    reader, index = SampleReader(source, raw=raw), source.folder.index
    work = MapWork(reader=reader, function=function, batch_size=batch_size, output=_NoOutput())
    for number, value in work.results(samples):
        show(index.full_key(number), value)


class _NoOutput:
    """The output of a trial."""

    def collect(self, task: MapTask, values: Sequence[Any], keys: Sequence[str], numbers: IntArray) -> TaskResult:
        raise NotImplementedError


def _has_failures(result: TaskResult) -> bool:
    return bool(result.failures)


def _too_many(request: MapRequest, failed: int, first: Failure, *, at: str) -> SampleError:
    limit = request.max_failures
    return SampleError(
        f"{failed:,} samples failed, and {limit:,} may; the first: {first.key}: {first.error}",
        at=at,
        hint="nothing was written, and finished tasks stay; correct the function and pass --restart, or run the failed"
        " ones again with --retry-failed, or allow failures with --max-failures N",
    )
