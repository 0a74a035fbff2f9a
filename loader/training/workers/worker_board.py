"""What each worker process is working on, in memory that its rank can read when the worker can no longer answer."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import RawArray, reduction
from multiprocessing.context import assert_spawning
from typing import Any

__all__ = ["LastSampleBoard", "LastSampleSlot", "NotedSample"]

_PID, _DUMPS_STACKS, _LANE, _POSITION = range(4)
_CELLS = 8  # of 8 bytes: a slot fills a cache line, so that workers do not slow each other down


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedSample:
    """The ``position`` in the stream of its ``lane`` of the sample that a worker began last."""

    lane: int
    position: int

    def __str__(self) -> str:
        return f"the sample at position {self.position} of lane {self.lane}"


class LastSampleSlot:
    """The place on the board where one worker writes."""

    __slots__ = ("_cells", "note_position")

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self.note_position: Callable[[int], None] = partial(cells.__setitem__, _POSITION)
        """Say which sample of the lane is begun, by its position in the lane's stream."""

    def note_lane(self, lane: int) -> None:
        """Say which lane is at work from now on."""
        self._cells[_POSITION] = -1
        self._cells[_LANE] = lane

    def note(self, lane: int, position: int) -> None:
        """Say both."""
        self.note_lane(lane)
        self.note_position(position)


class LastSampleBoard:
    """Shared memory for the last sample of each worker, and a file for each one's stack.

    It goes to worker processes as an argument, whether they are forked or spawned. It leaves nothing on disk, also
    when the processes are killed.

    Args:
        workers: How many processes write to it.

    >>> board = LastSampleBoard(2)
    >>> board.slot(1).note(3, 1000)
    >>> print(board.read(0), board.read(1), sep="; ")
    None; the sample at position 1000 of lane 3
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._shared: Any = RawArray("q", workers * _CELLS)
        for worker in range(workers):
            self._cells(worker)[_POSITION] = -1
        self._own_stack_files([_nameless_file() for _ in range(workers)])

    def slot(self, worker: int) -> LastSampleSlot:
        """Give a worker its slot; to be called in the worker's own process."""
        cells = self._cells(worker)
        cells[_PID] = os.getpid()
        return LastSampleSlot(cells)

    def read(self, worker: int) -> NotedSample | None:
        """Give what a worker noted last, None if nothing."""
        cells = self._cells(worker)
        lane, position = cells[_LANE], cells[_POSITION]
        return None if position < 0 else NotedSample(lane=lane, position=position)

    def pid(self, worker: int) -> int | None:
        """Give the process that took a worker's slot, None if none did yet."""
        return self._cells(worker)[_PID] or None

    def stack_file(self, worker: int) -> int:
        """Give the descriptor of the file that a worker's stack is written to, open as long as the board lives."""
        return self._stack_files[worker]

    def dumps_stacks(self, worker: int) -> bool:
        """Say whether a worker writes its stack when it gets the signal for it; another one would be ended by it."""
        return bool(self._cells(worker)[_DUMPS_STACKS])

    def set_dumps_stacks(self, worker: int) -> None:
        """Say, in a worker's process, that it does."""
        self._cells(worker)[_DUMPS_STACKS] = 1

    def _cells(self, worker: int) -> memoryview:
        if not 0 <= worker < self.workers:
            raise IndexError(f"expected a worker of [0, {self.workers}), found {worker}")
        return memoryview(self._shared).cast("B").cast("q")[worker * _CELLS : (worker + 1) * _CELLS]

    def _own_stack_files(self, descriptors: list[int]) -> None:
        self._stack_files = descriptors
        weakref.finalize(self, _close, descriptors)

    def __getstate__(self) -> tuple[Any, ...]:
        assert_spawning(self)
        return self.workers, self._shared, [reduction.DupFd(file) for file in self._stack_files]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.workers, self._shared, files = state
        self._own_stack_files([file.detach() for file in files])


def _nameless_file() -> int:
    with tempfile.TemporaryFile(prefix="energon-stack-", buffering=0) as file:
        return os.dup(file.fileno())


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
