"""Worker processes that read samples, so that a hostile one never harms the server, and what runs in them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar

from ...errors import FormatError
from .dataset import BrowsedDataset, DatasetAddress

MAX_PART_BYTES = 256 << 20
"""Size of a part that is read as a whole."""
_T = TypeVar("_T")


class PartAddress(NamedTuple):
    """A part for worker processes: its dataset, the number of its sample, and its name."""

    dataset: DatasetAddress
    number: int
    part: str


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
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._end.close()


# ------------------------------------------------------------------------------------------ in a worker process


def _prepare_worker(pool: Connection) -> None:
    """End this worker when the pool is closed or the server is killed, whatever it does."""

    def wait() -> None:
        pool.poll(None)  # until the other end is closed
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    warnings.simplefilter("ignore")  # about what is in samples
    threading.Thread(target=wait, daemon=True).start()


def read_part(address: PartAddress) -> bytes:
    """Read a part in a worker process.

    Raises:
        KeyError: The sample has no such part.
    """
    dataset = open_dataset(address.dataset)
    place = dataset.part_place(address.number, address.part)
    if place.size_bytes > MAX_PART_BYTES:
        raise FormatError(
            f"the part has {place.size_bytes:,} bytes; at most {MAX_PART_BYTES:,} are read",
            shard=dataset.folder.storage.path(dataset.folder.index.shard_of(address.number).name),
            hint="save it, or print it with energon get",
        )
    return dataset.read(address.number, place)


@lru_cache(maxsize=8)
def open_dataset(address: DatasetAddress) -> BrowsedDataset:
    """Return a dataset that this worker process has opened, or opens."""
    dataset = BrowsedDataset("", address.ref)
    if dataset.version != address.version:
        raise FormatError(
            "the dataset was prepared again while it is browsed", at=address.ref.path, hint="load the page again"
        )
    return dataset
