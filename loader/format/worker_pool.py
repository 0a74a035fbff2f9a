"""Run a function over many items in worker processes, taking results as they come.

What the standard library's pools lack: a worker that is killed is named together with what it was at, leaving the
loop ends every worker at once, and workers end when this process is killed, however that happens.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, TypeVar

from ..errors import WorkerError

__all__ = ["run_in_workers"]

_AHEAD = 4
"""Items that a worker is given at a time, so that it need not wait while this process is busy."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_in_workers(
    function: Callable[[_Item], _Result], items: Sequence[_Item], *, workers: int
) -> Generator[tuple[int, _Result], None, None]:
    """Yield the index of an item and ``function(item)``, in the order in which the results come.

    The workers are at work when this returns; closing the generator ends them.

    Args:
        function: Picklable; it runs in the workers, in order of the items as workers get free.
        items: Picklable.
        workers: Number of processes, as many as there are items at most; with one, all runs in this process.

    Raises:
        WorkerError: A worker was killed; the message names the item it was at.
        Exception: What the function raised.
    """
    if workers <= 1 or not items:
        return _run_here(function, items)
    results = _run_there(function, items, min(workers, len(items)))
    next(results)  # a generator that has not started would start no worker, and close none
    return results


def _run_here(
    function: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Generator[tuple[int, _Result], None, None]:
    for number, item in enumerate(items):
        yield number, function(item)


def _run_there(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> Generator[Any, None, None]:
    """Yield once when the workers are at work, then the results."""
    pool = _Pool(function, workers)
    try:
        left = pool.start(items)
        yield None
        yield from pool.results(left)
    finally:
        pool.close()


class _Pool:
    def __init__(self, function: Callable[[Any], Any], workers: int) -> None:
        # Forking starts at once, but copies the locks that other threads hold; torch has threads that Python knows
        # nothing of.
        forks = threading.active_count() == 1 and "torch" not in sys.modules
        context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
        if not forks:
            resource_tracker.ensure_running()  # the first spawn does that, and lets interrupts through again
        self._processes: dict[Connection, BaseProcess] = {}
        self._given: dict[Connection, deque[tuple[int, Any]]] = {}  # what each worker has not answered
        for _ in range(workers):
            ours, theirs = context.Pipe()
            # A forked worker has copies of the ends that belong to us; it must close them to see us die.
            inherited = [*self._processes, ours] if forks else []
            process: BaseProcess = context.Process(target=_serve, args=(function, theirs, inherited), daemon=True)
            with _interrupts_held_back(), _main_module_hidden():
                process.start()
            theirs.close()
            self._processes[ours] = process

    def start(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Give each worker something to do; give back what is left to do."""
        left = iter(enumerate(items))
        for connection in [*self._processes] * _AHEAD:
            self._give(connection, left)
        return left

    def results(self, left: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield results, and hand out what is left."""
        while busy := [connection for connection, given in self._given.items() if given]:
            ready = set(wait(busy))
            for connection in busy:
                if connection not in ready:
                    continue
                try:
                    error, result = connection.recv()
                except (EOFError, OSError):  # a kill in the middle of an answer is an OSError
                    raise self._death(connection) from None
                if error is not None:
                    raise error
                number, _ = self._given[connection].popleft()
                self._give(connection, left)
                yield number, result

    def _give(self, connection: Connection, left: Iterator[tuple[int, Any]]) -> None:
        for number, item in left:
            self._given.setdefault(connection, deque()).append((number, item))
            try:
                connection.send(item)
            except OSError:
                raise self._death(connection) from None
            return

    def _death(self, connection: Connection) -> WorkerError:
        _, item = self._given[connection][0]
        process = self._processes[connection]
        process.join(timeout=5)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return WorkerError(
            f"a worker process {how} while it worked on {getattr(item, 'name', item)}",
            do="a kill (signal 9) often means that memory ran out: try fewer workers; the run resumes where it stopped",
        )

    def close(self) -> None:
        for connection, process in self._processes.items():
            if self._given.get(connection):
                process.terminate()
            connection.close()  # an idle worker reads the end of the stream and leaves
        for process in self._processes.values():
            process.join()


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep a spawned process from running the caller's script once more: nothing that it is given lies there.

    A script need not stand behind ``if __name__ == "__main__"`` then to prepare a dataset.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Keep Ctrl-C from a worker that is starting, which would print a traceback of its own."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield  # a new process inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(function: Callable[[Any], Any], connection: Connection, inherited: list[Connection]) -> None:
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):  # the parent is done, or was killed with answers unread
            return
        answer: tuple[Exception | None, Any]
        try:
            answer = (None, function(item))
        except Exception as error:  # noqa: BLE001 - it is raised again in the parent
            answer = (error, None)
        try:
            connection.send(answer)
        except OSError:
            return
