"""Worker processes that hang or die in different ways, at position 7 of lane 3."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from loader.training.workers.worker_board import WorkerBoard, register_stack_dump


def sleep_in_the_hook() -> None:
    time.sleep(1000)


def sleep_while_a_thread_runs() -> None:
    # While a thread starts, its parent blocks all signals, and the thread handles them.
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    sleep_in_the_hook()


def be_stuck_in_c_code() -> None:
    readable, _ = os.pipe()
    ctypes.PyDLL(None).read(readable, ctypes.create_string_buffer(1), 1)  # unlike os.read, it keeps Python's lock


def be_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def crash_in_c_code() -> None:
    import numpy as np  # faulthandler lists what is written in C

    assert np.arange(3).sum() == 3
    vars(faulthandler)["_sigsegv"]()  # the stubs have no private functions


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_notified() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def be_ended_by_a_nameless_signal() -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 5)


def leave() -> None:
    sys.exit(4)


def take_a_second_to_leave() -> None:
    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc.sleep, ctypes.c_void_p), None)  # it is called with the exit code, after Python's end
    sys.exit(1)


def end_well() -> None:
    pass


def wait_for_a_message(connection: Any) -> None:
    connection.recv()


def work(board: WorkerBoard, worker: int, hook: Callable[..., Any], connection: Any, registers: bool) -> None:
    if registers:
        register_stack_dump(board, worker)
    board.slot(worker).note(3, 7)
    connection.send("at work")
    if hook is wait_for_a_message:
        hook(connection)
    else:
        hook()
    connection.send("done")


class Workers:
    """Processes that run their hooks, and a connection to each."""

    def __init__(self, *hooks: Callable[..., Any], method: str, registers: bool) -> None:
        context: Any = multiprocessing.get_context(method)
        self.board = WorkerBoard(len(hooks))
        self.processes = []
        self.connections = []
        for worker, hook in enumerate(hooks):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(self.board, worker, hook, theirs, registers))
            process.start()
            theirs.close()
            self.processes.append(process)
            self.connections.append(ours)
        for connection in self.connections:
            connection.recv()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        for connection in self.connections:
            connection.close()


@contextmanager
def workers(*hooks: Callable[..., Any], method: str = "fork", registers: bool = True) -> Iterator[Workers]:
    """Start a process for each hook, and kill all at the end of the block."""
    started = Workers(*hooks, method=method, registers=registers)
    try:
        yield started
    finally:
        started.close()
