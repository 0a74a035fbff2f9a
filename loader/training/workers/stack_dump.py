"""The Python stack of a worker process that does not answer: what it is doing, written by the process itself.

``faulthandler`` writes it from a signal handler in C, so that it comes even where the process is stuck inside a
library that never returns to Python.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time

from .worker_board import LastSampleBoard

__all__ = ["WATCHDOG_SIGNAL", "crash_stack", "register_stack_dump", "take_stack_dump"]

WATCHDOG_SIGNAL = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
"""A signal that nobody else is likely to use: trainers, schedulers and the Java machine take SIGUSR1 and SIGUSR2."""

_WAIT_S = 2.0
_QUIET_S = 0.1  # a dump is written in many small pieces


def register_stack_dump(board: LastSampleBoard, worker: int) -> None:
    """Let this worker process write its stack when its rank asks for it, and when it crashes.

    Args:
        board: Has the file for it.
        worker: Which worker this process is.
    """
    # The handlers keep the number of the descriptor; one of our own is never closed, and so never another file's.
    file = os.dup(board.stack_file(worker))
    if threading.current_thread() is threading.main_thread():
        # Python's end takes faulthandler's handler away again, and then the signal would kill a process that is about
        # to end by itself, and so hide how it did.
        signal.signal(WATCHDOG_SIGNAL, signal.SIG_IGN)
    faulthandler.register(WATCHDOG_SIGNAL, file=file, all_threads=True)
    # Where it was enabled before the fork it would only write elsewhere, although somebody may have taken its handlers
    # away: Lightning puts all handlers back at the end of a training, and this one to the system's.
    faulthandler.disable()
    faulthandler.enable(file=file, all_threads=True)
    board.set_dumps_stacks(worker)


def take_stack_dump(board: LastSampleBoard, worker: int) -> str | None:
    """Ask a worker for the stacks of its threads; None if none comes within 2 s.

    Args:
        board: The board that the worker registered with.
        worker: Which worker.
    """
    pid = board.pid(worker)
    if pid is None or not board.dumps_stacks(worker):
        return None
    file = board.stack_file(worker)
    start = size = os.fstat(file).st_size
    try:
        os.kill(pid, WATCHDOG_SIGNAL)
    except ProcessLookupError:
        return None
    deadline = time.monotonic() + _WAIT_S
    grown_at = deadline
    while (now := time.monotonic()) < min(deadline, grown_at + _QUIET_S):
        time.sleep(0.01)
        if (found := os.fstat(file).st_size) > size:
            size, grown_at = found, now
    return _text(file, start, size)


def crash_stack(board: LastSampleBoard, worker: int) -> str | None:
    """Give the stack that a worker wrote when it crashed (by a fault in a library, say); None if it wrote none."""
    file = board.stack_file(worker)
    text = _text(file, 0, os.fstat(file).st_size) or ""
    start = text.find("Fatal Python error")
    return None if start < 0 else text[start:]


def _text(file: int, start: int, end: int) -> str | None:
    """Read a dump, the thread that works before those that it started."""
    text = os.pread(file, end - start, start).decode(errors="replace").strip()
    blocks = [block for block in text.split("\n\n") if not block.startswith("Extension modules: ")]
    blocks.sort(key=lambda block: block.startswith("Thread "))
    return "\n\n".join(blocks) or None
