"""Breadcrumbs of worker processes: the last sample and the stack of each, for reports of crashes and hangs.

Each worker records its lane and position in shared memory, which its rank reads when the worker no longer answers.
``faulthandler`` writes the stack from a signal handler in C. So the stack also arrives when the worker is stuck in a
library that never returns to Python.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import RawArray, reduction
from multiprocessing.context import assert_spawning
from typing import Any

WATCHDOG_SIGNAL = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
"""A signal with few other users: trainers, schedulers and the Java machine take SIGUSR1 and SIGUSR2."""

_PATH_BYTES = 128  # the path of a reader's lane; longer ones are cut, so that no reader has them
_PATHS = (
    1024  # that a worker keeps; the first is empty, and the last is written again for each path that is one too many
)
_POSITION_BITS = 48  # of a position; the number of its path is above them

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


class WorkerCells(ctypes.Structure):
    """The record of one worker, in shared memory. All values are 0 at first, but for the position.

    Attributes:
        pid: Its process. The rank records it, too, so that one that hangs at once can be killed.
        thread: The identifier of its thread, if it is a thread of the rank's process.
        stack_start: The offset in its file at which the dumps of its present process begin.
        lane: The lane whose sample it started last.
        position: The sample's position, and above it the number of the reader's path; below 0 between samples, and
            lower after each call of a hook for several samples.
        made: The messages that it has made.
        dumps_stacks: It handles :data:`WATCHDOG_SIGNAL`; the signal would end a process that does not.
        is_idle: It waits for its rank.
        is_traced: The rank wants each call to be recorded.
    """

    _fields_ = (
        ("pid", ctypes.c_int64),
        ("thread", ctypes.c_int64),
        ("stack_start", ctypes.c_int64),
        ("lane", ctypes.c_int64),
        ("position", ctypes.c_int64),
        ("made", ctypes.c_int64),
        ("dumps_stacks", ctypes.c_bool),
        ("is_idle", ctypes.c_bool),
        ("is_traced", ctypes.c_bool),
        ("paths", (ctypes.c_char * _PATH_BYTES) * _PATHS),  # so long that workers do not share a cache line
    )


class WorkerSlot:
    """The part of the board that one worker writes."""

    def __init__(self, cells: WorkerCells) -> None:
        self.cells = cells
        self._numbers = {"": 0}  # of the paths that are kept
        self._last_path = ""
        self.note_position: Callable[[int], None] = partial(setattr, cells, "position")
        """Record the sample that the lane starts, by its position in the lane's stream."""

    def note_positions_at(self, path: str) -> Callable[[int], None]:
        """Return the function that records samples of a reader, by their positions in the stream of its lane."""
        if not path:
            return self.note_position
        # Give the path a number on the board, while there are numbers left.
        cells, written = self.cells, path.encode()[:_PATH_BYTES]
        if path not in self._numbers and len(self._numbers) < _PATHS - 1:
            self._numbers[path] = len(self._numbers)
            cells.paths[self._numbers[path]].value = written
        first = self._numbers.get(path, _PATHS - 1) << _POSITION_BITS

        def note(position: int) -> None:  # readers of a blend take turns: it runs for every sample
            cells.position = first + position

        def note_path(position: int) -> None:
            if self._last_path != path:
                cells.position = -1
                cells.paths[_PATHS - 1].value = written
                self._last_path = path
            cells.position = first + position

        return note if path in self._numbers else note_path

    def note_lane(self, lane: int) -> None:
        self.cells.position = -1
        self.cells.lane = lane

    def note_hook(self, lane: int) -> None:
        """Record that a lane calls a hook for several samples; each call is progress."""
        self.cells.position = min(self.cells.position, -1) - 1
        self.cells.lane = lane

    def note(self, lane: int, position: int) -> None:
        self.note_lane(lane)
        self.note_position(position)


