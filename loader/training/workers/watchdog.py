"""Detect a wait for a micro-batch that takes too long, log it, and end it on request.

A daemon thread checks the wait in progress. It logs one warning per wait, with the worker's last sample and its stack.
With ``fail`` it also kills the worker, so that torch's DataLoader ends the wait. If the main thread still waits then, a
signal ends the wait; as for Ctrl-C, its handler runs in the main thread itself.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, TypeVar

from ...errors import ConfigError, WorkerError
from ...escaped_log import get_logger
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.lane import Lane
from ...pipeline.contract.pass_through import PassThroughDataset
from ...pipeline.contract.stage import Running, SavableDataset, State
from ...pipeline.contract.worker_config import WorkerConfig
from .dead_worker import describe_last_sample, name_worker
from .worker_board import WATCHDOG_SIGNAL, WorkerBoard
from .worker_errors import describe_stack

_log = get_logger(__name__)

T = TypeVar("T")

_GRACE_S = 10.0
"""The longest wait for a worker after it was killed."""

_PROGRESS_S = 0.5
"""Between two looks at the progress of a worker."""

_STACK_S = 1.0
"""The longest wait for the stack of a worker that is to be replaced."""


class Watchdog:
    """Report a wait for a micro-batch that takes too long: once, with the worker's last sample and its stack.

    The thread wakes up once per timeout; a wait costs about 1 µs. Waits do not overlap, and all are in one thread.

    Args:
        timeout_s: The limit of a wait; None: no limit.
        initial_timeout_s: The limit for the first micro-batch of each worker; None: no limit.
        fail: Raise a :class:`~loader.errors.WorkerError`, and kill the worker; otherwise only log a warning. Outside
            the main thread, a wait for the own process is not interrupted: it raises the error when it ends.
        describe: Names the last sample of a worker; by default lane and position do.
        on_timeout: Called in the watchdog's thread, after the report of a wait.
        replace_after_s: Kill a worker process that is waited for if it makes no progress for so long, so that the
            loader replaces it: it begins no sample. None: never.

    >>> watchdog = Watchdog(60, None, board=WorkerBoard(1))
    >>> with watchdog.waiting(0):
    ...     pass
    >>> watchdog.close()
    """

    def __init__(
        self,
        timeout_s: float | None,
        initial_timeout_s: float | None,
        *,
        fail: bool = False,
        board: WorkerBoard,
        describe: Callable[[int], str] | None = None,
        on_timeout: Callable[[], None] = lambda: None,
        replace_after_s: float | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._initial_timeout_s = initial_timeout_s
        self._fail = fail
        self._board = board
        # The method's object usually owns the watchdog. A cycle of references would leave both to the garbage
        # collector, which may run in a forked process; the workers of this process are no children of that one.
        self._describe = weakref.WeakMethod(describe) if inspect.ismethod(describe) else lambda: describe
        self._on_timeout = on_timeout
        self._replace_after_s = replace_after_s
        self._progress: tuple[Any, ...] | None = None
        self._progress_at = 0.0
        self._causes: dict[int, WorkerError] = {}  # of the ends of workers that were killed to be replaced
        interval_s = None if replace_after_s is None else min(_PROGRESS_S, replace_after_s / 4)
        limits = timeout_s, initial_timeout_s, interval_s
        self._shortest_s = min((limit for limit in limits if limit is not None), default=None)
        self._served: set[int] = set()  # workers that have delivered a micro-batch
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._handler: _SignalHandler | None = None
        self._waiting_thread = 0
        # The wait in progress; written by the thread that waits, read by the watchdog's thread.
        self._worker = 0
        self._limit_s: float | None = None
        self._since: float | None = None
        self._number = 0
        # Written by the watchdog's thread.
        self._reported = 0
        self._error: WorkerError | None = None
        self._error_of: int | None = None  # the only wait that may raise the error; None: any, the worker is dead

    def waiting(self, worker: int = 0) -> Watchdog:
        """Return the context manager of one wait for a micro-batch of ``worker``.

        It raises a ``WorkerError`` on exit if the watchdog gave up the wait, whatever its body raised.
        """
        self._worker = worker
        self._limit_s = self._timeout_s if worker in self._served else self._initial_timeout_s
        return self

    def close(self) -> None:
        self._closed.set()

    def __enter__(self) -> None:
        # Start the thread at the first wait, after the workers were forked: a fork copies the locks of other threads.
        if self._thread is None and self._shortest_s is not None:
            self._waiting_thread = threading.get_ident()
            if self._fail and threading.current_thread() is threading.main_thread():
                self._handler = _install_handler()
            weakref.finalize(self, self._closed.set)
            target = (weakref.ref(self), self._closed)
            self._thread = threading.Thread(target=_watch, args=target, name="loader watchdog", daemon=True)
            self._thread.start()
        self._number += 1
        self._since = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._since = None
        if self._error is not None and kind is not KeyboardInterrupt:
            given_up, self._error = self._error, None
            if self._error_of in (None, self._number):
                raise given_up from None
        if kind is None:
            self._served.add(self._worker)

    def check(self) -> float:
        """Report the wait in progress if it is overdue; return the seconds until the next check."""
        shortest_s = self._shortest_s or 0.0
        wait, since, limit_s = self._number, self._since, self._limit_s
        if since is not None and self._replace_after_s is not None:
            self._check_progress(wait, since, self._replace_after_s)
        if since is None or limit_s is None or wait == self._reported:
            return shortest_s
        left_s = since + limit_s - time.monotonic()
        if left_s > 0:
            return min(left_s, shortest_s)
        self._reported = wait
        self._report(wait, limit_s)
        return shortest_s

    def cause_of(self, worker: int) -> WorkerError | None:
        return self._causes.pop(worker, None)

    def _check_progress(self, wait: int, since: float, limit_s: float) -> None:
        """Kill the worker that is waited for if it has begun no sample for too long."""
        worker = self._worker
        # Only another process can be killed.
        pid = self._board.cells[worker].pid
        if pid in (0, os.getpid()):
            return
        # Remember when the worker last began a sample.
        progress = wait, worker, pid, self._board.progress(worker)
        if progress != self._progress:
            is_new_wait = self._progress is None or progress[:3] != self._progress[:3]
            self._progress, self._progress_at = progress, since if is_new_wait else time.monotonic()
        if time.monotonic() < self._progress_at + limit_s:
            return
        # Take its stack before it is killed.
        error = WorkerError(
            f"{self._name(worker)} began no sample for {limit_s:g} s",
            at=describe_last_sample(self._board, worker, self._describe()),
            hint="see the stack for the call that hangs; if a sample may take longer, raise worker_timeout_s",
        )
        error.add_note(describe_stack(self._board, worker, wait_s=_STACK_S))
        # It may have begun a sample meanwhile.
        if self._is_waiting(wait) and progress[3] == self._board.progress(worker):
            self._causes[worker] = error
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._progress_at = time.monotonic()

    def _report(self, wait: int, limit_s: float) -> None:
        # Collect what the worker does; the wait may end meanwhile.
        worker = self._worker
        name = self._name(worker)
        message = f"{name} has made no micro-batch for {limit_s:g} s"
        at = describe_last_sample(self._board, worker, self._describe())
        stack = describe_stack(self._board, worker, thread=self._waiting_thread)
        if not self._is_waiting(wait):
            return
        _log.warning("%s\n  at: %s\n%s", message, at, stack)
        self._on_timeout()
        if self._fail:
            hint = "see the stack for the call that hangs; if a micro-batch may take longer, raise the timeout"
            error = WorkerError(message, at=at, hint=hint)
            error.add_note(stack)
            self._give_up(wait, worker, error)

    def _give_up(self, wait: int, worker: int, error: WorkerError) -> None:
        pid = self._board.cells[worker].pid
        if pid not in (0, os.getpid()):
            self._error, self._error_of = error, None
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + _GRACE_S
            while self._is_waiting(wait) and time.monotonic() < deadline:
                time.sleep(0.05)
        if self._is_waiting(wait):
            # The wait may end before these lines; the number keeps the error out of the next wait.
            if self._error is not error:
                self._error_of = wait
                self._error = error
            if self._handler is not None:
                self._handler.interrupt(self._waiting_thread, lambda: self._is_waiting(wait))

    def _name(self, worker: int) -> str:
        cells = self._board.cells[worker]
        return f"worker thread {worker}" if cells.thread else name_worker(worker, cells.pid or None)

    def _is_waiting(self, wait: int) -> bool:
        return self._number == wait and self._since is not None


def _watch(reference: weakref.ref[Watchdog], closed: threading.Event) -> None:
    """Check a watchdog's wait until the watchdog is closed or freed."""
    pause_s = 0.0
    while not closed.wait(pause_s):
        watchdog = reference()
        if watchdog is None:
            return
        pause_s = watchdog.check()
        del watchdog  # the reference would keep it alive during the next pause


