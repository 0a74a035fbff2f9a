"""Worker processes of the server that read samples, so that a broken or hostile one never harms it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, TypeVar

_T = TypeVar("_T")


class ReaderPool:
    """Worker processes, which start with the first function."""

    def __init__(self, *, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._context = multiprocessing.get_context("spawn")  # not fork: the server has threads
        self._workers_end, self._end = self._context.Pipe(duplex=False)
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._workers, mp_context=self._context, initializer=_prepare_worker, initargs=(self._workers_end,)
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
        """End the processes, also those that run a function."""
        with self._lock:
            self._end.close()
            # Wait, since Python's own end of the pool at exit fails if a thread of the pool ends at the same moment.
            self._pool.shutdown(wait=True, cancel_futures=True)


def _prepare_worker(pool: Connection) -> None:
    """End this worker when the pool is closed or the server is killed, whatever it does."""

    def wait() -> None:
        pool.poll(None)  # until the other end is closed
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    warnings.simplefilter("ignore")  # about what is in samples
    threading.Thread(target=wait, daemon=True).start()
