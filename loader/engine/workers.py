"""Run a function over many items in worker processes, in the order in which results arrive.

Unlike with the pools of the standard library, the error of a killed worker names its item, leaving the loop ends all
workers at once, and workers end if this process is killed.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar, TypeVar

from ..collector import paused_collection
from ..errors import ConfigError, WorkerError
from ..storage import may_fork

MAX_DEATHS = 3  # of workers with the same task: one may be chance, as when memory is short for a moment

_PREFETCH = 4  # items queued for each worker, so that it does not wait while this process is busy
_MAY_FORK = sys.platform != "darwin"  # forking is faster, but system libraries of macOS crash in forked processes

_LEAVING_S = 30  # an item that is not interrupted, such as a write to a file system that answers slowly

STOP_PERIOD_S = 0.1  # time between two checks whether another thread has stopped the work

Environments = Sequence[Mapping[str, str]]
"""The variables of each worker; more workers than these begin again with the first."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """Another thread has stopped the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of worker processes.

    Attributes:
        workers: Number of processes of this machine, at most one for each item; with one, items run in this process.
        apart: No item runs in this process, also with one worker: code of a user may end its process.
        environments: Variables that are set in each process, such as its ``CUDA_VISIBLE_DEVICES``.
        stopped_s: A process that is stopped for longer, as by SIGSTOP, is killed. With this limit, no item runs in this
            process.
        is_stopped: When it returns True, a ``StoppedError`` ends the work. With it, no item runs in this process.
        forks: Processes are forked, and inherit a function that cannot be pickled.
    """

    workers: int = 1
    apart: bool = False
    environments: Environments = ()
    stopped_s: float | None = None
    is_stopped: Callable[[], bool] | None = field(default=None, compare=False)
    forks: bool = False


def stream_from_workers(
    function: Callable[[_Item], Generator[_Result, None, None]], items: Sequence[_Item], options: WorkerOptions
) -> Generator[tuple[int, _Result], None, None]:
    """Yield the index of an item and each result of ``function(item)``, in the order in which results arrive.

    The workers have started when this returns; closing the generator ends them.

    Args:
        function: Picklable function, which yields the results of an item; the workers call it in the order of the
            items, which are pickled, too. A local function does not pickle: then the workers are forked, whatever
            threads this process has.

    Raises:
        Exception: The function raised this error.
        WorkerError: A worker was killed; ``item`` of the error is the index of its item.
    """
    needs_process = options.apart or options.environments or options.stopped_s or options.is_stopped
    if not items or not (needs_process or options.workers > 1):
        return _run_serially(function, items)
    results = _Pool(options).run(function, items)
    next(results)  # run the generator up to its first yield, so that workers start now and closing it ends them
    return results


def _run_serially(
    function: Callable[[_Item], Generator[_Result, None, None]], items: Sequence[_Item]
) -> Generator[tuple[int, _Result], None, None]:
    process = os.getpid()
    for position, item in enumerate(items):
        with closing(function(item)) as results:
            for result in results:
                _end_if_forked(process)
                yield position, result


def _end_if_forked(process: int) -> None:
    """End a process that the function has forked and that returned from it: the item is the parent's."""
    if os.getpid() != process:
        os._exit(0)


def can_fork() -> bool:
    """Return True if workers are forked, and share the memory of this process."""
    return _MAY_FORK and _has_one_thread()


def _has_one_thread() -> bool:
    """Return True if no other thread of this process can hold a lock, which a forked process would wait for.

    Python does not list the threads of torch and of clients that are written in Rust.
    """
    return threading.active_count() == 1 and "torch" not in sys.modules and may_fork()


