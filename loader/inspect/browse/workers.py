"""Worker processes of the server that make thumbnails, so that a broken or hostile sample never harms it.

The event loop talks with each process over a socket of its own. Threads and locks of a general process
pool would take longer than a thumbnail.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import signal
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import simplejpeg
from PIL import Image

from ...errors import EnergonError, FormatError, error_text
from ...samples.picture import PictureError, encoded_picture
from .dataset import BrowsedDataset, DatasetAddress

MAX_PART_BYTES = 256 << 20
"""Size of a part that is read as a whole."""


class PartAddress(NamedTuple):
    """A part for worker processes: its dataset, the number of its sample, and its name."""

    dataset: DatasetAddress
    number: int
    part: str


# ------------------------------------------------------------------------------------------ in a worker process


def read_part(address: PartAddress) -> bytes:
    """Read a part in a worker process; raise a ``KeyError`` for an unknown one."""
    dataset = open_dataset(address.dataset)
    location = dataset.part_place(address.number, address.part)
    if location.size_bytes > MAX_PART_BYTES:
        raise FormatError(
            f"the part has {location.size_bytes:,} bytes; at most {MAX_PART_BYTES:,} are read",
            shard=dataset.folder.storage.path(dataset.folder.index.shard_of(address.number).name),
            hint="save it, or print it with energon get",
        )
    return dataset.read(address.number, location)


@lru_cache(maxsize=8)
def open_dataset(address: DatasetAddress) -> BrowsedDataset:
    """Return a dataset that this worker process has opened, or opens."""
    dataset = BrowsedDataset("", address.ref)
    if dataset.version != address.version:
        raise FormatError(
            "the dataset was prepared again while it is browsed", at=address.ref.path, hint="load the page again"
        )
    return dataset


# ------------------------------------------------------------------------------------------------- thumbnails


_MAX_PIXELS = 100_000_000  # of a picture that is decoded: a bomb ends here
_QUALITY = 80  # of JPEG
_JPEG = b"\xff\xd8\xff"
_COLOURS = ("YCbCr", "Gray", "RGB")  # that the fast decoder converts
_MIN_SCALE, _MAX_SCALE = 7 / 8, 5 / 4  # of the wanted size, which a decoder of JPEG hits in steps of an eighth


_LENGTH_BYTES = 4  # before each message
_MAX_RECEIVED_BYTES = 1 << 18  # at a time
_MAX_DECODE_S = 20  # a picture that takes longer ends its process


_Task = tuple[PartAddress, int]
"""A picture, and the wanted pixels of its longer side."""


class _NotBegunError(Exception):
    """The worker ended at an earlier picture."""


class ThumbnailPool:
    """Worker processes, which start with the first thumbnail, and a bounded cache of thumbnails, for one event loop."""

    def __init__(self, *, workers: int, cache_bytes: int = 64 << 20) -> None:
        self.max_running = 2 * workers
        """Number of thumbnails that keep all workers busy; more would only wait."""
        self._max_workers = workers
        self._workers: list[_Worker] = []
        self._cache_bytes = cache_bytes
        self._size = 0
        self._cache: OrderedDict[str, bytes] = OrderedDict()

    def start(self) -> None:
        """Start the processes, without waiting for them; those that were killed start again."""
        while len(self._workers) < self._max_workers:
            self._workers.append(_Worker(self._workers.remove))

    async def thumbnail(self, name: str, part: PartAddress, longest: int) -> bytes:
        """Return a thumbnail, from the cache if it is there; else a worker reads the picture and decodes it.

        Args:
            longest: Pixels of its longer side; see :func:`make_thumbnail`.

        Raises:
            KeyError: The sample has no such part.
        """
        known = self._cache.get(name)
        if known is not None:
            self._cache.move_to_end(name)
            return known
        made = await self._make((part, longest))
        self._keep(name, made)
        return made

    async def _make(self, task: _Task) -> bytes:
        while True:
            self.start()
            # A worker that ends fails only the picture that it works at; other workers make the rest.
            worker = min(self._workers, key=lambda worker: len(worker.running))
            try:
                return await worker.make(task)
            except _NotBegunError:
                continue

    def _keep(self, name: str, made: bytes) -> None:
        if name not in self._cache:
            self._cache[name] = made
            self._size += len(made)
        # Drop what was not used for the longest time.
        while self._size > self._cache_bytes:
            self._size -= len(self._cache.popitem(last=False)[1])

    def close(self) -> None:
        """End the processes, while the event loop still runs."""
        for worker in list(self._workers):
            worker.end()


class _Worker:
    """A process that makes thumbnails, one after the other.

    Attributes:
        running: The thumbnails that it has to make, in order; it works at the first one.
    """

    def __init__(self, on_end: Callable[[_Worker], None]) -> None:
        self.running: deque[asyncio.Future[bytes]] = deque()
        self._on_end = on_end
        self._socket, its_end = socket.socketpair()
        self._socket.setblocking(False)
        self._received = bytearray()
        context = multiprocessing.get_context("spawn")  # not fork: the server has threads
        self._process = context.Process(target=_serve, args=(its_end,), daemon=True)
        self._process.start()
        its_end.close()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)

    async def make(self, task: _Task) -> bytes:
        """Return a thumbnail; raise a ``_NotBegunError`` if the process has ended at an earlier one."""
        try:
            self._socket.sendall(_message(task))  # never blocks: tasks are few and small
        except ConnectionError as error:
            while not self._is_closed:  # it has ended; what it made before is kept
                self._receive()
            raise _NotBegunError from error
        made: asyncio.Future[bytes] = self._loop.create_future()
        self.running.append(made)
        return await made

    @property
    def _is_closed(self) -> bool:
        return self._socket.fileno() < 0

    def _receive(self) -> None:
        try:
            some = self._socket.recv(_MAX_RECEIVED_BYTES)
        except BlockingIOError:
            return
        except OSError:
            some = b""
        if not some:
            self.end()
            return
        self._received += some
        # One read may bring several answers, or a part of one.
        while len(self._received) >= (end := _end_of_message(self._received)):
            made = pickle.loads(memoryview(self._received)[_LENGTH_BYTES:end])  # noqa: S301 - from a worker
            self._finish(made)
            del self._received[:end]

    def _finish(self, made: bytes | Exception) -> None:
        future = self.running.popleft()
        if future.done():  # the request was cancelled
            return
        if isinstance(made, bytes):
            future.set_result(made)
        else:
            future.set_exception(made)

    def end(self) -> None:
        """End the process; the first thumbnail that is not made fails, since it may be the reason."""
        if self._is_closed:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.terminate()
        self._on_end(self)
        reason: Exception = PictureError(
            f"the process that decoded the picture was killed; it may take at most {_MAX_DECODE_S} seconds"
        )
        # The first picture fails, since it may be the reason; the later ones are not begun.
        for future in self.running:
            if not future.done():
                future.set_exception(reason)
            reason = _NotBegunError()


def _message(value: _Task | bytes | Exception) -> bytes:
    body = pickle.dumps(value)
    return len(body).to_bytes(_LENGTH_BYTES, "little") + body


def _end_of_message(received: bytes | bytearray) -> int:
    """Return where the first message ends; before its length is known, where that ends."""
    if len(received) < _LENGTH_BYTES:
        return _LENGTH_BYTES
    return _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "little")


# ------------------------------------------------------------------------------------------ in a worker process


def _serve(connection: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    with connection, connection.makefile("rb") as tasks, suppress(ConnectionError):
        while len(length := tasks.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            task = pickle.loads(tasks.read(int.from_bytes(length, "little")))  # noqa: S301 - from the server
            connection.sendall(_message(_result(*task)))


def _result(picture: PartAddress, longest: int) -> bytes | Exception:
    try:
        data = read_part(picture)
        signal.alarm(_MAX_DECODE_S)
        try:
            return make_thumbnail(data, longest)
        finally:
            signal.alarm(0)
    except (EnergonError, PictureError, KeyError) as error:
        return error
    except Exception as error:  # noqa: BLE001 - a codec may raise anything
        return PictureError(error_text(error))


def make_thumbnail(data: bytes, longest: int) -> bytes:
    """Return a JPEG of a picture, whose longer side has about ``longest`` pixels, or less if the picture is smaller.

    A JPEG is decoded at a fraction of its size, and resized only if the result is more than an eighth smaller or a
    quarter larger than wanted: resizing takes longer than decoding and encoding together.
    """
    if data.startswith(_JPEG):
        made = _jpeg_thumbnail(data, longest)
        if made is not None:
            return made
    picture = encoded_picture(data)
    _check_size(picture.width, picture.height)
    return picture.jpeg(longest)


def _jpeg_thumbnail(data: bytes, longest: int) -> bytes | None:
    """Return a thumbnail of a JPEG in a fraction of Pillow's time; None for one with other colours or with faults."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        _check_size(width, height)
        if colours not in _COLOURS:
            return None
        scale = min(1.0, longest / max(width, height))
        least = scale * _MIN_SCALE if scale < 1 else 1.0
        pixels = simplejpeg.decode_jpeg(
            data, "RGB", fastdct=True, min_height=_scaled(height, least), min_width=_scaled(width, least)
        )
    except ValueError:
        return None
    if max(pixels.shape) > longest * _MAX_SCALE:
        size = _scaled(width, scale), _scaled(height, scale)
        pixels = np.ascontiguousarray(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR))
    made: bytes = simplejpeg.encode_jpeg(pixels, _QUALITY, "RGB", "420")
    return made


def _scaled(side: int, scale: float) -> int:
    return max(1, round(side * scale))


def _check_size(width: int, height: int) -> None:
    if width * height > _MAX_PIXELS:
        raise PictureError(f"the picture has {width} × {height} pixels; at most 100 million are decoded")
