"""Decode pictures in worker processes, so that a broken or hostile one never harms the server."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..picture import PictureError, encoded_picture

__all__ = ["DecodePool", "make_thumbnail"]

_MAX_PIXELS = 100_000_000  # of a picture that is decoded: a bomb ends here
_QUALITY = 80
_T = TypeVar("_T")


def make_thumbnail(data: bytes, longest: int) -> bytes:
    """Return a JPEG of a picture, no side longer than ``longest`` pixels; a JPEG is decoded at a fraction of its size.

    Raises:
        PictureError: The picture is broken, or has more than 100 million pixels.
    """
    picture = encoded_picture(data)
    if picture.width * picture.height > _MAX_PIXELS:
        raise PictureError(
            f"the picture has {picture.width} × {picture.height} pixels; at most 100 million are decoded"
        )
    kept = io.BytesIO()
    picture.load(longest).save(kept, "JPEG", quality=_QUALITY)
    return kept.getvalue()


def _end_with_parent() -> None:
    """End this worker when the server is killed, which closes no pipe that the worker waits for."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    threading.Thread(target=wait, daemon=True).start()


class DecodePool:
    """Worker processes, and a bounded cache of the thumbnails that they made.

    Args:
        workers: Number of processes; they start with the first task.
        cache_bytes: Size of the cache.
    """

    def __init__(self, *, workers: int, cache_bytes: int = 64 << 20) -> None:
        self._workers = workers
        self._cache_bytes = cache_bytes
        self._size = 0
        self._cache: OrderedDict[Any, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: the server has threads.
        return ProcessPoolExecutor(
            self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
        )

    def run(self, function: Callable[..., _T], *args: Any) -> _T:
        """Run a function in a worker; a pool whose worker was killed starts again for the next task.

        Raises:
            BrokenProcessPool: The worker was killed.
        """
        with self._lock:
            pool = self._pool
        try:
            return pool.submit(function, *args).result()
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    self._pool = self._start()
            raise

    def thumbnail(self, name: Any, read: Callable[[], bytes], longest: int) -> bytes:
        """Return a thumbnail, from the cache if it is there.

        Args:
            name: Name of the picture in the cache.
            read: Reads the picture.
            longest: Pixels of its longer side.

        Raises:
            PictureError: The picture cannot be decoded.
        """
        with self._lock:
            known = self._cache.get((name, longest))
            if known is not None:
                self._cache.move_to_end((name, longest))
                return known
        try:
            made = self.run(make_thumbnail, read(), longest)
        except BrokenProcessPool as error:
            raise PictureError("the process that decoded it was killed") from error
        with self._lock:
            if (name, longest) not in self._cache:
                self._cache[name, longest] = made
                self._size += len(made)
            while self._size > self._cache_bytes:
                self._size -= len(self._cache.popitem(last=False)[1])
        return made

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._pool.shutdown(wait=False, cancel_futures=True)
