"""Run a user's function over the samples of a dataset, and write what it returns."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from ..arrays import IntArray
from ..convert.writing.hub_output import new_output_folder
from ..dataset.job_journal import request_of_data
from ..engine.journal import Job, Journal
from ..engine.run import Engine, JobTasks
from ..errors import ConfigError, SampleError, StorageError, plural
from ..format.nv_meta import FOLDER, JOBS_FOLDER
from ..format.unfinished import remove_left_files, remove_leftovers, remove_work_folder
from ..pipeline.reading.dataset_source import DatasetSource
from ..storage import LocalStorage, Storage, is_hub_url, is_writable, read_document
from ..version import __version__
from .call_limit import CallLimit, TaskCalls
from .function import UserFunction, one_thread
from .new_shards import ToDataset
from .reading import SampleReader
from .tasks import SAMPLES_OF_TASK, FailedSample, MapOutput, MapResults, MapWork, TaskResult, tasks_of

_LATE_S = 4.0  # more than twice the limit: a stopped worker may soon continue
_MAX_SHOWN = 100  # failures of a report; a file next to the results has all
_FAILURES = "failures.jsonl"


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
        timeout_s: A call that takes longer is a failure of its samples; see :class:`.CallLimit`.
        start_timeout_s: The longest time to make an instance of a class.
        task_samples: Most samples of a task; a batch never crosses the end of a task.
        retry_failed: Run tasks again that an unfinished map has left with failed samples.
        engine: Where the tasks run.
        storage: Where the journal is; None for the dataset's ``.nv-meta``.
        command: Name of the command, for messages and records.
    """

    source: DatasetSource
    function: UserFunction
    output: MapOutput
    target: str
    samples: IntArray | None = None
    batch_size: int | None = None
    raw: bool = False
    max_failures: int = 0
    timeout_s: float | None = None
    start_timeout_s: float = 1800.0  # a large model is read from a slow disk
    task_samples: int = SAMPLES_OF_TASK
    retry_failed: bool = False
    engine: Engine = field(default_factory=Engine)
    storage: Storage | None = None
    command: str = "map"

    def digest(self) -> dict[str, str]:
        """Return all that the results depend on."""
        folder, samples = self.source.folder, self.samples
        file = f"{FOLDER}/{folder.ref.dataset_file}"
        config = read_document(folder.storage, file) if folder.storage.exists(file) else b""
        return {
            **request_of_data(folder),
            "dataset file": _hash_of(config),
            "function": str(self.function),
            **self.function.identity(),
            "version": self.function.version,
            "samples": "all" if samples is None else _hash_of(samples.tobytes()),
            "batch size": str(self.batch_size),
            "form of samples": "raw" if self.raw else "decoded",
            "output": self.target,
            "samples of a task": str(self.task_samples),
            **self.output.request(folder),
        }


def _hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReport:
    """The outcome of a map.

    Attributes:
        target: Name of the output.
        written: Names of the columns or filter, or the path of the dataset.
        samples: Number of samples that the function was called with.
        failed: Number of samples that failed.
        skipped: Number of samples that the function, or the dataset's code, skipped.
        kept: Number of samples that the filter keeps; None without one.
        failures: The first failures.
        resumed: Number of tasks that an earlier run had finished.
        tasks: Number of tasks.
        warnings: Columns and filters that a new dataset could not take over, one sentence each.
    """

    target: str
    written: tuple[str, ...]
    warnings: tuple[str, ...]
    samples: int
    failed: int
    skipped: int
    kept: int | None
    failures: tuple[FailedSample, ...]
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
    output = request.output
    if type(output) is ToDataset and is_hub_url(output.output):
        sources = [output.ref.path]
        with new_output_folder(output.output, sources=sources, engine=request.engine) as folder:
            report = run_map(replace(request, output=replace(output, output=folder)), on_progress=on_progress)
        return replace(report, written=(output.output,))
    with _locked(request) as storage, one_thread(), TemporaryDirectory(prefix="energon-calls-") as temporary:
        try:
            return _run(request, *_job(request, storage, temporary), on_progress)
        except KeyboardInterrupt as error:
            error.add_note("finished tasks stay; to continue, run the same command again")
            raise
        finally:
            request.function.unload()


@contextmanager
def _locked(request: MapRequest) -> Iterator[Storage]:
    """Check the request, and hold the lock of its target; shares hold it together."""
    folder, engine, function = request.source.folder, request.engine, request.function
    # Refuse before anything is written what cannot succeed.
    if request.samples is not None and not len(request.samples):
        raise ConfigError("no sample was chosen", at=folder.path)
    function.imported()
    if isinstance(engine.executor, ProcessPoolExecutor) and function.needs_fork:
        raise ConfigError(
            "this function cannot be pickled, so no executor can run it",
            at=str(function),
            hint="define it in a module, or pass workers=N instead of an executor",
        )
    request.output.check(folder)
    storage = request.storage or request.output.storage(folder)
    if not is_writable(storage, JOBS_FOLDER):
        raise StorageError(
            "no results can be written here",
            path=storage.path(JOBS_FOLDER),
            hint="make this folder writable, or use another one with --meta-folder",
        )
    name = f"{JOBS_FOLDER}/map-{request.target}"
    lock = f"{name}.lock"
    with storage.lock(lock, shared=engine.share is not None):
        request.output.check(folder)  # another run may have ended since
        if engine.share is None:
            remove_leftovers(storage, name)
        if isinstance(request.output, ToDataset):
            retries = {"retry of failed samples": "True"} if request.retry_failed else {}
            job = Job(command=request.command, request={**request.digest(), **retries}, tasks=0)
            request.output.check_not_written(folder, job)
        yield storage
        if engine.share is None:
            storage.remove(lock)
            if storage.url != folder.storage.url:  # a new dataset, which has no other jobs
                storage.remove(JOBS_FOLDER)