class _Pool:
    # Our ends of the pipes of all pools. A forked worker inherits them, and must close them to notice that this process
    # closed one of them, or died.
    ends: ClassVar[set[Connection]] = set()

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._processes: dict[Connection, BaseProcess] = {}
        self._pending: dict[Connection, deque[tuple[int, Any]]] = {}  # the unanswered items of each worker
        self._running: dict[Connection, float] = {}  # when each worker was last seen to be not stopped

    def start_workers(self, function: Callable[[Any], Any], workers: int) -> None:
        is_local = self._options.forks or "<locals>" in getattr(function, "__qualname__", "")  # it does not pickle
        forks = can_fork() or is_local
        context = multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
        if not forks:
            resource_tracker.ensure_running()  # else the first spawn does, and unblocks interrupts
        with interrupts_deferred(signal.SIGTERM), forking() if forks else _main_module_hidden():
            environments = self._options.environments or [{}]
            for position in range(workers):
                variables = environments[position % len(environments)]
                ours, theirs = context.Pipe()
                self.ends.add(ours)
                inherited = list(self.ends) if forks else None
                process: BaseProcess = context.Process(
                    target=_serve, args=(function, theirs, inherited, variables), daemon=True
                )
                process.start()
                theirs.close()
                self._processes[ours] = process
                self._running[ours] = time.monotonic()

    def run(self, function: Callable[[Any], Any], items: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield once when the workers have started, then the results; end the workers."""
        remaining, is_stopped = iter(enumerate(items)), self._options.is_stopped
        try:
            # Send each worker its first items.
            self.start_workers(function, min(max(1, self._options.workers), len(items)))
            for connection in [*self._processes] * _PREFETCH:
                self._send(connection, remaining)
            yield None
            # Take results, and send the remaining items.
            while busy := [connection for connection, pending in self._pending.items() if pending]:
                if is_stopped is not None and is_stopped():
                    raise StoppedError
                ready = set(wait(busy, STOP_PERIOD_S if is_stopped or self._options.stopped_s else None))
                for connection in busy:
                    if connection not in ready:
                        if self._options.stopped_s is not None:
                            self._check_stopped(connection, self._options.stopped_s)
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
        finally:
            self.close()

    def _send(self, connection: Connection, remaining: Iterator[tuple[int, Any]]) -> None:
        for position, item in remaining:
            pending = self._pending.setdefault(connection, deque())
            pending.append((position, item))
            try:
                connection.send(item)
            except OSError:
                raise self._death(connection) from None
            return

    def _check_stopped(self, connection: Connection, most_s: float) -> None:
        """Kill a worker that is stopped for too long."""
        process = self._processes[connection]
        with suppress(ChildProcessError, AttributeError):  # it has ended; macOS does not say
            if os.waitid(os.P_PID, process.pid or 0, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
                self._running[connection] = time.monotonic()
            elif time.monotonic() - self._running[connection] > most_s:
                process.kill()
                raise self._death(connection, f"was stopped for {most_s:g} s and was killed")

    def _death(self, connection: Connection, how: str = "") -> WorkerError:
        position, item = self._pending[connection][0]
        process = self._processes[connection]
        process.join(timeout=5)
        code = process.exitcode
        how = how or (f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}")
        hint = (
            "a function or a library that it calls has ended the process"
            if code is not None and code >= 0
            else "signal 9 often means out of memory: try fewer workers"
        )
        error = WorkerError(
            f"a worker process {how} while it worked on {getattr(item, 'name', item)}",
            hint=f"{hint}; the same command continues where it stopped",
        )
        error.item, error.how = position, how
        return error

    def close(self) -> None:
        for connection, process in self._processes.items():
            if self._pending.get(connection):
                process.terminate()
            self.ends.discard(connection)
            connection.close()  # an idle worker reads the end of the stream and exits
        for process in self._processes.values():
            process.join(_LEAVING_S)
            if process.exitcode is None:  # the function handles SIGTERM, or does not end
                process.kill()
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
def interrupts_deferred(*others: int) -> Iterator[None]:
    """Defer Ctrl-C while workers start, and block it in them, and other signals until they do not run their handlers.

    The mask alone is not enough: another thread may take the signal, and then KeyboardInterrupt is raised in this one,
    between the start of a process and the message with its task.
    """
    interrupts: list[int] = []
    defers = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None
    handler = signal.signal(signal.SIGINT, lambda received, _: interrupts.append(received)) if defers else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *others})
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
    """Pause the garbage collector and the warning about threads; the new process calls :func:`settle_fork`."""
    # A trainer always has threads, at least those of torch.
    with paused_collection(), warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        yield


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


def _serve(
    function: Callable[[Any], Any],
    connection: Connection,
    inherited: list[Connection] | None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    os.environ.update(variables)
    if inherited is not None:  # forked
        settle_fork()
        gc.enable()
    for other in inherited or ():
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    process = os.getpid()
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):  # the parent finished, or was killed with unread answers
            return
        try:
            for error, results in _answers(function, item):
                _end_if_forked(process)
                connection.send((error, results))
        except OSError:
            return


def _answers(function: Callable[[Any], Any], item: Any) -> Iterator[tuple[Exception | None, list[Any]]]:
    """Yield an error, or results; an answer without results ends the item."""
    try:
        for result in function(item):
            yield None, [result]
    except Exception as error:  # noqa: BLE001 - the parent raises it
        yield sendable_error(error), []
    else:
        yield None, []


def sendable_error(error: Exception) -> Exception:
    """Return an error that pickles: itself, or one with its text."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - of the class of the error
        return WorkerError(f"{type(error).__name__}: {error}")
    return error


def usable_cores() -> int:
    """Return the number of cores that this process may use; containers often allow fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpu_environments(gpus: float) -> list[dict[str, str]]:
    """Return the variables of worker processes, so that each process sees other GPUs of this machine.

    Args:
        gpus: GPUs of each worker; several workers share a GPU if it is a fraction.

    Raises:
        ConfigError: This machine has too few.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        devices = [name for name in sorted(os.listdir("/dev")) if re.fullmatch(r"nvidia\d+", name)]
        names = [str(position) for position in range(len(devices))]
    else:
        names = [name for name in visible.split(",") if name.strip()]
    if gpus >= 1:
        each = int(gpus)
        groups = [names[start : start + each] for start in range(0, len(names) - each + 1, each)]
    else:
        groups = [[name] for name in names for _ in range(int(1 / gpus))]
    if not groups:
        raise ConfigError(
            f"expected {gpus:g} GPUs for each worker, found {len(names)} on this machine",
            hint="check CUDA_VISIBLE_DEVICES, or leave --gpus-per-worker out",
        )
    return [{"CUDA_VISIBLE_DEVICES": ",".join(group)} for group in groups]
