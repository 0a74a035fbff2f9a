"""Micro-batches on their way from a rank's worker processes: several at a time, where they come quickly.

Handing one object from process to process costs about as much as making a batch of a few small samples, so what is sent
is a bundle of messages. How many is for the rank to say: so many as it uses up in a few milliseconds.
"""

from __future__ import annotations

import gc
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawValue
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory

from ...errors import ConfigError
from ...stores.cache_pool import CachePool, NoCachePool
from ...transport.message import PackedMessage, pack_message, unpack_message
from ...transport.segments import SegmentFlags, SegmentPool, forget_segments
from .lane_host import LaneHost, Message
from .stack_dump import register_stack_dump
from .worker_board import LastSampleBoard
from .worker_errors import PackedError, pack_error

__all__ = ["StreamOptions", "WorkerBundles"]

_MOST_MESSAGES = 32  # in a bundle
_BUNDLE_S = 0.002  # how long the rank is busy with a bundle
_MEASURED = 16  # messages after which the size of bundles is set anew


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a rank gets its micro-batches.

    Attributes:
        prefetch_factor: Micro-batches that each worker makes ahead; bundles of them, where they come quickly.
        timeout_s: How long a micro-batch may take before a hang is reported; None never.
        initial_timeout_s: The same for the first one.
        fail_on_timeout: Raise, rather than only warn.
        start_method: ``"fork"``, ``"spawn"`` or ``"forkserver"``; None is torch's default.
        cache_pool: What hooks get as their cache.
        pin_memory: Put micro-batches that come from worker processes into pinned memory, where there is a GPU.
    """

    prefetch_factor: int = 2
    timeout_s: float | None = 60
    initial_timeout_s: float | None = None
    fail_on_timeout: bool = False
    start_method: str | None = None
    cache_pool: CachePool = field(default_factory=NoCachePool)
    pin_memory: bool = True

    def __post_init__(self) -> None:
        if self.prefetch_factor < 1:
            raise ConfigError(f"expected a prefetch_factor of at least 1, found {self.prefetch_factor}")


class _LaneMessages(IterableDataset[Any]):
    """What torch's DataLoader iterates in each worker process: packed bundles."""

    def __init__(self, host: LaneHost, board: LastSampleBoard, flags: SegmentFlags, size: Any) -> None:
        self._host = host
        self._board = board
        self._flags = flags
        self._size = size
        self._collects = gc.isenabled()

    def __iter__(self) -> Iterator[PackedMessage]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        # What a fork has inherited is never collected here: finalizers of the trainer's garbage (other loaders, say)
        # would end what is not this process's to end, or wait for locks that some thread held at the fork.
        gc.freeze()
        if self._collects:
            gc.enable()
        register_stack_dump(self._board, worker)
        pool = SegmentPool(worker, self._flags)
        bundle: list[Message | PackedError | None] = []
        is_last = False
        messages = self._host.messages(worker, self._board.slot(worker))
        while not is_last:
            try:
                bundle.append(next(messages))
            except StopIteration:
                is_last = True
            except Exception as error:
                # torch would make another exception of its type and text, and lose what else it holds.
                bundle.append(pack_error(error, worker=worker))
                is_last = True
            if is_last or len(bundle) >= self._size.value:
                yield _packed(worker, bundle, is_last, pool)
                bundle = []


def _packed(worker: int, bundle: list[Any], is_last: bool, pool: SegmentPool) -> PackedMessage:
    try:
        return pack_message((worker, bundle, is_last), pool)
    except Exception as error:
        # A batch that does not pickle; those before it in the bundle are lost with it, but so is the run.
        return pack_message((worker, [pack_error(error, worker=worker)], True))


class WorkerBundles:
    """The messages of all workers, kept apart, since each may be ahead of the others.

    Args:
        host: What the workers do.
        board: Where they note what they are working on.
        options: How many start, and how.
    """

    def __init__(self, host: LaneHost, board: LastSampleBoard, options: StreamOptions) -> None:
        self._flags = SegmentFlags(host.workers)
        self._size = RawValue("i", 1)
        self._messages: list[deque[Message | PackedError | None]] = [deque() for _ in range(host.workers)]
        self._is_done = [False] * host.workers
        self._turn = 0
        self._measured_from = time.perf_counter()
        self._pins = options.pin_memory and torch.cuda.is_available()
        messages = _LaneMessages(host, board, self._flags, self._size)
        with warnings.catch_warnings(), _collector_off():
            # How many workers a machine can take is not for its number of processors alone to say: some wait for disks.
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            self._bundles: Any = iter(
                DataLoader(
                    messages,
                    batch_size=None,
                    num_workers=host.workers,
                    prefetch_factor=options.prefetch_factor,
                    collate_fn=_as_it_is,
                    generator=torch.Generator(),  # torch draws a seed; the trainer's own generator must not move
                    multiprocessing_context=options.start_method,
                )
            )
        # Also where nobody closes it. Were it left to the garbage collector, that would end torch's queues before torch
        # tells the workers to end, and wait for each of them in vain.
        self._end = weakref.finalize(self, _end_workers, self._bundles)

    def worker_in_turn(self) -> int | None:
        """Give the worker whose message comes next; None where all have ended."""
        workers = len(self._messages)
        for _ in range(workers):
            worker = self._turn % workers
            if self._messages[worker] or not self._is_done[worker]:
                return worker
            self._turn += 1
        return None

    def has_of(self, worker: int) -> bool:
        """Tell whether a message of a worker is there, or none will come."""
        return bool(self._messages[worker]) or self._is_done[worker]

    def awaited_worker(self) -> int:
        """Give the worker whose bundle comes next: torch takes them strictly in turn."""
        bundles = self._bundles
        task = bundles._task_info.get(bundles._rcvd_idx)  # noqa: SLF001 - torch has no other way to know
        return 0 if task is None else int(task[0])

    def receive(self) -> None:
        """Wait for a bundle of any worker.

        Raises:
            RuntimeError: What torch raises where a worker died.
        """
        worker, bundle, is_last = unpack_message(next(self._bundles), self._flags)
        self._messages[worker].extend(bundle)
        self._is_done[worker] = is_last

    def take(self, worker: int) -> Message | PackedError | None:
        """Give the next message of a worker; None where its turn is empty."""
        self._turn += 1
        if self._turn % _MEASURED == 0:
            now = time.perf_counter()
            a_message_s = (now - self._measured_from) / _MEASURED
            self._size.value = max(1, min(_MOST_MESSAGES, int(_BUNDLE_S / max(a_message_s, 1e-6))))
            self._measured_from = now
        messages = self._messages[worker]
        if not messages:
            return None
        message = messages.popleft()
        if self._pins and isinstance(message, Message):
            pin: Any = pin_memory
            return Message(message.number, message.lane, message.state, pin(message.batch))
        return message

    def processes(self) -> list[Any]:
        """Give the worker processes; torch has no other way to them."""
        processes: list[Any] = self._bundles._workers  # noqa: SLF001
        return processes

    def close(self) -> None:
        """End the worker processes."""
        self._end()
        self._is_done = [True] * len(self._is_done)
        for messages in self._messages:
            messages.clear()


@contextmanager
def _collector_off() -> Iterator[None]:
    """Let no garbage be collected, so that a process that is forked meanwhile can see to that itself."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _end_workers(bundles: Any) -> None:
    forget_segments([process.pid for process in bundles._workers])  # noqa: SLF001
    bundles._shutdown_workers()  # noqa: SLF001 - torch has no other way


def _as_it_is(bundle: Any) -> Any:
    return bundle