class _Interrupt(BaseException):
    """Ends a wait. It is no ``Exception``, since a hook or its failure handling would catch that."""


class _SignalHandler:
    """The process's handler of the signal. All watchdogs share it; it stays installed, since the default is to exit."""

    def __init__(self) -> None:
        self._is_wanted: Callable[[], bool] | None = None

    def interrupt(self, thread: int, is_wanted: Callable[[], bool]) -> None:
        """Wake up the main thread, also from ``time.sleep`` and system calls, and raise there if still wanted."""
        self._is_wanted = is_wanted
        signal.pthread_kill(thread, WATCHDOG_SIGNAL)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        is_wanted, self._is_wanted = self._is_wanted, None
        if is_wanted is not None and is_wanted():
            raise _Interrupt


def _install_handler() -> _SignalHandler:
    handler = signal.getsignal(WATCHDOG_SIGNAL)
    if not isinstance(handler, _SignalHandler):
        handler = _SignalHandler()
        signal.signal(WATCHDOG_SIGNAL, handler)
    return handler


class WatchdogDataset(PassThroughDataset[T]):
    """Report an item that takes too long: once, with the stack.

    A loader watches whole micro-batches without this stage. The stage finds the part of a chain that hangs.

    Args:
        dataset: The source of the items.
        worker_config: By default the dataset's.
        timeout_seconds: The limit for an item; None: no limit.
        initial_timeout_seconds: The limit for the first item of each process; None: no limit.
        fail_on_timeout: Raise a :class:`~loader.errors.WorkerError` on a timeout. Outside the main thread it is raised
            when the item arrives.

    Raises:
        ConfigError: A timeout is not above 0.

    >>> photos = get_dataset_from_config("photos", split_part="train", training=False).build()
    >>> watched = WatchdogDataset(photos, timeout_seconds=30)
    >>> [sample.caption for sample in get_loader(watched)]
    ['a cat', 'a dog', 'two cats', 'a bird']
    """

    def __init__(
        self,
        dataset: SavableDataset[T],
        worker_config: WorkerConfig | None = None,
        timeout_seconds: float | None = 60,
        initial_timeout_seconds: float | None = None,
        fail_on_timeout: bool = False,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="watchdog")
        for name, limit in (("timeout", timeout_seconds), ("initial_timeout", initial_timeout_seconds)):
            if limit is not None and limit <= 0:
                raise ConfigError(f"expected {name}_seconds above 0, or None, found {limit:g}")
        self.timeout_seconds = timeout_seconds
        self.initial_timeout_seconds = initial_timeout_seconds
        self.fail_on_timeout = fail_on_timeout
        self._watchdogs: dict[int, tuple[Watchdog, WorkerBoard]] = {}  # by process: a fork copies the parent's

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watchdogs": {}}

    def settings(self) -> dict[str, Any]:
        return {"timeout_seconds": self.timeout_seconds}

    def watchdog(self) -> tuple[Watchdog, WorkerBoard]:
        running = self._watchdogs.get(os.getpid())
        if running is None:
            board, reference = WorkerBoard(1), weakref.ref(self)  # without a cycle, see `Watchdog`

            def trigger() -> None:
                if (dataset := reference()) is not None:
                    dataset._watchdog_trigger()  # noqa: SLF001 - the same class

            limits = self.timeout_seconds, self.initial_timeout_seconds
            watchdog = Watchdog(*limits, fail=self.fail_on_timeout, board=board, on_timeout=trigger)
            running = self._watchdogs[os.getpid()] = watchdog, board
        return running

    def _watchdog_trigger(self) -> None:
        """Called in the watchdog's thread, once for each item that took too long, after its report."""

    def open(self, lane: Lane, state: State) -> Running:
        return _WatchdogRunning(self, lane, state)


class _WatchdogRunning:
    def __init__(self, definition: WatchdogDataset[Any], lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._watchdog, board = definition.watchdog()
        self._slot = board.slot(0)
        self._lane = lane.number
        self._count = 0

    def next(self) -> tuple[Any, ItemId]:
        self._slot.note(self._lane, self._count)
        with self._watchdog.waiting():
            item = self._upstream.next()
        self._count += 1
        return item

    def state(self) -> State:
        return self._upstream.state()

    def load(self, item_id: ItemId) -> Any:
        return self._upstream.load(item_id)
