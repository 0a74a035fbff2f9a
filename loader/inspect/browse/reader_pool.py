"""Run functions that read samples in worker processes, so that a hostile sample never harms the server."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

__all__ = ["ReaderPool"]

_T = TypeVar("_T")


def _end_with_parent() -> None:
    """End this worker when the server is killed, which closes no pipe that the worker waits for."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    threading.Thread(target=wait, daemon=True).start()


class ReaderPool:
    """Worker processes, which start with the first function.

    Args:
        workers: Number of processes.
    """

    def __init__(self, *, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: the server has threads.
        return ProcessPoolExecutor(
            self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
        )

    def submit(self, function: Callable[..., _T], *args: Any) -> Future[_T]:
        """Start a function in a worker; a pool whose worker was killed starts again."""
        with self._lock:
            try:
                return self._pool.submit(function, *args)
            except BrokenProcessPool:
                self._pool = self._start()
                return self._pool.submit(function, *args)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._pool.shutdown(wait=False, cancel_futures=True)
