"""Breadcrumbs of worker processes: the last sample and the stack of each, for reports of crashes and hangs.

Each worker records its lane and position in shared memory, which its rank reads when the worker no longer answers.
``faulthandler`` writes the stack from a signal handler in C. So the stack also arrives when the worker is stuck in a
library that never returns to Python.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import RawArray, reduction
from multiprocessing.context import assert_spawning
from typing import Any

WATCHDOG_SIGNAL = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
"""A signal with few other users: trainers, schedulers and the Java machine take SIGUSR1 and SIGUSR2."""

_PID, _DUMPS_STACKS, _LANE, _POSITION, _THREAD, _IDLE, _MADE, _TRACED = range(8)
_CELLS = 8  # of 8 bytes: a slot fills a cache line, so that workers do not slow each other down
_PATH_BYTES = 128  # the path of a reader's lane; longer ones are cut, so that no reader has them
_PATHS = (
    1024  # that a worker keeps; the first is empty, and the last is written again for each path that is one too many
)
_POSITION_BITS = 48  # of the cell; the number of the path is above them

_WAIT_S = 2.0
_QUIET_S = 0.1  # faulthandler writes a dump in many small pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSample:
    """The ``position`` in the stream of its ``lane`` of the sample that a worker started last.

    ``path`` belongs to the reader's lane: the places of the inputs that lead to it, such as ``"1/0/"``.
    """

    lane: int
    position: int
    path: str = ""

    def __str__(self) -> str:
        return f"the sample at position {self.position} of lane {self.lane}"


class WorkerSlot:
    """The part of the board that one worker writes."""

    def __init__(self, cells: memoryview, paths: memoryview) -> None:
        self._cells = cells
        self._paths = paths
        self._numbers = {"": 0}  # of the paths that are kept
        self._last_path = ""
        self.note_position: Callable[[int], None] = partial(cells.__setitem__, _POSITION)
        """Record the sample that the lane starts, by its position in the lane's stream."""

    def note_positions_at(self, path: str) -> Callable[[int], None]:
        """Return the function that records samples of a reader, by their positions in the stream of its lane."""
        if not path:
            return self.note_position
        # Give the path a number on the board, while there are numbers left.
        if path not in self._numbers and len(self._numbers) < _PATHS - 1:
            self._numbers[path] = len(self._numbers)
            self._write_path(self._numbers[path], path)
        # Bind what is looked up for every sample.
        set_cell = self._cells.__setitem__
        first = self._numbers.get(path, _PATHS - 1) << _POSITION_BITS

        def note(position: int) -> None:  # readers of a blend take turns: it runs for every sample
            set_cell(_POSITION, first + position)

        def note_path(position: int) -> None:
            if self._last_path != path:
                set_cell(_POSITION, -1)
                self._write_path(_PATHS - 1, path)
                self._last_path = path
            set_cell(_POSITION, first + position)

        return note if path in self._numbers else note_path

    def _write_path(self, path_number: int, path: str) -> None:
        encoded = path.encode()[:_PATH_BYTES].ljust(_PATH_BYTES, b"\0")
        self._paths[path_number * _PATH_BYTES : (path_number + 1) * _PATH_BYTES] = encoded

    def note_lane(self, lane: int) -> None:
        self._cells[_POSITION] = -1
        self._cells[_LANE] = lane

    def note_hook(self, lane: int) -> None:
        """Record that a lane calls a hook for several samples; each call is progress."""
        cells = self._cells
        cells[_POSITION] = min(cells[_POSITION], -1) - 1
        cells[_LANE] = lane

    def note_idle(self, idle: bool) -> None:
        """Record that the worker waits for its rank, or no longer does."""
        self._cells[_IDLE] = idle

    def is_traced(self) -> bool:
        return bool(self._cells[_TRACED])

    def note_made(self, messages: int) -> None:
        self._cells[_MADE] += messages

    def note(self, lane: int, position: int) -> None:
        self.note_lane(lane)
        self.note_position(position)


