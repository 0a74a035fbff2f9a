"""Bundles of micro-batches on their way from worker processes to their rank.

To send one object from process to process costs about as much as to make a batch of a few small samples. So workers
send bundles of messages. The rank sets their size to the number of messages that it uses in a few milliseconds.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import shutil
import signal
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess, current_process
from multiprocessing.sharedctypes import RawValue
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker

from ...engine.workers import forking, settle_fork
from ...pipeline.contract.iterated import warn_once
from ...pipeline.contract.running import State
from ...pipeline.measuring.counts import PackedCounts
from ...pipeline.measuring.recorder import WorkerRecorder
from ...transport.message import ObjectPickler, pack_bundle
from ..stats.meter import RankMeter, reader_numbers
from .running_lane import LaneHost, Message, Notes
from .stream_options import StreamOptions
from .worker_board import WorkerBoard, register_stack_dump
from .worker_errors import PackedError, pack_error
from .worker_messages import WorkerMessages
from .worker_process import Pipes, RankSignals, WorkerEnded, WorkerProcess, blocked_signals, end_workers

_MAX_MESSAGES = 32  # in a bundle
_BUNDLE_S = 0.002  # the time in which the rank uses up a bundle
_MEASURED = 16  # messages, at least, between two settings of the size of bundles


class _Bundle(NamedTuple):
    """One transmission of a worker: messages, and what it measured.

    Attributes:
        messages: Its messages; None for an empty turn.
        counts: What the worker did since it sent counts last; None if it sends none now.
    """

    messages: list[Message | PackedError | None]
    is_last: bool
    counts: PackedCounts | None


@dataclass(frozen=True, kw_only=True)
class _LaneWork:
    """The work of a worker process: the micro-batches of its lanes, packed in bundles.

    Attributes:
        size: The number of messages in a bundle, shared with the rank.
    """

    host: LaneHost
    worker: int
    taken: int
    board: WorkerBoard
    size: Any
    options: StreamOptions
    collects: bool
    is_forked: bool
    measures: bool
    signals: RankSignals

    def __call__(self, pipes: Pipes) -> None:
        # Open the lanes at the message that the rank needs next.
        self._prepare()
        slot = self.board.slot(self.worker)
        recorder = None
        if self.measures:
            recorder = WorkerRecorder(readers=reader_numbers(self.host.dataset))
        notes = Notes(slot, recorder, pickler=ObjectPickler())
        made = self.host.messages(self.worker, notes, taken=self.taken)
        is_last = False
        begin_ns = time.perf_counter_ns()
        while not is_last:
            # Wait until the rank requests a bundle.
            slot.cells.is_idle = True
            if not pipes.wait_for_request():
                return
            slot.cells.is_idle = False
            if recorder is not None:
                recorder.follow(slot.cells.is_traced)
            # Make its messages; an error is the last one.
            make_ns = time.perf_counter_ns()
            messages: list[Message | PackedError | None] = []
            while not is_last and len(messages) < self.size.value and not pipes.has_stopped:
                try:
                    messages.append(next(made))
                except StopIteration:
                    is_last = True
                except Exception as error:
                    messages.append(pack_error(error, worker=self.worker))
                    is_last = True
            # Note what was measured, and send all.
            slot.cells.made += len(messages)
            counts = None
            if recorder is not None:
                counts = recorder.take_bundle(len(messages), begin_ns, make_ns, is_last=is_last)
            packed = pack_bundle(_Bundle(messages, is_last, counts), pipes.pool)
            begin_ns = time.perf_counter_ns()
            pipes.send(packed)
        while pipes.wait_for_request():  # the rank opens shared memory while its worker runs
            pass

    def _prepare(self) -> None:
        # Set up the garbage collector, the signals and the threads of the process.
        if self.is_forked:
            settle_fork()
        elif self.options.gc_freeze_at_start:
            gc.freeze()
        if self.collects:
            gc.enable()
        self.signals.leave_to_rank()
        torch.set_num_threads(1)
        # Start the generators of random numbers, and let hooks call torch's ``get_worker_info``.
        dataset = self.host.dataset
        seed = dataset.worker_config.seed_offset + self.worker
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 - the generator that hooks may use
        torch_worker._worker_info = torch_worker.WorkerInfo(  # noqa: SLF001 - torch has no public way
            id=self.worker,
            num_workers=self.host.workers,
            seed=seed,
            dataset=dataset,  # type: ignore[arg-type] # torch's class
        )
        register_stack_dump(self.board, self.worker)


class WorkerBundles(WorkerMessages):
    """The messages of all worker processes."""

    def __init__(self, host: LaneHost, board: WorkerBoard, options: StreamOptions, meter: RankMeter | None) -> None:
        super().__init__(host, board, options, meter)
        # Choose the start method, and warn of one that hooks may not survive.
        self._context = _context("fork" if options.worker_type == "fork" else options.multiprocessing_context)
        if self._context.get_start_method() == "fork" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # not annotated
            warn_once(
                "worker processes are forked after CUDA was initialised in this process, so hooks cannot use it; "
                "if they do, pass multiprocessing_context='spawn' to the loader, or start() it before CUDA is used"
            )
        # Share the size of bundles and the flag that ends the workers, and start them.
        self._size = RawValue("i", 1)
        self._stop = RawValue("b", 0)
        self._received = [0] * host.workers  # messages
        self._measured = 0, time.perf_counter()  # the turn and time of the last setting of the size
        self._workers: list[WorkerProcess] = []
        # Also ends workers that no code closes.
        self._end = weakref.finalize(self, end_workers, self._workers, self._stop, os.getpid())
        for worker in range(host.workers):
            self._workers.append(self._start(worker, host))

    def _start(self, worker: int, host: LaneHost) -> WorkerProcess:
        # No signal may arrive between the fork and the handlers of the worker.
        with forking(), blocked_signals() as signals:
            work = _LaneWork(
                host=host,
                worker=worker,
                taken=self._received[worker],
                board=self._board,
                size=self._size,
                options=self._options,
                collects=gc.isenabled(),
                is_forked=self._context.get_start_method() == "fork",
                measures=self._meter is not None,
                signals=signals,
            )
            started = WorkerProcess(
                worker, work, context=self._context, stop=self._stop, ahead=self._options.prefetch_factor
            )
        self._board.cells[worker].pid = started.process.pid or 0
        return started

    def replace(self, worker: int) -> None:
        """Start a new process instead of a worker that has ended or hangs.

        It begins after the last message that was received from the worker, with the states of its lanes there.
        """
        self._workers[worker].kill()
        self._board.begin_again(worker, self._received[worker])
        if self._meter is not None:
            self._meter.begin_again(worker)
        self._workers[worker] = self._start(worker, self._host.continued(self._received_states()))

    def _received_states(self) -> Mapping[int, State]:
        """Return the states of lanes after the messages that were received, also those that were not taken yet."""
        states = {**self._host.states}
        for messages in self._messages:
            for message in messages:
                if isinstance(message, Message):
                    states |= {message.lane: message.state, **(message.others or {})}
        return states

    def receive(self, worker: int) -> None:
        """Wait for the next bundle of a worker; return without one if another thread closes them meanwhile.

        Raises:
            WorkerEnded: The worker has ended without one.
        """
        # Set the size of bundles by the rate at which messages are taken.
        now, (turn, since) = time.perf_counter(), self._measured
        if self._turn - turn >= _MEASURED:
            message_s = (now - since) / (self._turn - turn)
            self._size.value = max(1, min(_MAX_MESSAGES, int(_BUNDLE_S / max(message_s, 1e-6))))
            self._measured = self._turn, now
        # Wait for the bundle, and measure how long.
        begin_ns = time.perf_counter_ns()
        try:
            bundle, arrived_ns = self._workers[worker].receive()
        except WorkerEnded:
            if self._meter is not None:
                self._meter.lost(worker, begin_ns=begin_ns)
            raise
        if bundle is None:
            self._is_done = [True] * len(self._is_done)
            return
        # Queue its messages; their tensors stay in shared memory.
        if self._meter is not None:
            batches = len(bundle.messages) - bundle.messages.count(None)
            self._meter.received(worker, bundle.counts, batches=batches, begin_ns=begin_ns, arrived_ns=arrived_ns)
        self._messages[worker].extend(bundle.messages)
        self._received[worker] += len(bundle.messages)
        self._is_done[worker] = bundle.is_last

    def queue(self, worker: int) -> tuple[int, int]:
        taken = self._received[worker] - len(self._messages[worker])
        capacity = self._options.prefetch_factor * self._size.value
        return max(0, min(capacity, self._board.cells[worker].made - taken)), capacity

    def pid(self, worker: int) -> int | None:
        return self._board.cells[worker].pid or None

    def process(self, worker: int) -> BaseProcess:
        return self._workers[worker].process

    def shared_bytes(self) -> int:
        return sum(worker.segments.mapped_bytes() for worker in self._workers)

    def close(self) -> None:
        self._end()
        super().close()


def _context(start_method: str | None) -> Any:
    method = start_method or multiprocessing.get_start_method()
    if method != "fork":
        with blocked_signals():
            resource_tracker.ensure_running()  # else the first worker's start does, and unblocks SIGINT and SIGTERM
    return _ForkServer() if method == "forkserver" else multiprocessing.get_context(method)


class _ForkServer(ForkServerContext):
    def Process(self, *arguments: Any, **named: Any) -> BaseProcess:  # type: ignore[override] # noqa: N802
        _start_fork_server()
        return ForkServerContext.Process(*arguments, **named)


def _start_fork_server() -> None:
    """Start Python's fork server unless it runs, and remove its socket's name; a descriptor still leads to it."""
    server: Any = forkserver._forkserver  # noqa: SLF001 - Python has no public way
    with blocked_signals(signal.SIGINT):  # it ignores the signal, but its workers would not
        server.ensure_running()
    # Keep a descriptor of the socket, and connect through it from now on.
    path = server._forkserver_address  # noqa: SLF001
    if not hasattr(os, "O_PATH") or not isinstance(path, str) or path.startswith(("\0", "/proc/")):
        return
    server._forkserver_address = f"/proc/self/fd/{os.open(path, os.O_PATH)}"  # noqa: SLF001
    os.unlink(path)
    # Remove the folder of the socket if Python made it for that alone.
    folder, config = os.path.dirname(path), current_process()._config  # type: ignore[attr-defined] # noqa: SLF001
    if config.get("tempdir") == folder:
        with suppress(OSError):  # others have files there
            os.rmdir(folder)
            config["tempdir"] = None
            for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined] # noqa: SLF001
                if finalizer._args == (shutil.rmtree, folder):  # noqa: SLF001
                    finalizer.cancel()  # it would fail at exit, with a traceback
