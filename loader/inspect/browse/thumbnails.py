"""Decode pictures in worker processes, so that a broken or hostile one never harms the server."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import numpy as np
import simplejpeg
from PIL import Image

from ..picture import PictureError, encoded_picture
from .dataset import PartAddress, read_part

__all__ = ["DecodePool", "make_thumbnail"]

_MAX_PIXELS = 100_000_000  # of a picture that is decoded: a bomb ends here
_QUALITY = 80
_JPEG = b"\xff\xd8\xff"
_COLOURS = ("YCbCr", "Gray", "RGB")
_T = TypeVar("_T")


def make_thumbnail(data: bytes, longest: int) -> bytes:
    """Return a JPEG of a picture, no side longer than ``longest`` pixels; a JPEG is decoded at a fraction of its size.

    Raises:
        PictureError: The picture is broken, or has more than 100 million pixels.
    """
    if data.startswith(_JPEG):
        made = _jpeg_thumbnail(data, longest)
        if made is not None:
            return made
    picture = encoded_picture(data)
    _check_size(picture.width, picture.height)
    kept = io.BytesIO()
    picture.load(longest).save(kept, "JPEG", quality=_QUALITY)
    return kept.getvalue()


def _jpeg_thumbnail(data: bytes, longest: int) -> bytes | None:
    """Return a thumbnail of a JPEG in a third of Pillow's time; None for one with other colours or with faults."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        _check_size(width, height)
        if colours not in _COLOURS:
            return None
        scale = min(1.0, longest / max(width, height))
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = simplejpeg.decode_jpeg(data, "RGB", fastdct=True, min_height=size[1], min_width=size[0])
    except ValueError:
        return None
    if pixels.shape[:2] != size[::-1]:
        pixels = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    made: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), _QUALITY, "RGB", "420")
    return made


def _check_size(width: int, height: int) -> None:
    if width * height > _MAX_PIXELS:
        raise PictureError(f"the picture has {width} × {height} pixels; at most 100 million are decoded")


def _thumbnail_of(place: PartAddress, longest: int) -> bytes:
    return make_thumbnail(read_part(place), longest)


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

    def start(self) -> None:
        """Start the processes before the first task, without waiting for them."""
        for _ in range(self._workers):
            self.submit(os.getpid)

    def submit(self, function: Callable[..., _T], *args: Any) -> Future[_T]:
        """Start a function in a worker; a pool whose worker was killed starts again."""
        with self._lock:
            try:
                return self._pool.submit(function, *args)
            except BrokenProcessPool:
                self._pool = self._start()
                return self._pool.submit(function, *args)

    def thumbnail(self, name: str, place: PartAddress, longest: int) -> Future[bytes]:
        """Return a thumbnail, from the cache if it is there; else a worker reads the picture and decodes it.

        The result raises ``PictureError`` if the picture cannot be decoded, ``EnergonError`` if it cannot be read, and
        ``BrokenProcessPool`` if the worker was killed.

        Args:
            name: Name of the picture in the cache.
            place: The picture.
            longest: Pixels of its longer side.
        """
        with self._lock:
            known = self._cache.get((name, longest))
            if known is not None:
                self._cache.move_to_end((name, longest))
        if known is not None:
            done: Future[bytes] = Future()
            done.set_result(known)
            return done
        running = self.submit(_thumbnail_of, place, longest)
        running.add_done_callback(lambda done: self._keep((name, longest), done))
        return running

    def _keep(self, name: tuple[str, int], done: Future[bytes]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        made = done.result()
        with self._lock:
            if name not in self._cache:
                self._cache[name] = made
                self._size += len(made)
            while self._size > self._cache_bytes:
                self._size -= len(self._cache.popitem(last=False)[1])

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._pool.shutdown(wait=False, cancel_futures=True)