def _job(request: MapRequest, storage: Storage, temporary: str) -> tuple[JobTasks[TaskResult], Engine]:
    """Return the tasks of a map, and an engine that notes the calls that end their processes.

    Args:
        storage: Where the journal is.
        temporary: A folder for notes, if the journal is in no folder.
    """
    # Notes are next to the results if workers see that folder.
    engine, function, output = request.engine, request.function, request.output
    journal: Journal[TaskResult] = Journal(storage, f"{JOBS_FOLDER}/map-{request.target}", TaskResult)
    facts = request.digest()
    notes = f"{journal.folder}/calls-{_hash_of(repr(facts).encode())}"
    limit = CallLimit(
        seconds=request.timeout_s,
        start_seconds=request.start_timeout_s,
        folder=storage.path(notes) if isinstance(storage, LocalStorage) else temporary,
        is_repeated=engine.may_run_twice,
    )
    if request.retry_failed or engine.restart:
        shutil.rmtree(limit.folder or "", ignore_errors=True)

    # Failures of an earlier run, and shards that were lost, are tried again.
    def runs_again(result: TaskResult) -> bool:
        retries = request.retry_failed and not engine.merge
        return (retries and bool(result.failures)) or output.is_lost(storage, result)

    # Describe the tasks.
    tasks = list(tasks_of(request.source.folder, request.samples, most=request.task_samples))
    work = MapWork(
        reader=SampleReader(request.source, raw=request.raw),
        function=function.sent(),
        batch_size=request.batch_size,
        output=output,
        limit=limit,
    )
    job: JobTasks[TaskResult] = JobTasks(
        function=work,
        tasks=tasks,
        sizes=[task.size for task in tasks],
        journal=journal,
        command=request.command,
        request=facts,
        receipt=TaskResult.receipt,
        again=runs_again,
    )
    return job, replace(
        engine,
        forks=engine.forks or function.needs_fork,
        on_death=lambda numbered, how: limit.note_death(numbered.task.start, how),
        # The watchdog of a process that is stopped is, too.
        stopped_s=engine.stopped_s if limit.seconds is None else 2 * limit.seconds + _LATE_S,
    )


def _run(
    request: MapRequest,
    job: JobTasks[TaskResult],
    engine: Engine,
    on_progress: Callable[[MapProgress], None] | None,
) -> MapReport:
    """Run the tasks, and write their results."""
    # Follow the tasks; failures of earlier runs count, too.
    started = time.perf_counter()
    folder, output, journal, joined = request.source.folder, request.output, job.journal, None
    failures: dict[int, tuple[FailedSample, ...]] = {}
    samples = skipped = failed = 0
    total = sum(job.sizes)
    with closing(job.run(engine)) as results:  # ends the workers at an error
        for task_index, result in results:
            samples += result.samples
            skipped += result.skipped
            failed += len(result.failures)
            if result.failures:
                failures[task_index] = result.failures
            if on_progress is not None:
                on_progress(MapProgress(samples=samples, total=total, failed=failed))
            if failed > request.max_failures:
                every = [failure for _, some in sorted(failures.items()) for failure in some]
                raise _too_many(every, journal, request.max_failures)
            joined = output.joined(folder, joined, result)
    # Write the results, and remove what killed processes have left.
    made_by = f"energon {request.command} {request.function} (energon-toolkit {__version__})"
    written = output.commit(MapResults(folder=folder, tasks=job.tasks, journal=journal, made_by=made_by), joined)
    remove_left_files(journal.storage, names=written.names)
    remove_work_folder(journal.storage, journal.folder)
    shown = [failure for _, some in sorted(failures.items()) for failure in some]
    return MapReport(
        target=request.target,
        written=written.names,
        warnings=written.warnings,
        samples=samples,
        failed=failed,
        skipped=skipped,
        kept=written.kept,
        failures=tuple(shown[:_MAX_SHOWN]),
        resumed=job.resumed,
        tasks=len(job.tasks),
        seconds=time.perf_counter() - started,
    )


def _too_many(failures: list[FailedSample], journal: Journal[TaskResult], limit: int) -> SampleError:
    """List the failures in a file of the journal, and return the error that names it."""
    file, storage = f"{journal.folder}/{_FAILURES}", journal.storage
    with storage.create(file) as lines:
        lines.writelines(msgspec.json.encode(failure) + b"\n" for failure in failures)
    first = failures[0]
    return SampleError(
        f"{plural(len(failures), 'sample')} failed; --max-failures allows {limit:,}. First: {first.key}: {first.error}",
        at=storage.path(file),
        hint="nothing was written, and finished tasks stay. Correct the function, and pass --keep-results"
        " --retry-failed, or --restart to compute all again; or allow failures with --max-failures N",
    )


def show_values(
    source: DatasetSource,
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
    work = MapWork(reader=SampleReader(source, raw=raw), function=function, batch_size=batch_size)
    for sample_index, value in work.results(samples, TaskCalls(work.limit, 0)):
        show(source.folder.full_key(sample_index), value)
