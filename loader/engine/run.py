"""Run the tasks of a job on an engine: the only loop of all heavy commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from ..errors import ConfigError, WorkerError, plural
from .executor import run_in_executor
from .journal import Job, Journal, Journaled, NumberedTask
from .share import Share, command_with, divide, incomplete_shares, items_of
from .workers import MAX_DEATHS, WorkerOptions, gpu_environments, stream_from_workers, usable_cores

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(WorkerOptions):
    """The place in which the tasks of a job run: processes, an executor, or a share of a scheduler.

    A subclass is an engine of its own: it says in ``open`` which executor runs the tasks, and what that can do.

    Attributes:
        takes_address: True if ``open`` connects to a cluster at an address.
        interrupts_calls: True if a task runs in the main thread of its process, where a call can be interrupted.
        executor: Runs the tasks instead: of Ray, of Dask, or any other executor. Tasks are pickled.
        on_death: Called with the task whose process ended, and how it ended. It returns True if the next try differs,
            so that this one does not count.
        share: Only this share of the tasks runs, and results stay in the journal.
        merge: No task runs: the journal has the results of all shares.
        restart: Give up the results of an unfinished job; of a job in shares with the same options, only this share's.
        keeps_results: Take the results of an unfinished job with other options, such as another version of a function.
        merged: Journals whose results a merge has read; :meth:`discard_merged` removes them.
    """

    takes_address: ClassVar[bool] = False
    interrupts_calls: ClassVar[bool] = True

    executor: Executor | None = field(default=None, compare=False)
    on_death: Callable[[Any, str], bool | None] | None = field(default=None, compare=False)
    share: Share | None = None
    merge: bool = False
    restart: bool = False
    keeps_results: bool = False
    merged: list[Journal[Any]] = field(default_factory=list, init=False, compare=False, repr=False)

    @classmethod
    @contextmanager
    def open(cls, address: str | None, workers: int | None, gpus: float) -> Iterator[Engine]:  # noqa: ARG003
        """Start or connect to what runs the tasks, and yield the engine; leaving the block ends it.

        Args:
            address: Address of a cluster; None for a default.
            workers: Number of worker processes; None for one per core.
            gpus: GPUs of each worker; several workers share a GPU if it is a fraction.
        """
        environments = gpu_environments(gpus) if gpus else ()
        yield cls(workers=workers or len(environments) or usable_cores(), environments=environments)

    @property
    def sees_this_disk(self) -> bool:
        """True if tasks find what this process has in its working folder and in temporary files."""
        return self.executor is None

    @property
    def may_run_twice(self) -> bool:
        """True if a task may run twice, also at the same time: the executor itself repeats one that was lost."""
        return self.executor is not None

    @property
    def is_partial(self) -> bool:
        """True if the job runs in shares, whose results only a journal holds."""
        return self.share is not None or self.merge

    def discard_merged(self) -> None:
        """Remove the journals that were merged, once a command has used all results."""
        while self.merged:
            self.merged.pop().discard()

    def run(
        self, function: Callable[[Any], _Result], items: Sequence[Any]
    ) -> Generator[tuple[int, _Result], None, None]:
        """Yield the index of an item and ``function(item)``, in the order in which results arrive.

        The tasks begin when this returns; closing the generator ends them. An item whose process was killed is
        repeated.

        Args:
            function: Picklable function; the items are pickled, too.

        Raises:
            WorkerError: The processes of one item were killed three times.
            Exception: The function raised this error.
        """
        return self.stream(partial(_single_result, function), items)

    def stream(
        self,
        function: Callable[[Any], Generator[_Result, None, None]],
        items: Sequence[Any],
        *,
        is_last: Callable[[_Result], bool] | None = None,
    ) -> Generator[tuple[int, _Result], None, None]:
        """Yield the index of an item and each result of ``function(item)``, as :meth:`run` does.

        An executor gives the last result of each item alone.

        Args:
            is_last: Returns True for the last result of an item; None for functions with one.
        """
        if self.executor is None:
            results = self._repeated_after_deaths(function, items, is_last)
        else:
            last = partial(_last_result, function)
            results = run_in_executor(last, items, self.executor, self.is_stopped, self.on_death)
        next(results)  # run the generator up to its first yield, so that the tasks begin now and closing it ends them
        return results

    def _repeated_after_deaths(
        self, function: Callable[[Any], Any], items: Sequence[Any], is_last: Callable[[Any], bool] | None
    ) -> Generator[Any, None, None]:
        """Yield once when the tasks have begun, then results; items whose process was killed begin again."""
        remaining, deaths = list(range(len(items))), Counter[int]()
        has_begun = False
        while remaining or not has_begun:
            done = set()
            try:
                left = items if len(remaining) == len(items) else [items[task_index] for task_index in remaining]
                with closing(stream_from_workers(function, left, self)) as results:
                    if not has_begun:
                        has_begun = True
                        yield None
                    for index, result in results:
                        if is_last is None or is_last(result):
                            done.add(remaining[index])
                        yield remaining[index], result
            except WorkerError as error:
                if error.item is None:
                    raise
                item = remaining[error.item]
                deaths[item] += not (self.on_death is not None and self.on_death(items[item], error.how))
                if deaths[item] == MAX_DEATHS:
                    raise
            remaining = [task_index for task_index in remaining if task_index not in done]


def _single_result(function: Callable[[Any], _Result], item: Any) -> Generator[_Result, None, None]:
    """Yield ``function(item)``."""
    yield function(item)


def _last_result(function: Callable[[Any], Generator[_Result, None, None]], item: Any) -> _Result:
    """Return the last result of ``function(item)``."""
    *_, last = function(item)
    return last


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOnEngine:
    """A request whose tasks may run in worker processes, or on another engine.

    Attributes:
        workers: Number of worker processes; of another engine, ``engine`` says it.
        engine: Where the tasks run, and which share of them; None for ``workers`` processes.
    """

    workers: int = 1
    engine: Engine | None = None

    @property
    def runs_on(self) -> Engine:
        """The engine."""
        return self.engine or Engine(workers=self.workers)


class ShareDone(Exception):  # noqa: N818 - not an error: the rest of the command is for --merge
    """The tasks of a share are done, and their results in the journal.

    Attributes:
        share: The share.
        tasks: Number of its tasks.
        ran: Number of tasks that this run has computed; earlier ones have computed the others.
        at: Folder of the journal.
    """

    def __init__(self, share: Share, *, tasks: int, ran: int, at: str) -> None:
        super().__init__(f"share {share}: {plural(tasks, 'task')}")
        self.share = share
        self.tasks = tasks
        self.ran = ran
        self.at = at


@dataclass(slots=True)
class ShareEnds:
    """The ends of one share in several jobs of a command, such as lints of several datasets; raised as one.

    Args:
        engine: Engine of the jobs.
    """

    engine: Engine
    _done: list[ShareDone] = field(default_factory=list, init=False)

    def call(self, job: Callable[[], _Result]) -> _Result | None:
        """Return the result of a job; None in a share, whose results are for the merge."""
        try:
            result = job()
        except ShareDone as done:
            self._done.append(done)
            return None
        return result if self.engine.share is None else None

    def finish(self) -> None:
        """Raise the end of the share, with the tasks of all jobs."""
        if self.engine.share is not None:
            raise ShareDone(
                self.engine.share,
                tasks=sum(done.tasks for done in self._done),
                ran=sum(done.ran for done in self._done),
                at=", ".join(done.at for done in self._done),
            )


@dataclass(slots=True, kw_only=True)
class JobTasks(Generic[_Result]):
    """The tasks of a job, and where their results are stored.

    Args:
        function: Picklable function of a task; runs in workers.
        tasks: The tasks, a function of the request alone.
        sizes: Size of each task, in any unit: shares are dealt by it. Empty if all have the same.
        journal: Holds the results.
        command: Name of the command, for messages.
        request: All that the results depend on; see :class:`.Job`.
        receipt: Returns what this process needs of a result while tasks run; None for all of it.
        again: Returns True for the result of an earlier run whose task has to run again; None for none.

    Attributes:
        resumed: Number of tasks whose results earlier runs have stored.
    """

    function: Callable[[Any], _Result]
    tasks: Sequence[Any]
    sizes: Sequence[int] = ()
    journal: Journal[_Result]
    command: str
    request: dict[str, str]
    receipt: Callable[[_Result], _Result] | None = None
    again: Callable[[_Result], bool] | None = None
    resumed: int = field(default=0, init=False)

    def run(self, engine: Engine) -> Generator[tuple[int, _Result], None, None]:
        """Yield the number of a task and its result: first the stored results, then new ones as they arrive.

        Raises:
            ShareDone: The engine runs one share, and its tasks are done.
            ConfigError: The journal has results of another job, or tasks are missing that a merge needs.
            WorkerError: The processes of one task were killed three times.
        """
        # Describe the job; the first share divides the tasks, for all shares.
        share, total = engine.share, len(self.tasks)
        starts = divide(self.sizes or [1] * total, share.count) if share else ()
        job = Job(command=self.command, request=self.request, tasks=total, starts=starts)
        if engine.merge:
            job = merged_job(self.journal, job)
        else:
            job = self.journal.begin(job, restart=engine.restart, keeps_results=engine.keeps_results)
        wanted = range(total)
        if share is not None:
            wanted = items_of(share, job.starts, total)
        # Yield what earlier runs have stored.
        restarts = engine.restart and share is not None  # without shares, the journal has removed the results
        finished = set() if restarts else self.journal.finished()
        missing = []
        for task_index in wanted:
            result = self.journal.read(task_index) if task_index in finished else None
            if result is None or (self.again is not None and self.again(result)):
                missing.append(task_index)
                continue
            self.resumed += 1
            if share is None:
                yield task_index, result if self.receipt is None else self.receipt(result)
        if engine.merge and missing:
            raise missing_tasks(missing, job, at=self.journal.storage.path(self.journal.folder))
        if engine.merge:
            engine.merged.append(self.journal)
        # Compute the rest.
        numbered = [NumberedTask(task_index, self.tasks[task_index]) for task_index in missing]
        for index, result in engine.stream(Journaled(self.function, self.journal, self.receipt), numbered):
            yield missing[index], result
        if share is not None:
            raise ShareDone(
                share, tasks=len(wanted), ran=len(missing), at=self.journal.storage.path(self.journal.folder)
            )


def merged_job(journal: Journal[Any], job: Job) -> Job:
    """Return the job of the shares that a merge of ``job`` joins.

    Raises:
        ConfigError: No share has begun, or the shares had another request.
    """
    there, at = journal.job(), journal.storage.path(journal.folder)
    if there is None:
        raise ConfigError(
            "there are no shares to merge: none was started with these options, or they are merged",
            at=at,
            hint=f"run the shares first: {command_with('--share 1/8', command=f'{job.command} …')}, and so on, which"
            " must see this folder",
        )
    different = [name for name in there.differences(job) if name != "shares"]
    if different:
        raise ConfigError(
            f"the shares were run with another {', '.join(different)}{there.values(job)}",
            at=at,
            hint="merge with the options of the shares, or run them again with --restart",
        )
    journal.results = there.results
    return there


def missing_tasks(missing: Sequence[int], job: Job, *, at: str) -> ConfigError:
    """Return the error of a merge that names the shares without results.

    Args:
        missing: Numbers of the tasks without results.
        at: Where results are expected.
    """
    what = f"{len(missing):,} of {plural(job.tasks, 'task has', 'tasks have')} no result"
    if not job.starts:
        return ConfigError(what, at=at, hint="run the same command without --merge")
    command = partial(command_with, command=f"{job.command} …")
    return incomplete_shares(missing, job.starts, what=what, command=command, at=at)


def in_order(results: Iterable[tuple[int, _Result]]) -> Iterator[tuple[int, _Result]]:
    """Yield numbered results by their numbers, from 0; results that arrive early wait."""
    early: dict[int, _Result] = {}
    following = 0
    for task_index, result in results:
        early[task_index] = result
        while following in early:
            yield following, early.pop(following)
            following += 1
