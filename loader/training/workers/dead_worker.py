"""The error about a worker that died."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from ...errors import WorkerError
from .worker_board import WorkerBoard, read_crash_stack

_HINTS = {  # by the signal that ended the process
    "SIGKILL": "the system kills processes when memory runs out (see dmesg): try fewer workers or a smaller "
    "prefetch_factor, or ask for more memory where a scheduler limits it",
    "SIGBUS": "shared memory is probably full (see df): give it more room (docker run --shm-size=8g, or --ipc=host)",
    "SIGSEGV": "a library written in C crashed; see the stack below for the call",
    "SIGTERM": "a scheduler or a script ended the process; see its log",
    **dict.fromkeys(
        ("SIGHUP", "SIGUSR1", "SIGUSR2"),
        "a scheduler or a script sent it to all processes; workers ignore what the training program handles when they "
        "start, so install its handlers before the first micro-batch",
    ),
}
_HINT_FOR_EXIT_0 = (
    "an interrupt (SIGINT, Ctrl-C) ends a worker with exit code 0, as do a SIGTERM that its own rank sends, and "
    "sys.exit() in a hook"
)


def worker_died_error(
    worker: int, process: BaseProcess, board: WorkerBoard, describe: Callable[[int], str] | None = None
) -> WorkerError:
    """Build the error for a worker that ended before its last micro-batch.

    Args:
        describe: Names the last sample of a worker; by default lane and position do.
    """
    code = process.exitcode or 0
    name = _signal_name(-code) if code < 0 else ""
    how = f"was killed by {name}" if name else f"ended with exit code {code} in the middle of its work"
    error = WorkerError(
        f"{name_worker(worker, process.pid)} {how}",
        at=describe_last_sample(board, worker, describe),
        hint=_HINTS.get(name, "see what the process printed before it ended" if code else _HINT_FOR_EXIT_0),
    )
    stack = read_crash_stack(board, worker)
    if stack is not None:
        error.add_note(stack)
    return error


def name_worker(worker: int, pid: int | None) -> str:
    """Return the name of a worker in messages: its number and process, or ``this process`` without workers."""
    if pid == os.getpid():
        return "this process"
    return f"worker process {worker}" + ("" if pid is None else f" (pid {pid})")


def describe_last_sample(board: WorkerBoard, worker: int, describe: Callable[[int], str] | None = None) -> str:
    """Describe the sample that a worker started last: with ``describe``, if given, else by lane and position."""
    recorded = board.read(worker)
    if recorded is None:
        return "it was between samples, or in a hook for a batch"
    text = str(recorded)
    if describe is not None:
        try:
            text = describe(worker)
        except Exception as error:
            text += f" (no shard and key: {error})"
    return f"last sample started: {text}"


def _signal_name(signal_number: int) -> str:
    try:
        return signal.Signals(signal_number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {signal_number}"
