"""Notice a wait for a micro-batch that lasts too long, report it, and end it if that is wanted."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from ...errors import WorkerError
from .reports import last_sample_of, stack_of, worker_name
from .thread_interrupt import ThreadInterrupt
from .worker_board import LastSampleBoard

__all__ = ["Watchdog"]

_log = logging.getLogger(__name__)

_GRACE_S = 10.0
"""How long the wait for a worker may go on after it was killed; torch looks for dead workers every 5 s."""


class Watchdog:
    """Report a wait for a micro-batch that lasts too long: once, with the worker's last sample and its stack.

    A thread looks after it, which sleeps but for a moment per timeout; a wait costs about 1 µs. Only one wait is
    on at a time, and all are those of one thread.

    Args:
        timeout_s: How long a wait may last; None for ever.
        initial_timeout_s: The same for the first micro-batch of each worker.
        fail: End the wait with a :class:`~loader.errors.WorkerError`, and kill the worker; otherwise only log it.
        board: Where the workers note what they do.
        describe: Says which sample a worker began last, in place of lane and position.

    >>> from loader.training.workers.worker_board import LastSampleBoard
    >>> watchdog = Watchdog(60, None, board=LastSampleBoard(1))
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
        board: LastSampleBoard,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._initial_timeout_s = initial_timeout_s
        self._fail = fail
        self._board = board
        # Whose method it is most likely holds the watchdog. Neither may wait for the other to be collected as garbage:
        # that might happen in a forked process, for which the workers of this one are no children.
        self._describe = weakref.WeakMethod(describe) if inspect.ismethod(describe) else lambda: describe
        self._shortest_s = min((limit for limit in (timeout_s, initial_timeout_s) if limit is not None), default=None)
        self._served: set[int] = set()  # workers that have given a micro-batch
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._interrupt: ThreadInterrupt | None = None
        self._waiting_thread = 0
        # Of the wait that is on; written by the thread that waits, read by ours.
        self._worker = 0
        self._limit_s: float | None = None
        self._since: float | None = None
        self._number = 0
        # Written by ours.
        self._reported = 0
        self._error: WorkerError | None = None

    def waiting(self, worker: int = 0) -> Watchdog:
        """Give the context manager of one wait for a micro-batch of ``worker``.

        On leaving it raises a ``WorkerError`` where the wait was given up, whatever its body raised.
        """
        self._worker = worker
        self._limit_s = self._timeout_s if worker in self._served else self._initial_timeout_s
        return self

    def close(self) -> None:
        """End the thread; what is waited for from now on is not watched."""
        self._closed.set()

    def __enter__(self) -> None:
        if self._thread is None and self._shortest_s is not None:
            self._start()
        self._number += 1
        self._since = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._since = None
        if self._error is not None and kind is not KeyboardInterrupt:
            given_up, self._error = self._error, None
            raise given_up from None
        if kind is None:
            self._served.add(self._worker)

    def _start(self) -> None:
        # Only now, for the workers have been forked: a fork copies the locks that other threads hold.
        self._waiting_thread = threading.get_ident()
        self._interrupt = ThreadInterrupt() if self._fail else None
        weakref.finalize(self, self._closed.set)
        target = (weakref.ref(self), self._closed)
        self._thread = threading.Thread(target=_watch, args=target, name="loader watchdog", daemon=True)
        self._thread.start()

    def look(self) -> float:
        """Report the wait that is on, if it is overdue; return the seconds until another can be."""
        shortest_s = self._shortest_s or 0.0
        number, since, limit_s = self._number, self._since, self._limit_s
        if since is None or limit_s is None or number == self._reported:
            return shortest_s
        left_s = since + limit_s - time.monotonic()
        if left_s > 0:
            return min(left_s, shortest_s)
        self._reported = number
        self._report(number, limit_s)
        return shortest_s

    def _report(self, number: int, limit_s: float) -> None:
        worker = self._worker
        name = worker_name(worker, self._board.pid(worker))
        found = f"{name} has made no micro-batch for {limit_s:g} s"
        at = last_sample_of(self._board, worker, self._describe())
        stack = stack_of(self._board, worker, thread=self._waiting_thread)
        if not self._is_on(number):
            return
        _log.warning("%s\n  at: %s\n%s", found, at, stack)
        if self._fail:
            hint = (
                "see the stack for what it is doing; where a micro-batch may take longer, raise the watchdog's timeout"
            )
            error = WorkerError(found, at=at, hint=hint)
            error.add_note(stack)
            self._give_up(number, worker, error)

    def _give_up(self, number: int, worker: int, error: WorkerError) -> None:
        def wanted() -> bool:
            if self._is_on(number):
                self._error = error
            return self._error is error

        pid = self._board.pid(worker)
        if pid is not None and pid != os.getpid():
            self._error = error
            _kill(pid)
            deadline = time.monotonic() + _GRACE_S
            while self._is_on(number) and time.monotonic() < deadline:
                time.sleep(0.05)
        if self._interrupt is not None and self._is_on(number):
            self._interrupt.send(wanted)

    def _is_on(self, number: int) -> bool:
        return self._number == number and self._since is not None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _watch(reference: weakref.ref[Watchdog], closed: threading.Event) -> None:
    """Look after a watchdog until it is closed, or nobody has it any more."""
    pause_s = 0.0
    while not closed.wait(pause_s):
        watchdog = reference()
        if watchdog is None:
            return
        pause_s = watchdog.look()
        del watchdog  # lest it live because of us