class WorkerBoard:
    """Shared memory for the last sample of each worker, and a file for each worker's stack.

    Worker processes get the board as an argument, whether they are forked or spawned. The files have no names, so
    nothing stays on disk, even when the processes are killed.

    >>> board = WorkerBoard(2)
    >>> board.slot(1).note(3, 1000)
    >>> print(board.read(0), board.read(1), sep="; ")
    None; the sample at position 1000 of lane 3
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._stacks_from: dict[int, int] = {}
        self._shared: Any = RawArray("q", workers * _CELLS)
        self._paths: Any = RawArray("B", workers * _PATHS * _PATH_BYTES)
        for worker in range(workers):
            self._cells(worker)[_POSITION] = -1
        self._own_stack_files([_open_unnamed_file() for _ in range(workers)])

    def slot(self, worker: int) -> WorkerSlot:
        """Return a worker's slot, and record this process as its owner; call it in the worker's own process."""
        self.set_pid(worker, os.getpid())
        return WorkerSlot(self._cells(worker), self._paths_of(worker))

    def read(self, worker: int) -> RecordedSample | None:
        """Return the sample that a worker runs; None if it began none, or calls a hook for several."""
        cells = self._cells(worker)
        lane, recorded = cells[_LANE], cells[_POSITION]
        if recorded < 0:
            return None
        path_number, position = divmod(recorded, 1 << _POSITION_BITS)
        start = path_number * _PATH_BYTES
        path = bytes(self._paths_of(worker)[start : start + _PATH_BYTES]).rstrip(b"\0").decode(errors="replace")
        return RecordedSample(lane=lane, position=position, path=path)

    def progress(self, worker: int) -> tuple[int, int]:
        """Return values that change whenever the worker begins a sample, or calls a hook for several."""
        cells = self._cells(worker)
        return cells[_LANE], cells[_POSITION]

    def is_idle(self, worker: int) -> bool:
        """Report whether a worker waited for its rank when it last recorded something."""
        return bool(self._cells(worker)[_IDLE])

    def made(self, worker: int) -> int:
        return self._cells(worker)[_MADE]

    def set_made(self, worker: int, messages: int) -> None:
        """Record the number of messages that a worker has made, for the process that takes its place."""
        self._cells(worker)[_MADE] = messages

    def set_traced(self, traced: bool) -> None:
        for worker in range(self.workers):
            self._cells(worker)[_TRACED] = traced

    def pid(self, worker: int) -> int | None:
        """Return the process of a worker, None if it is not recorded yet."""
        return self._cells(worker)[_PID] or None

    def set_pid(self, worker: int, pid: int) -> None:
        """Record the process of a worker, so that it can be killed even if it hangs before it takes its slot."""
        self._cells(worker)[_PID] = pid

    def thread(self, worker: int) -> int | None:
        """Return the thread of this process that is the worker; None if the worker is a process."""
        return self._cells(worker)[_THREAD] or None

    def set_thread(self, worker: int, thread: int) -> None:
        """Record that a worker is a thread of this process, by the thread's identifier."""
        self._cells(worker)[_THREAD] = thread

    def stack_file(self, worker: int) -> int:
        """Return the descriptor of the file for a worker's stack; it is open as long as the board lives."""
        return self._stack_files[worker]

    def dumps_stacks(self, worker: int) -> bool:
        """Report whether a worker handles :data:`WATCHDOG_SIGNAL`; the signal would end one that does not."""
        return bool(self._cells(worker)[_DUMPS_STACKS])

    def set_dumps_stacks(self, worker: int) -> None:
        self._cells(worker)[_DUMPS_STACKS] = 1

    def begin_again(self, worker: int) -> None:
        """Forget what a worker recorded, for the process that takes its place."""
        cells = self._cells(worker)
        cells[_PID] = cells[_DUMPS_STACKS] = cells[_IDLE] = 0
        cells[_POSITION] = -1
        self._stacks_from[worker] = os.fstat(self._stack_files[worker]).st_size

    def stacks_from(self, worker: int) -> int:
        """Return the offset in a worker's file at which the dumps of its present process begin."""
        return self._stacks_from.get(worker, 0)

    def _cells(self, worker: int) -> memoryview:
        if not 0 <= worker < self.workers:
            raise IndexError(f"expected a worker of [0, {self.workers}), found {worker}")
        return memoryview(self._shared).cast("B").cast("q")[worker * _CELLS : (worker + 1) * _CELLS]

    def _paths_of(self, worker: int) -> memoryview:
        size = _PATHS * _PATH_BYTES
        return memoryview(self._paths).cast("B")[worker * size : (worker + 1) * size]

    def _own_stack_files(self, descriptors: list[int]) -> None:
        self._stack_files = descriptors
        weakref.finalize(self, _close, descriptors)

    def __getstate__(self) -> tuple[Any, ...]:
        assert_spawning(self)
        return self.workers, self._shared, self._paths, [reduction.DupFd(file) for file in self._stack_files]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.workers, self._shared, self._paths, files = state
        self._stacks_from = {}
        self._own_stack_files([file.detach() for file in files])


