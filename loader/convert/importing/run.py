"""Run an import: list the rows, divide them into shards, write these in workers, and commit the dataset."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from traceback import clear_frames

import msgspec

from ...arrays import IntArray
from ...engine import IncompleteError
from ...engine.journal import Job
from ...engine.run import Engine, ShareDone, missing_tasks
from ...engine.share import items_of
from ...errors import ConfigError, SampleError, plural
from ...format.nv_meta import FOLDER, INFO_JSON, REQUEST_JSON
from ...format.unfinished import (
    FAILED_RUN,
    IMPORT_FOLDER,
    continuing,
    left_files,
    left_sentence,
    remember_command,
    remember_failure,
    remove_left_files,
    remove_work_folder,
)
from ...prepare.plan import PreparePlan, PrepareReport, SplitRequest
from ...prepare.run import run_prepare
from ...storage import HubFolder, LocalStorage, Storage, is_hub_url, may_use_rust, open_storage
from ..rows.row import NO_SPLIT
from ..rows.shard_layout import PlannedShard, order_rows, plan_shards
from ..writing.hub_output import new_output_folder
from ..writing.new_folder import check_new_folder, check_not_written
from ..writing.new_output import check_outside, keep_shards
from ..writing.written_shards import FileVersion
from .failure_limit import FailureLimit
from .packed_shard import PackedShard, check_visible
from .plan import BeforeCommit, ImportPlan, ImportProgress, ListedRows, ProgressCallback, list_rows
from .report import DoneShard, FailedRow, ImportReport
from .shares import agree_on_shares, job_of_import, share_lock
from .write_shard import WriteShard, Written, contact_hosts

FAILURES_FILE = f"{FOLDER}/import_failures.jsonl"
"""The rows of an import that are not in the dataset, a line of JSON each."""

_LOCK = f"{IMPORT_FOLDER}/lock"
_OWN_SHARD = re.compile(r"shard_\d{6,}(_\d+)?\.tar")
_PARTIAL_SHARD = re.compile(r"\.(shard_\d{6,})(_\d+)?\.tar\b.*")
_MAX_SHOWN_FAILURES = 100


def run_import(
    plan: ImportPlan,
    *,
    listed: ListedRows | None = None,
    on_progress: ProgressCallback | None = None,
    before_commit: BeforeCommit | None = None,
) -> ImportReport:
    """Write the samples of sources as a prepared dataset.

    The same sources and settings make the same bytes, with any number of workers. After an interruption, even a kill,
    the next run with the same plan keeps the shards that are written.

    An engine may write one share of the shards. Every share lists the sources itself, and has to come to the list of
    the first share; a merge then commits the shards of all.

    Args:
        plan: The plan of the import.
        listed: The samples of its sources, if they are listed.
        on_progress: Called while rows are listed and shards written.
        before_commit: Called when all shards are written, to add files to the dataset before it appears.

    Raises:
        ConfigError: A setting is invalid, a source has no samples, or the output has other files.
        SampleError: More rows failed than the plan allows; the rest of the written shards stay for the next run.
        IncompleteError: The plan is strict, and a part of the sources is left out or failed.
        StorageError: A source cannot be listed, or the output cannot be written.
        WorkerError: The worker processes of one shard were killed three times.
        ShareDone: The engine writes one share, and its shards are written.
    """
    # What is for a repository is written to a folder of this machine, and published at the end.
    if is_hub_url(plan.output):
        sources = [source.path for source in plan.sources]
        with new_output_folder(plan.output, sources=sources, engine=plan.runs_on) as folder:
            plan = replace(plan, output=folder)
            return run_import(plan, listed=listed, on_progress=on_progress, before_commit=before_commit)
    # Check the plan and the output before anything is listed.
    started = time.perf_counter()
    engine = plan.runs_on
    plan.layout.check()
    storage = open_storage(plan.output)
    check_output(plan.output, sources=[source.path for source in plan.sources], command=plan.command)
    with _locked(storage, engine), _leaving_no_files(storage, engine) as leftovers, ExitStack() as stack:
        # List the rows, and refuse what the plan does not allow.
        if listed is None:
            listed = stack.enter_context(_listed(plan, on_progress))
        if plan.strict:
            listed.account.check_complete(at=storage.path(""))
        job = job_of_import(plan, listed.rows)
        limit = FailureLimit(len(listed.rows), plan.max_failures, storage.path(""), plan.command)
        limits = {"limit of failures": f"{limit.allowed:g}", "strict": str(plan.strict), "compat": str(plan.compat)}
        done = msgspec.structs.replace(job, request={**job.request, **limits})
        check_not_written(storage, IMPORT_FOLDER, done)
        plan = replace(plan, files={**plan.files, REQUEST_JSON: msgspec.json.encode(done).decode()})
        contact_hosts(listed, plan.downloads, limit)
        # Write the shards, then what the caller adds, and commit.
        run = _Run(plan, job, storage, listed, limit, on_progress=on_progress)
        if leftovers.shards is not None:
            leftovers.shards = run.own_shards()
            leftovers.remove()
        run.write(leftovers)
        result: ShareDone | ImportReport | None = run.share_done()
        if result is None:
            if before_commit is not None:
                before_commit(storage, *run.written_rows())
            prepared = run.commit()
            result = run.report(prepared, time.perf_counter() - started)
    if isinstance(result, ShareDone):
        raise result
    remove_work_folder(storage, IMPORT_FOLDER)
    return result


@contextmanager
def _locked(storage: Storage, engine: Engine) -> Iterator[None]:
    """Hold the folder alone; the shares of one import hold it together, but each share runs once at a time."""
    with storage.lock(_LOCK, shared=engine.share is not None), ExitStack() as stack:
        if engine.share is not None:
            stack.enter_context(storage.lock(share_lock(engine.share.number)))
        yield


@dataclass(slots=True)
class _Leftovers:
    """Unfinished files of killed processes.

    Attributes:
        shards: The shards whose files are meant, since other shares may be at work; None for all.
    """

    storage: Storage
    shards: frozenset[str] | None

    def remove(self) -> None:
        if self.shards is None:
            remove_left_files(self.storage, of_running=True)
            return
        for name in left_files(self.storage):
            match = _PARTIAL_SHARD.fullmatch(name.rpartition("/")[2])
            if match and f"{match[1]}.tar" in self.shards:
                self.storage.remove(name)


@contextmanager
def _leaving_no_files(storage: Storage, engine: Engine) -> Iterator[_Leftovers]:
    """Remove unfinished files of a killed run, and of this one if it ends by an error; Ctrl-C names what is left."""
    is_shared = engine.share is not None
    leftovers = _Leftovers(storage, frozenset() if is_shared else None)
    leftovers.remove()
    storage.remove(FAILED_RUN)
    if isinstance(storage, LocalStorage) and not is_shared:
        remember_command(storage.path(IMPORT_FOLDER))
    try:
        yield leftovers
    except BaseException as error:
        # Workers end when their generator is closed, which the frames of an interrupted call still hold.
        clear_frames(error.__traceback__)
        leftovers.remove()
        if not is_shared and storage.exists(INFO_JSON):  # the dataset of an earlier run
            remove_work_folder(storage, IMPORT_FOLDER)
        elif isinstance(error, KeyboardInterrupt):
            left = "the shards that are written stay" if is_shared else left_sentence(storage)
            how = "to continue, run the same command again" if is_shared else continuing(storage)
            error.add_note(f"{storage.path('')}: {left}; {how}")
        elif isinstance(error, SampleError | IncompleteError):
            remember_failure(storage, error)
        raise


def write_failures(storage: Storage, failures: Sequence[FailedRow]) -> None:
    """Write the list of failed rows; if no row failed, remove the list of an earlier run."""
    storage.remove(FAILURES_FILE)
    if failures:
        with storage.create(FAILURES_FILE) as file:
            file.writelines(msgspec.json.encode(failure.to_document()) + b"\n" for failure in failures)


def _listed(plan: ImportPlan, on_progress: ProgressCallback | None) -> AbstractContextManager[ListedRows]:
    def report(samples: int) -> None:
        if on_progress is not None:
            on_progress(ImportProgress(phase="list", samples=samples))

    return list_rows(plan.sources, shuffled=plan.layout.shuffle_seed is not None, on_progress=report)


def check_output(output: str, *, sources: Sequence[str] = (), command: str = "import") -> None:
    """Check that a folder is new or empty, or belongs to an import, which may be this one.

    Args:
        command: The command of the import.
        sources: Paths of the sources of the import, which must not contain it.

    Raises:
        ConfigError: It has other files, is a dataset that no import has written, or is inside of a source.
        StorageError: It is a file.
    """
    check_outside(output, sources)
    if is_hub_url(output):
        with HubFolder(output):
            return
    storage = open_storage(output)
    if storage.exists(IMPORT_FOLDER):
        return
    try:
        hint = "name a new folder; energon merge joins datasets"
        check_new_folder(storage, IMPORT_FOLDER, hint=hint, command=command)
    except ConfigError:
        if not storage.exists(IMPORT_FOLDER):  # another share has begun meanwhile
            raise


class _Run:
    def __init__(
        self,
        plan: ImportPlan,
        job: Job,
        storage: Storage,
        listed: ListedRows,
        limit: FailureLimit,
        *,
        on_progress: ProgressCallback | None,
    ) -> None:
        self._plan = plan
        self._engine = engine = plan.runs_on
        self._storage = storage
        self._rows = rows = listed.rows
        self._account = listed.account.copy()
        self._on_progress = on_progress
        self._limit = limit
        self._order, parts = order_rows(rows.splits, rows.split_names, plan.layout, rows.groups)
        self._shards = plan_shards(rows.sizes[self._order], parts, plan.layout)
        self._split_names = [name for name, _, _ in parts]
        self._job = None
        if engine.is_partial:
            self._job = agree_on_shares(storage, job, engine, rows=rows, order=self._order, shards=self._shards)
        # A share has a range of the shards.
        self._own = range(len(self._shards))
        if self._job is not None and engine.share is not None:
            self._own = items_of(engine.share, self._job.starts, len(self._shards))
        self._done: dict[int, DoneShard] = {}
        self._missing: list[int] = []
        self._progress = ImportProgress(
            phase="write",
            samples=0,
            samples_total=sum(shard.stop - shard.start for shard in self._shards[self._own.start : self._own.stop]),
            shards_total=len(self._own),
        )
        self._running: dict[int, Written] = {}  # the progress of shards that have not ended
        self._failed = 0

    def own_shards(self) -> frozenset[str]:
        """Return the names of the planned shards that this run writes."""
        return frozenset(self._shards[index].name for index in self._own)

    def write(self, leftovers: _Leftovers) -> None:
        """Write the shards; for a merge, check that they are written.

        Args:
            leftovers: Removes what a killed worker has left.
        """
        # The order travels once, as an array, and not in the plan, too.
        plan = replace(self._plan, engine=None, layout=replace(self._plan.layout, order=None))
        write = WriteShard(
            storage=self._storage,
            plan=plan,
            rows=self._rows,
            order=self._order,
            only_checks=self._engine.merge,
        )
        # Follow the workers, and put their records in the order of the shards.
        self._report()
        with closing(self._results(write, [self._shards[index] for index in self._own], leftovers)) as results:
            for position, written in results:
                self._add(self._own[position], written)
        if self._missing and self._job is not None:
            raise missing_tasks(sorted(self._missing), self._job, at=self._storage.path(""))
        self._done = dict(sorted(self._done.items()))

    def _results(
        self, write: WriteShard, shards: Sequence[PlannedShard], leftovers: _Leftovers
    ) -> Generator[tuple[int, Written], None, None]:
        """Write shards; one whose process was killed begins again."""
        if self._engine.executor is not None:
            if not self._engine.sees_this_disk:
                check_visible(self._rows, write.plan.sources)
            return self._engine.stream(PackedShard.steps, [PackedShard(write, shard) for shard in shards])

        def begin_again(*_: object) -> None:
            leftovers.remove()
            self._running.clear()

        # A single worker runs in this process, unless that may not use the client of the object store.
        apart = not (isinstance(self._storage, LocalStorage) or may_use_rust())
        workers = min(self._engine.workers, len(shards))
        engine = replace(self._engine, workers=workers, apart=apart, on_death=begin_again)
        return engine.stream(write, shards, is_last=attrgetter("is_last"))

    def _add(self, index: int, written: Written) -> None:
        self._running[index] = written
        if written.is_last:
            del self._running[index]
            self._progress = replace(
                self._progress,
                samples=self._progress.samples + written.samples,
                size_bytes=self._progress.size_bytes + written.size_bytes,
                shards_done=self._progress.shards_done + (written.done is not None),
                resumed=self._progress.resumed + written.is_resumed,
            )
        if written.is_missing:
            self._missing.append(index)
        if written.done is not None:
            self._finish(index, written.done)
        self._report()

    def share_done(self) -> ShareDone | None:
        """Return what ends the run of a share; None for a run that commits."""
        if self._engine.share is None:
            return None
        ran = len(self._own) - self._progress.resumed
        at = self._storage.path(IMPORT_FOLDER)
        return ShareDone(self._engine.share, tasks=len(self._own), ran=ran, at=at)

    def _finish(self, index: int, done: DoneShard) -> None:
        self._done[index] = done
        self._failed += len(done.failures)
        first = next((failure for shard in self._done.values() for failure in shard.failures), None)
        if first is not None:
            self._limit.check(self._failed, example=first.example, is_end=len(self._done) == len(self._shards))

    def _report(self) -> None:
        if self._on_progress is not None:
            samples = self._progress.samples + sum(shard.samples for shard in self._running.values())
            size_bytes = self._progress.size_bytes + sum(shard.size_bytes for shard in self._running.values())
            self._on_progress(replace(self._progress, samples=samples, size_bytes=size_bytes))

    def written_rows(self) -> tuple[IntArray, list[tuple[FileVersion, int]]]:
        if self._failed:  # it is unknown which samples the shards have
            raise SampleError(f"{plural(self._failed, 'sample')} failed", at=self._storage.path(""))
        done = self._done.values()
        return self._order, [file for shard in done for file in zip(shard.files, shard.samples, strict=True)]

    def commit(self) -> PrepareReport:
        """Prepare the dataset from the indexes of the shards, which are known."""
        # Write the list of failed rows; without any sample there is no dataset.
        failures = self._failures
        write_failures(self._storage, failures)
        if not any(done.files for done in self._done.values()):
            first = failures[0]
            raise SampleError(
                f"all {plural(len(failures), 'sample')} failed. First: {first.origin}: {first.reason}",
                at=self._storage.path(""),
                hint=f"{self._storage.path(FAILURES_FILE)} lists them",
            )
        # Withdraw the failed rows from the account, which then must agree.
        self._account.take("bytes", sum(done.read_bytes for done in self._done.values()))
        for failure in failures:
            self._account.withdraw("rows", failure.code, failure.origin)
            self._account.withdraw(
                "parts", failure.code, failure.origin, count=failure.parts, size_bytes=failure.size_bytes
            )
        self._account.check()
        if self._plan.strict:
            self._account.check_complete(at=self._storage.path(""))
        names = [name for done in self._done.values() for name, _, _ in done.files]
        # Remove the shards that an interrupted import with other settings has written.
        keep_shards(
            self._storage,
            names,
            _OWN_SHARD,
            fault="appeared while shards were written",
            hint="move it away, and run the same command again",
        )
        # The indexes of the shards are stored, so that no shard is scanned.
        prepare = PreparePlan(
            path=self._plan.output,
            workers=self._engine.workers,
            split=SplitRequest(parts={part: tuple(names) for part, names in self._split_parts().items()}),
            files=self._plan.files,
            compat=self._plan.compat,
        )
        return run_prepare(prepare)

    @property
    def _failures(self) -> list[FailedRow]:
        return [failure for done in self._done.values() for failure in done.failures]

    def _split_parts(self) -> dict[str, list[str]]:
        parts: dict[str, list[str]] = {name or "train": [] for name in self._split_names if name != NO_SPLIT}
        for index, shard in enumerate(self._shards):
            if shard.split != NO_SPLIT:
                parts[shard.split or "train"] += [name for name, _, _ in self._done[index].files]
        return parts

    def report(self, prepared: PrepareReport, seconds: float) -> ImportReport:
        failures = self._failures
        return ImportReport(
            prepared=prepared,
            failures=tuple(failures[:_MAX_SHOWN_FAILURES]),
            failed=len(failures),
            failures_file=self._storage.path(FAILURES_FILE) if failures else None,
            renamed=len(self._rows.renamed),
            written=self._progress.shards_done - self._progress.resumed,
            resumed=self._progress.resumed,
            size_bytes=prepared.size_bytes,
            seconds=seconds,
            account=self._account,
            changed=sum((Counter(done.changed) for done in self._done.values()), Counter()),
            first_changed=dict(item for done in reversed(self._done.values()) for item in done.first_changed.items()),
        )
