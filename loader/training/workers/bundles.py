"""Bundles of micro-batches on their way from worker processes to their rank.

To send one object from process to process costs about as much as to make a batch of a few small samples. So workers
send bundles of messages. The rank sets their size to the number of messages that it uses in a few milliseconds.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.sharedctypes import RawValue
from multiprocessing.util import Finalize
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from ...transport.message import PackedMessage, pack_message, unpack_message
from ...transport.segments import SegmentFlags, SegmentPool, forget_segments, has_segments
from .lane_host import LaneHost, Message
from .stream_options import StreamOptions, collect_garbage_every
from .worker_board import WorkerBoard, register_stack_dump
from .worker_errors import PackedError, pack_error

__all__ = ["WorkerBundles"]

_MAX_MESSAGES = 32  # in a bundle
_BUNDLE_S = 0.002  # the time in which the rank uses up a bundle
_MEASURED = 16  # messages between two settings of the size of bundles


class _BundleDataset(IterableDataset[Any]):
    """The dataset that torch's DataLoader iterates in each worker process: packed bundles."""

    def __init__(
        self, host: LaneHost, board: WorkerBoard, flags: SegmentFlags | None, size: Any, options: StreamOptions
    ) -> None:
        self._host = host
        self._gc_every = options.gc_collect_every_n_steps
        self._gc_freeze = options.gc_freeze_at_start
        self._was_forked = True
        self._board = board
        self._flags = flags
        self._size = size
        self._collects = gc.isenabled()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _was_forked=False)  # only a process that does not fork unpickles it

    def __iter__(self) -> Iterator[PackedMessage]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        # Inherited garbage of a fork is never collected here. Finalizers of the trainer's objects, such as other
        # loaders, would end processes of the trainer, or wait for locks that its threads held at the fork.
        if self._was_forked:
            _restart_imports_of_other_threads()
            _forget_executors()
        if self._gc_freeze or self._was_forked:
            gc.freeze()
        if self._collects:
            gc.enable()
        register_stack_dump(self._board, worker)
        _end_with_the_rank()
        pool = SegmentPool(worker, self._flags) if self._flags is not None else None
        bundle: list[Message | PackedError | None] = []
        is_last = False
        messages = self._host.messages(worker, self._board.slot(worker))
        messages = collect_garbage_every(self._gc_every, messages)
        while not is_last:
            try:
                bundle.append(next(messages))
            except StopIteration:
                is_last = True
            except Exception as error:
                # torch would rebuild the exception from type and text, and lose its fields.
                bundle.append(pack_error(error, worker=worker))
                is_last = True
            if is_last or len(bundle) >= self._size.value:
                yield _pack_bundle(worker, bundle, is_last, pool)
                bundle = []


def _pack_bundle(worker: int, bundle: list[Any], is_last: bool, pool: SegmentPool | None) -> PackedMessage:
    try:
        return pack_message((worker, bundle, is_last), pool)
    except Exception as error:
        # A batch that does not pickle; the earlier ones of its bundle are lost with it, but the run ends anyway.
        return pack_message((worker, [pack_error(error, worker=worker)], True))


def _restart_imports_of_other_threads() -> None:
    """Forget the modules that other threads were importing at the fork, so that this process imports them itself.

    Python holds a lock for each module while a thread imports it. A fork copies the lock, but not the thread, so a
    process that imports the same module would wait without end. Call it before this process starts threads.
    """
    bootstrap: Any = getattr(importlib, "_bootstrap", None)
    locks: dict[str, Any] = getattr(bootstrap, "_module_locks", {})  # Python has no public way
    own = threading.get_ident()
    for name, reference in list(locks.items()):
        lock = reference()
        owner = getattr(lock, "owner", None)
        if owner is not None and owner != own:
            locks.pop(name, None)
            sys.modules.pop(name, None)


def _forget_executors() -> None:
    """Join no thread of an inherited executor at the end of this process; Python 3.13 does the same at a fork.

    A process that a thread of an executor forked (a Ray actor, ``asyncio.to_thread``) would join itself, which is an
    error, and end with exit code 1.
    """
    executors = sys.modules.get("concurrent.futures.thread")
    getattr(executors, "_threads_queues", {}).clear()  # Python has no public way


def _end_with_the_rank() -> None:
    """Let this worker end within seconds if its rank is killed.

    torch's loop in the worker ends when the parent process does. Python then waits until all bundles are written to the
    pipe. Forked workers hold its reading end themselves, so a full pipe would block them without end.
    """
    parent = os.getppid()
    Finalize(None, _exit_if_orphaned, args=(parent,), exitpriority=100)
    rank = multiprocessing.parent_process()
    if rank is not None and rank.pid != parent:
        # The parent is a fork server, which its own workers keep alive: torch's loop would not end either.
        threading.Thread(target=_exit_after, args=(rank,), name="loader rank sentinel", daemon=True).start()


def _exit_if_orphaned(parent: int) -> None:
    if os.getppid() != parent:
        _exit_at_once()


def _exit_after(rank: Any) -> None:
    rank.join()
    _exit_at_once()


def _exit_at_once() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(1)