def register_stack_dump(board: WorkerBoard, worker: int) -> None:
    """Let this worker process write its stack on a crash, and when its rank sends :data:`WATCHDOG_SIGNAL`."""
    # The handlers keep the number of the descriptor. A duplicate is never closed, so its number is never reused.
    file = os.dup(board.stack_file(worker))
    if threading.current_thread() is threading.main_thread():
        # Python removes faulthandler's handler when it exits. With the default action the signal would then kill a
        # process that is about to exit, and so hide its exit code.
        signal.signal(WATCHDOG_SIGNAL, signal.SIG_IGN)
    faulthandler.register(WATCHDOG_SIGNAL, file=file, all_threads=True)
    # If faulthandler was enabled before the fork, enable() would only change the file. Its handlers may be gone by
    # then: Lightning restores all handlers at the end of a training, and this one to the system's.
    faulthandler.disable()
    faulthandler.enable(file=file, all_threads=True)
    board.set_dumps_stacks(worker)


def request_stack(board: WorkerBoard, worker: int, *, wait_s: float | None = None) -> str | None:
    """Return the stacks of a worker's threads; None if the worker writes none.

    Args:
        wait_s: The longest wait for them; None: 2 s.
    """
    pid = board.pid(worker)
    if pid is None or not board.dumps_stacks(worker):
        return None
    # The worker appends to its file when it gets the signal.
    file = board.stack_file(worker)
    start = size = os.fstat(file).st_size
    try:
        os.kill(pid, WATCHDOG_SIGNAL)
    except ProcessLookupError:
        return None
    # A dump has no end mark: it is over when the file stops growing.
    deadline = time.monotonic() + (_WAIT_S if wait_s is None else wait_s)
    grown_at = deadline
    while (now := time.monotonic()) < min(deadline, grown_at + _QUIET_S):
        time.sleep(0.01)
        if (file_size := os.fstat(file).st_size) > size:
            size, grown_at = file_size, now
    return _read_stack(file, start, size)


def read_crash_stack(board: WorkerBoard, worker: int) -> str | None:
    """Return the stack that a worker wrote on a crash, such as a fault in a library; None if it wrote none."""
    file = board.stack_file(worker)
    text = _read_stack(file, board.stacks_from(worker), os.fstat(file).st_size) or ""
    start = text.find("Fatal Python error")
    return None if start < 0 else text[start:]


def _read_stack(file: int, start: int, end: int) -> str | None:
    """Read the dump in bytes [start, end), the running thread before those that it started."""
    text = os.pread(file, end - start, start).decode(errors="replace").strip()
    blocks = [block for block in text.split("\n\n") if not block.startswith("Extension modules: ")]
    blocks.sort(key=lambda block: block.startswith("Thread "))
    return "\n\n".join(blocks) or None


def _open_unnamed_file() -> int:
    with tempfile.TemporaryFile(prefix="energon-stack-", buffering=0) as file:
        return os.dup(file.fileno())


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