class WorkerBoard:
    """Shared memory for the last sample of each worker, and a file for each worker's stack.

    Worker processes get the board as an argument, whether they are forked or spawned. The files have no names, so
    nothing stays on disk, even when the processes are killed.

    Attributes:
        cells: What each worker records.
        stack_files: The file for each worker's stack; they are open as long as the board lives.

    >>> board = WorkerBoard(2)
    >>> board.slot(1).note(3, 1000)
    >>> print(board.read(0), board.read(1), sep="; ")
    None; the sample at position 1000 of lane 3
    """

    def __init__(self, workers: int) -> None:
        self.cells: Any = RawArray(WorkerCells, workers)
        for cells in self.cells:
            cells.position = -1
        make: Any = tempfile.TemporaryFile
        self._own_stack_files([make(prefix="energon-stack-", buffering=0) for _ in self.cells])

    def slot(self, worker: int) -> WorkerSlot:
        """Return a worker's slot, and record this process as its owner; call it in the worker's own process."""
        if not 0 <= worker < len(self.cells):
            raise IndexError(f"expected a worker of [0, {len(self.cells)}), found {worker}")
        cells = self.cells[worker]
        cells.pid = os.getpid()
        return WorkerSlot(cells)

    def read(self, worker: int) -> RecordedSample | None:
        """Return the sample that a worker runs; None if it began none, or calls a hook for several."""
        cells = self.cells[worker]
        lane, recorded = cells.lane, cells.position
        if recorded < 0:
            return None
        path_number, position = divmod(recorded, 1 << _POSITION_BITS)
        path = cells.paths[path_number].value.decode(errors="replace")
        return RecordedSample(lane=lane, position=position, path=path)

    def progress(self, worker: int) -> tuple[int, int]:
        """Return values that change whenever the worker begins a sample, or calls a hook for several."""
        return self.cells[worker].lane, self.cells[worker].position

    def begin_again(self, worker: int, made: int = 0) -> None:
        """Forget what a worker recorded, for the process that takes its place.

        Args:
            made: The number of messages that the worker has made.
        """
        cells = self.cells[worker]
        cells.pid = cells.dumps_stacks = cells.is_idle = 0
        cells.position, cells.made = -1, made
        cells.stack_start = os.fstat(self.stack_files[worker].fileno()).st_size

    def _own_stack_files(self, files: list[Any]) -> None:
        self.stack_files = files
        opened = ExitStack()
        for file in files:
            opened.enter_context(file)
        weakref.finalize(self, opened.close)

    def __getstate__(self) -> tuple[Any, ...]:
        assert_spawning(self)
        return self.cells, [reduction.DupFd(file.fileno()) for file in self.stack_files]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.cells, files = state
        self._own_stack_files([os.fdopen(file.detach(), "r+b", buffering=0) for file in files])


def register_stack_dump(board: WorkerBoard, worker: int) -> None:
    """Let this worker process write its stack on a crash, and when its rank sends :data:`WATCHDOG_SIGNAL`."""
    # The handlers keep the number of the descriptor. A duplicate is never closed, so its number is never reused.
    file = os.dup(board.stack_files[worker].fileno())
    if threading.current_thread() is threading.main_thread():
        # Python removes faulthandler's handler when it exits. With the default action the signal would then kill a
        # process that is about to exit, and so hide its exit code.
        signal.signal(WATCHDOG_SIGNAL, signal.SIG_IGN)
    faulthandler.register(WATCHDOG_SIGNAL, file=file, all_threads=True)
    # If faulthandler was enabled before the fork, enable() would only change the file. Its handlers may be gone by
    # then: Lightning restores all handlers at the end of a training, and this one to the system's.
    faulthandler.disable()
    faulthandler.enable(file=file, all_threads=True)
    board.cells[worker].dumps_stacks = True


def request_stack(board: WorkerBoard, worker: int, *, wait_s: float | None = None) -> str | None:
    """Return the stacks of a worker's threads; None if the worker writes none.

    Args:
        wait_s: The longest wait for them; None: 2 s.
    """
    cells = board.cells[worker]
    if not cells.pid or not cells.dumps_stacks:
        return None
    # The worker appends to its file when it gets the signal.
    file = board.stack_files[worker].fileno()
    start = size = os.fstat(file).st_size
    try:
        os.kill(cells.pid, WATCHDOG_SIGNAL)
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
    file = board.stack_files[worker].fileno()
    text = _read_stack(file, board.cells[worker].stack_start, os.fstat(file).st_size) or ""
    start = text.find("Fatal Python error")
    return None if start < 0 else text[start:]


def _read_stack(file: int, start: int, end: int) -> str | None:
    """Read the dump in bytes [start, end), the running thread before those that it started."""
    text = os.pread(file, end - start, start).decode(errors="replace").strip()
    blocks = [block for block in text.split("\n\n") if not block.startswith("Extension modules: ")]
    blocks.sort(key=lambda block: block.startswith("Thread "))
    return "\n\n".join(blocks) or None