class WorkerBundles:
    """The messages of all workers, a queue for each, since each may be ahead of the others.

    Args:
        host: The work of the workers.
        board: Their breadcrumbs.
        options: How they start, and how far they work ahead.
    """

    def __init__(self, host: LaneHost, board: WorkerBoard, options: StreamOptions) -> None:
        self._flags = SegmentFlags(host.workers) if has_segments() else None
        self._size = RawValue("i", 1)
        self._messages: list[deque[Message | PackedError | None]] = [deque() for _ in range(host.workers)]
        self._is_done = [False] * host.workers
        self._turn = 0
        self._measured_from = time.perf_counter()
        self._pins = options.pin_memory and torch.cuda.is_available()
        dataset = _BundleDataset(host, board, self._flags, self._size, options)
        start_method = "fork" if options.worker_type == "fork" else options.multiprocessing_context
        with warnings.catch_warnings(), _disabled_collector():
            # More workers than processors are fine: workers also wait for disks.
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            # A trainer always has threads, at least those of torch.
            warnings.filterwarnings(
                "ignore", message=".*use of fork.* may lead to deadlocks", category=DeprecationWarning
            )
            self._bundles: Any = iter(
                _BundleLoader(
                    dataset,
                    batch_size=None,
                    num_workers=host.workers,
                    prefetch_factor=options.prefetch_factor,
                    collate_fn=_identity,
                    generator=torch.Generator(),  # torch draws a seed; the trainer's own generator must not move
                    multiprocessing_context=_context(start_method),
                )
            )
        # Also ends workers that no code closes. The garbage collector would end torch's queues first; torch could then
        # not stop the workers, and would wait for each of them in vain.
        self._end = weakref.finalize(self, _end_workers, self._bundles, os.getpid())
        for worker, process in enumerate(self.processes()):
            board.set_pid(worker, process.pid)

    def worker_in_turn(self) -> int | None:
        """Return the worker whose message comes next; None if all have ended."""
        workers = len(self._messages)
        for _ in range(workers):
            worker = self._turn % workers
            if self._messages[worker] or not self._is_done[worker]:
                return worker
            self._turn += 1
        return None

    def is_ready(self, worker: int) -> bool:
        """Report whether a message of a worker has arrived, or none will."""
        return bool(self._messages[worker]) or self._is_done[worker]

    def awaited_worker(self) -> int:
        """Return the worker whose bundle comes next: torch takes them strictly in turn."""
        bundles = self._bundles
        task = bundles._task_info.get(bundles._rcvd_idx)  # noqa: SLF001 - torch has no public way
        return 0 if task is None else int(task[0])

    def receive(self) -> None:
        """Wait for a bundle of any worker; return without one if another thread closes them meanwhile.

        Raises:
            RuntimeError: torch's error for a worker that died.
        """
        try:
            packed = next(self._bundles)
        except (_WorkersEnded, StopIteration):  # torch may also have marked all workers as ended
            self._is_done = [True] * len(self._is_done)
            return
        worker, bundle, is_last = unpack_message(packed, self._flags)
        self._messages[worker].extend(bundle)
        self._is_done[worker] = is_last

    def take(self, worker: int) -> Message | PackedError | None:
        """Return the next message of a worker; None if its turn is empty."""
        self._turn += 1
        if self._turn % _MEASURED == 0:
            now = time.perf_counter()
            message_s = (now - self._measured_from) / _MEASURED
            self._size.value = max(1, min(_MAX_MESSAGES, int(_BUNDLE_S / max(message_s, 1e-6))))
            self._measured_from = now
        messages = self._messages[worker]
        if not messages:
            return None
        message = messages.popleft()
        if self._pins and isinstance(message, Message):
            pin: Any = pin_memory
            return message._replace(batch=pin(message.batch))
        return message

    def processes(self) -> list[Any]:
        """Return the worker processes; torch has no public way."""
        processes: list[Any] = self._bundles._workers  # noqa: SLF001
        return processes

    def close(self) -> None:
        """End the worker processes."""
        self._end()
        self._is_done = [True] * len(self._is_done)
        for messages in self._messages:
            messages.clear()


@contextmanager
def _disabled_collector() -> Iterator[None]:
    """Disable the garbage collector during a fork; the forked process freezes inherited garbage first."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _WorkersEnded(Exception):  # noqa: N818 - it ends a wait
    """Another thread has ended the workers."""


class _Bundles(_MultiProcessingDataLoaderIter):
    """torch's iterator, whose waits end after a shutdown by another thread, at torch's next check of its workers."""

    def _try_get_data(self, *arguments: Any, **named: Any) -> Any:
        found = super()._try_get_data(*arguments, **named)  # type: ignore[no-untyped-call] # torch's own method
        if self._shutdown and not found[0]:
            raise _WorkersEnded
        return found


def _context(start_method: str | None) -> Any:
    """Return what torch's DataLoader takes as ``multiprocessing_context``."""
    if (start_method or multiprocessing.get_start_method()) == "fork":
        return start_method
    from .start_context import start_context  # few programs need it

    return start_context(start_method)


class _BundleLoader(DataLoader[Any]):
    def _get_iterator(self) -> Any:
        return _Bundles(self)


def _end_workers(bundles: Any, pid: int) -> None:
    if os.getpid() != pid:
        bundles._shutdown = True  # noqa: SLF001 - a fork of the rank: the workers are those of its parent
        return
    forget_segments([process.pid for process in bundles._workers])  # noqa: SLF001
    bundles._shutdown_workers()  # noqa: SLF001 - torch has no public way


def _identity(bundle: Any) -> Any:
    return bundle
