"""What is said of a worker that hangs or died: which one, what it was working on, and its stack."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from .stack_dump import take_stack_dump
from .worker_board import LastSampleBoard

__all__ = ["last_sample_of", "stack_of", "worker_name"]


def worker_name(worker: int, pid: int | None) -> str:
    """Name a worker: its number and process, or this process, where there are no others."""
    if pid == os.getpid():
        return "this process"
    return f"worker process {worker}" + ("" if pid is None else f" (pid {pid})")


def last_sample_of(board: LastSampleBoard, worker: int, describe: Callable[[int], str] | None = None) -> str:
    """Say which sample a worker began last: in the words of ``describe``, where it has any."""
    noted = board.read(worker)
    if noted is None:
        return "it had not begun a sample"
    text = str(noted)
    if describe is not None:
        try:
            text = describe(worker)
        except Exception as error:
            text += f" (of which no more can be said: {error})"
    return f"the last sample it began is {text}"


def stack_of(board: LastSampleBoard, worker: int, *, thread: int) -> str:
    """Give the stack of a worker, or why there is none; takes up to 2 s.

    Args:
        board: The board the worker writes to.
        worker: Which worker.
        thread: The thread of this process whose stack it is if there are no worker processes.
    """
    if board.pid(worker) == os.getpid():
        frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, and there is no other way
        text = "".join(traceback.format_stack(frame)).rstrip() if frame is not None else None
    else:
        text = take_stack_dump(board, worker)
    return text or "it gives no stack: it has not started, has ended, or waits for a disk or the network"
