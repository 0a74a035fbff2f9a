"""The error for a worker process that died."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess

from ...errors import WorkerError
from .reports import last_sample_of, worker_name
from .stack_dump import crash_stack
from .worker_board import LastSampleBoard

__all__ = ["worker_died_error"]

_HINTS = {  # by the signal that ended the process
    "SIGKILL": "the system kills processes when memory runs out (see dmesg): try fewer workers or a smaller "
    "prefetch_factor, or ask for more memory where a scheduler limits it",
    "SIGBUS": "shared memory is probably full (see df): give it more room (docker run --shm-size=8g, or --ipc=host)",
    "SIGSEGV": "a library written in C crashed; the stack below says in which call",
    "SIGTERM": "somebody ended it: a scheduler, or a script",
}


def worker_died_error(
    processes: Sequence[BaseProcess], board: LastSampleBoard, describe: Callable[[int], str] | None = None
) -> WorkerError | None:
    """Make the error for the worker that died; None if all are alive, so that it must be something else.

    Args:
        processes: The workers, in the order of their numbers.
        board: Where they noted what they did.
        describe: Says what a worker began last, in place of its lane and position.
    """
    dead = [worker for worker, process in enumerate(processes) if process.exitcode is not None]
    if not dead:
        return None
    # Others may have ended as they should.
    worker = next((worker for worker in dead if processes[worker].exitcode), dead[0])
    process = processes[worker]
    code = process.exitcode or 0
    name = _signal_name(-code) if code < 0 else ""
    how = f"was killed by {name}" if name else f"ended with exit code {code} in the middle of its work"
    others = len(dead) - 1
    error = WorkerError(
        f"{worker_name(worker, process.pid)} {how}" + (f"; {others} more ended, too" if others else ""),
        at=last_sample_of(board, worker, describe),
        hint=_HINTS.get(name, "see what the process printed before it ended"),
    )
    stack = crash_stack(board, worker)
    if stack is not None:
        error.add_note(stack)
    return error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"
