"""Run a function over many items in worker processes, in the order in which results arrive.

Unlike with the pools of the standard library, the error of a killed worker names its item, leaving the loop ends all
workers at once, and workers end if this process is killed.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, TypeVar

from ..errors import WorkerError
from ..storage import may_fork

_PREFETCH = 4  # items queued for each worker, so that it does not wait while this process is busy
_MAY_FORK = sys.platform != "darwin"  # forking is faster, but system libraries of macOS crash in forked processes

STOP_PERIOD_S = 0.1  # time between two checks whether another thread has stopped the work

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """Another thread has stopped the work."""


def run_in_workers(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    workers: int,
    is_stopped: Callable[[], bool] | None = None,
) -> Generator[tuple[int, _Result], None, None]:
    """Yield the index of an item and ``function(item)``, in the order in which results arrive.

    The workers have started when this returns; closing the generator ends them.

    Args:
        function: Picklable function; the workers call it in the order of the items, which are pickled, too.
        items: The items.
        workers: Number of processes, at most one for each item; with one, the function runs in this process, unless
            ``is_stopped`` is given.
        is_stopped: When it returns True, a ``StoppedError`` ends the work.

    Raises:
        Exception: The function raised this error.
    """
    apart = workers > 1 or is_stopped is not None
    return stream_from_workers(partial(_single, function), items, workers=workers, apart=apart, is_stopped=is_stopped)


def stream_from_workers(
    function: Callable[[_Item], Generator[_Result, None, None]],
    items: Sequence[_Item],
    *,
    workers: int,
    apart: bool,
    is_stopped: Callable[[], bool] | None = None,
) -> Generator[tuple[int, _Result], None, None]:
    """Yield the index of an item and each result of ``function(item)``, in the order in which results arrive.

    Args:
        function: Picklable function, which yields the results of an item. A local function does not pickle: then the
            workers are forked, whatever threads this process has.
        items: Picklable items.
        workers: Number of processes, at most one for each item.
        apart: Run the function in the workers, and not in this process.
        is_stopped: As for :func:`run_in_workers`; it is not called for work in this process.
    """
    if not items or not apart:
        return _run_serially(function, items)
    results = _run_in_pool(function, items, min(max(1, workers), len(items)), is_stopped)
    next(results)  # run the generator up to its first yield, so that workers start now and closing it ends them
    return results


def _single(function: Callable[[_Item], _Result], item: _Item) -> Generator[_Result, None, None]:
    yield function(item)


def _run_serially(
    function: Callable[[_Item], Generator[_Result, None, None]], items: Sequence[_Item]
) -> Generator[tuple[int, _Result], None, None]:
    for position, item in enumerate(items):
        with closing(function(item)) as results:
            for result in results:
                yield position, result


def _run_in_pool(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int, is_stopped: Callable[[], bool] | None
) -> Generator[Any, None, None]:
    """Yield once when the workers have started, then the results."""
    pool = _Pool()
    try:
        pool.start_workers(function, workers)
        remaining = pool.start(items)
        yield None
        yield from pool.results(remaining, is_stopped)
    finally:
        pool.close()


def _has_one_thread() -> bool:
    """Return True if no other thread of this process can hold a lock, which a forked process would wait for.

    Python does not list the threads of torch and of clients that are written in Rust.
    """
    return threading.active_count() == 1 and "torch" not in sys.modules and may_fork()


class _Pool:
    def __init__(self) -> None:
        self._processes: dict[Connection, BaseProcess] = {}
        self._pending: dict[Connection, deque[tuple[int, Any]]] = {}  # the unanswered items of each worker

    def start_workers(self, function: Callable[[Any], Any], workers: int) -> None:
        is_local = "<locals>" in getattr(function, "__qualname__", "")  # it does not pickle
        forks = (_MAY_FORK and _has_one_thread()) or is_local
        context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
        if not forks:
            resource_tracker.ensure_running()  # else the first spawn does, and unblocks interrupts
        with _interrupts_deferred(), forking() if forks else _main_module_hidden():
            for _ in range(workers):
                ours, theirs = context.Pipe()
                # A forked worker inherits our ends of the pipes; it must close them to notice that this process died.
                inherited = [*self._processes, ours] if forks else None
                process: BaseProcess = context.Process(target=_serve, args=(function, theirs, inherited), daemon=True)
                process.start()
                theirs.close()
                self._processes[ours] = process

    def start(self, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Send the first items to the workers; return the remaining items."""
        remaining = iter(enumerate(items))
        for connection in [*self._processes] * _PREFETCH:
            self._send(connection, remaining)
        return remaining

    def results(
        self, remaining: Iterator[tuple[int, Any]], is_stopped: Callable[[], bool] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield results, and send the remaining items."""
        while busy := [connection for connection, pending in self._pending.items() if pending]:
            if is_stopped is not None and is_stopped():
                raise StoppedError
            ready = set(wait(busy, None if is_stopped is None else STOP_PERIOD_S))
            for connection in busy:
                if connection not in ready:
                    continue
                try:
                    error, results = connection.recv()
                except (EOFError, OSError):  # OSError: killed while sending an answer
                    raise self._death(connection) from None
                if error is not None:
                    raise error
                position, _ = self._pending[connection][0]
                if not results:
                    self._pending[connection].popleft()
                    self._send(connection, remaining)
                for result in results:
                    yield position, result

    def _send(self, connection: Connection, remaining: Iterator[tuple[int, Any]]) -> None:
        for position, item in remaining:
            self._pending.setdefault(connection, deque()).append((position, item))
            try:
                connection.send(item)
            except OSError:
                raise self._death(connection) from None
            return

    def _death(self, connection: Connection) -> WorkerError:
        _, item = self._pending[connection][0]
        process = self._processes[connection]
        process.join(timeout=5)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return WorkerError(
            f"a worker process {how} while it worked on {getattr(item, 'name', item)}",
            hint="signal 9 often means out of memory: try fewer workers; prepare and import resume where they stopped",
        )

    def close(self) -> None:
        for connection, process in self._processes.items():
            if self._pending.get(connection):
                process.terminate()
            connection.close()  # an idle worker reads the end of the stream and exits
        for process in self._processes.values():
            process.join()


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Prevent a spawned process from running the caller's script: the functions and items are not defined in it.

    So a script that prepares a dataset does not need ``if __name__ == "__main__"``.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C while workers start, and block it in them.

    The mask alone is not enough: another thread may take the signal, and then KeyboardInterrupt is raised in this one,
    between the start of a process and the message with its task.
    """
    interrupts: list[int] = []
    defers = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None
    handler = signal.signal(signal.SIGINT, lambda received, _: interrupts.append(received)) if defers else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield  # a new process inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if defers:
            signal.signal(signal.SIGINT, handler)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def forking() -> Iterator[None]:
    """Disable the garbage collector and the warning about threads; the new process calls :func:`settle_fork`."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        # A trainer always has threads, at least those of torch.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            yield
    finally:
        if was_on:
            gc.enable()


def settle_fork() -> None:
    """Leave to the parent of a forked process what is the parent's; call it before this process starts threads.

    Imports: Python holds a lock for each module while a thread imports it. A fork copies the lock, but not the thread,
    so a process that imports the same module would wait without end. Such modules are forgotten, and imported again.

    Executors: a process that a thread of an executor forked (a Ray actor, ``asyncio.to_thread``) would join itself at
    its end, which is an error, and end with exit code 1. Python 3.13 forgets them, too.

    Garbage: it is never collected here. Finalizers of the parent's objects, such as loaders, would end processes of the
    parent, or wait for locks that its threads held at the fork.
    """
    # Python has no public way.
    locks: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    for name, reference in list(locks.items()):
        if getattr(reference(), "owner", None) not in (None, threading.get_ident()):
            locks.pop(name, None)
            sys.modules.pop(name, None)
    getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {}).clear()  # as above
    gc.freeze()


def _serve(function: Callable[[Any], Any], connection: Connection, inherited: list[Connection] | None) -> None:
    if inherited is not None:  # forked
        settle_fork()
        gc.enable()
    for other in inherited or ():
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):  # the parent finished, or was killed with unread answers
            return
        try:
            for error, results in _answers(function, item):
                connection.send((error, results))
        except OSError:
            return


def _answers(function: Callable[[Any], Any], item: Any) -> Iterator[tuple[Exception | None, list[Any]]]:
    """Yield an error, or results; an answer without results ends the item."""
    try:
        for result in function(item):
            yield None, [result]
    except Exception as error:  # noqa: BLE001 - the parent raises it
        yield error, []
    else:
        yield None, []


def usable_cores() -> int:
    """Return the number of cores that this process may use; containers often allow fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
