"""The messages of workers, as their rank takes them: each worker in turn."""

from __future__ import annotations

import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from ...pipeline.contract.rng import preserve_rng_state
from ...transport.message import Pickled
from ..stats.meter import RankMeter, reader_numbers
from .running_lane import LaneHost, Message, Notes
from .stream_options import StreamOptions
from .worker_board import WorkerBoard
from .worker_errors import PackedError

_END: Any = object()


class WorkerMessages(ABC):
    """The messages of all workers, a queue for each, since each may be ahead of the others.

    Args:
        host: The lanes of the rank.
        board: What its workers record.
        options: The options of the workers.
        meter: Measures the waits; None for no statistics.
    """

    def __init__(self, host: LaneHost, board: WorkerBoard, options: StreamOptions, meter: RankMeter | None) -> None:
        workers = max(1, host.workers)
        self._host = host
        self._board = board
        self._options = options
        self._meter = meter
        self._turn = 0
        self._pins = options.pin_memory and host.workers > 0 and torch.cuda.is_available()
        self._messages: list[deque[Message | PackedError | None]] = [deque() for _ in range(workers)]  # not taken yet
        self._is_done = [False] * workers  # and sends no more
        if meter is not None:
            meter.begin_stream(self, host.workers)

    def worker_in_turn(self) -> int | None:
        """Return the worker whose message is next; None if all have ended."""
        for _ in self._is_done:
            worker = self._turn % len(self._is_done)
            if self._messages[worker] or not self._is_done[worker]:
                return worker
            self._turn += 1
        return None

    def is_ready(self, worker: int) -> bool:
        return bool(self._messages[worker]) or self._is_done[worker]

    @abstractmethod
    def receive(self, worker: int) -> None:
        """Wait for messages of a worker; return without one if it has ended, or another thread closes them."""

    def take(self, worker: int) -> Message | PackedError | None:
        """Return the next message of a worker; None if its turn is empty."""
        self._turn += 1
        message = self._messages[worker].popleft() if self._messages[worker] else None
        if not isinstance(message, Message):
            return message
        # Unpickle a micro-batch of another process.
        begin_ns = time.perf_counter_ns()
        if isinstance(message.batch, Pickled):
            message = message._replace(batch=message.batch.unpickle())
            if self._meter is not None:
                self._meter.add_transport(worker, "unpack", begin_ns)
        # Copy it to pinned memory, if there is a GPU.
        if self._pins:
            begin_ns = time.perf_counter_ns()
            pin: Any = pin_memory
            message = message._replace(batch=pin(message.batch))
            if self._meter is not None:
                self._meter.add_transport(worker, "pin", begin_ns)
        return message

    def queue(self, worker: int) -> tuple[int, int]:  # noqa: ARG002 - of a training loop without workers
        """Return the messages of a worker that were made and not taken, and their maximum."""
        return 0, 0

    def pid(self, worker: int) -> int | None:  # noqa: ARG002 - likewise
        """Return the process of a worker; None if it is a thread, or the training loop itself."""
        return None

    def shared_bytes(self) -> int:
        """Return the size of the shared memory of the workers that this process has mapped."""
        return 0

    def set_traced(self, traced: bool) -> None:
        """Let the workers record each call, or no longer."""
        for cells in self._board.cells:
            cells.is_traced = traced

    def close(self) -> None:
        """End the workers; no messages follow."""
        if self._meter is not None:
            self._meter.end_stream()
        self._is_done = [True] * len(self._is_done)
        for messages in self._messages:
            messages.clear()


class OwnMessages(WorkerMessages):
    """The messages of a training loop without workers, each made when it is due."""

    def __init__(self, host: LaneHost, board: WorkerBoard, options: StreamOptions, meter: RankMeter | None) -> None:
        super().__init__(host, board, options, meter)
        recorder = None if meter is None else meter.recorder(0, reader_numbers(host.dataset))
        made = host.messages(0, Notes(board.slot(0), recorder))
        self._made = [_isolate_rng(made) if host.dataset.runs_user_code else made]  # one, until it is closed
        # At the latest at the end of the program: after it, modules that its lanes need to close are gone.
        weakref.finalize(self, self._made.clear)

    def receive(self, worker: int) -> None:
        message = next(chain.from_iterable(self._made), _END)
        if message is _END:
            self._is_done[worker] = True
        else:
            self._messages[worker].append(message)

    def close(self) -> None:
        super().close()
        self._made.clear()


def _isolate_rng(messages: Iterator[Message | None]) -> Iterator[Message | None]:
    """Yield messages made in the trainer's process, without a change to the trainer's random generators."""
    preserved = preserve_rng_state()
    while True:
        with preserved:
            message = next(messages, _END)
        if message is _END:
            return
        yield message
