"""Workers that are threads of the rank's process.

They start at once, share the memory of the process and need no pickling. Python runs one thread at a time, so they are
fast only where hooks spend their time in code that releases its lock: reading, decoding images, tokenizers.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, perf_counter_ns
from typing import Any

from ...pipeline.measuring.counts import PackedCounts
from ...pipeline.measuring.recorder import WorkerRecorder
from ...pipeline.worker_identity import set_worker_thread
from ...samples.hooks import separate_hook_context
from ..stats.meter import RankMeter, reader_numbers
from .running_lane import LaneHost, Message, Notes
from .stream_options import StreamOptions
from .worker_board import WorkerBoard
from .worker_errors import pack_error
from .worker_messages import WorkerMessages

_END = object()
_JOIN_S = 5.0  # for all threads: a hook that hangs must not keep its trainer from closing a loader

_Queue = queue.Queue[Any]


class WorkerThreads(WorkerMessages):
    """The messages of all worker threads."""

    def __init__(self, host: LaneHost, board: WorkerBoard, options: StreamOptions, meter: RankMeter | None) -> None:
        super().__init__(host, board, options, meter)
        self._queues = [_Queue(options.prefetch_factor) for _ in range(host.workers)]
        self._process = os.getpid()
        # Open the lanes of each worker, in this thread.
        stop = threading.Event()
        slots = [board.slot(worker) for worker in range(host.workers)]
        recorders: list[WorkerRecorder | None] = [None] * host.workers
        if meter is not None:
            readers = reader_numbers(host.dataset)
            recorders = [meter.recorder(worker, readers) for worker in range(host.workers)]
        messages = [
            host.messages(worker, Notes(slot, recorder))
            for worker, (slot, recorder) in enumerate(zip(slots, recorders, strict=True))
        ]
        # Start a thread for each; the finalizer ends threads that no code closes.
        self._threads = [
            threading.Thread(
                target=_work,
                args=(worker, messages[worker], self._queues[worker], stop, recorders[worker]),
                name=f"loader worker {worker}",
                daemon=True,
            )
            for worker in range(host.workers)
        ]
        self._end = weakref.finalize(self, _end_threads, self._threads, self._queues, stop)
        for worker, thread in enumerate(self._threads):
            thread.start()
            board.cells[worker].thread = thread.ident or 0

    def receive(self, worker: int) -> None:
        begin_ns = perf_counter_ns()
        message, counts = self._queues[worker].get()
        if self._meter is not None:
            made = isinstance(message, Message)
            arrived_ns = perf_counter_ns()
            self._meter.received(worker, counts, batches=made, begin_ns=begin_ns, arrived_ns=arrived_ns)
        if message is _END or not self._end.alive:
            self._is_done[worker] = True
        else:
            self._messages[worker].append(message)

    def queue(self, worker: int) -> tuple[int, int]:
        ahead = self._options.prefetch_factor
        return min(ahead, self._queues[worker].qsize() + len(self._messages[worker])), ahead

    def close(self) -> None:
        """End the threads, each after the micro-batch that it makes, and a wait of another thread for one."""
        if self._end.alive and os.getpid() == self._process:  # a fork has no such threads, but locks that they held
            self._end()
            for bundles in self._queues:
                with suppress(queue.Full):
                    bundles.put_nowait((_END, None))
        super().close()


def _work(
    worker: int, messages: Iterator[Any], queue: _Queue, stop: threading.Event, recorder: WorkerRecorder | None
) -> None:
    # Separate what hooks of other threads use.
    set_worker_thread(worker)
    separate_hook_context()
    begin_ns = make_ns = perf_counter_ns()
    counts: PackedCounts | None = None
    try:
        # Pass each micro-batch on with its counts.
        for message in messages:
            if recorder is not None:
                counts = recorder.take_bundle(1, begin_ns, make_ns, is_last=False)
                begin_ns = perf_counter_ns()
            queue.put((message, counts))
            if stop.is_set():
                return
            if recorder is not None:
                make_ns = perf_counter_ns()
            del message  # memory of a batch is reused once no one refers to it
    except BaseException as error:  # also SystemExit: the rank would wait for this thread without end
        queue.put((pack_error(error, worker=worker), None))
    if recorder is not None:
        counts = recorder.take_bundle(0, begin_ns, make_ns, is_last=True)
    queue.put((_END, counts))


def _end_threads(threads: list[threading.Thread], queues: list[_Queue], stop: threading.Event) -> None:
    stop.set()
    give_up_at = monotonic() + _JOIN_S
    for thread, bundles in zip(threads, queues, strict=True):
        _wait_for(thread, bundles, give_up_at)


def _wait_for(thread: threading.Thread, bundles: _Queue, give_up_at: float) -> None:
    """Wait until a thread has seen that it is to end; empty its queue, which it may be waiting for."""
    while thread.is_alive() and thread is not threading.current_thread() and monotonic() < give_up_at:
        with suppress(queue.Empty):
            while True:
                bundles.get_nowait()
        thread.join(0.01)
