"""Worker processes of the server that read samples, so that a broken or hostile one never harms it.

The event loop talks with each process over a socket of its own. Threads and locks of a general process
pool would take longer than a thumbnail.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ...engine.workers import sendable_error
from ...errors import WorkerError

_T = TypeVar("_T")

_LENGTH_BYTES = 4  # before each message
_MAX_RECEIVED_BYTES = 1 << 18  # at a time


class _NotBegunError(Exception):
    """The worker ended at an earlier function."""


class WorkerPool:
    """Worker processes, which start with the first function, for one event loop.

    Attributes:
        slots: Held by callers, as many as keep all workers busy; more would only wait.
    """

    def __init__(self, *, workers: int, ahead: int = 1) -> None:
        self.slots = asyncio.Semaphore(workers * ahead)
        self._size = workers
        self._workers: list[_Worker] = []
        self._is_closed = False

    def start(self) -> None:
        """Start the processes, without waiting for them; those that were killed start again."""
        while len(self._workers) < self._size:
            self._workers.append(_Worker(self._workers.remove, self.killed))

    async def call(self, function: Callable[..., _T], *args: Any) -> _T:
        """Return what a function returns in a worker, or raise its error."""
        while not self._is_closed:
            self.start()
            # A worker that ends fails only the function that it runs; other workers run the rest.
            worker = min(self._workers, key=lambda worker: len(worker.running))
            try:
                result: _T = await worker.call(function, args)
            except _NotBegunError:
                continue
            return result
        raise self.killed()

    def killed(self) -> Exception:
        """Return the error of a function whose process was killed."""
        return WorkerError("the process that read the sample was killed")

    def close(self) -> None:
        """End the processes, while the event loop still runs."""
        self._is_closed = True
        for worker in list(self._workers):
            worker.end()


class _Worker:
    """A process that runs functions, one after the other.

    Attributes:
        running: The results of its functions, in order; it works at the first one.
    """

    def __init__(self, on_end: Callable[[_Worker], None], killed: Callable[[], Exception]) -> None:
        self.running: deque[asyncio.Future[Any]] = deque()
        self._on_end = on_end
        self._killed = killed
        self._socket, its_end = socket.socketpair()
        self._socket.setblocking(False)
        self._received = bytearray()
        context = multiprocessing.get_context("spawn")  # not fork: the server has threads
        self._process = context.Process(target=_serve, args=(its_end,), daemon=True)
        self._process.start()
        its_end.close()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Return a result; raise a ``_NotBegunError`` if the process has ended at an earlier function."""
        try:
            self._socket.sendall(_message((function, args)))  # never blocks: functions are few, with small arguments
        except ConnectionError as error:
            while not self._is_closed:  # it has ended; what it made before is kept
                self._receive()
            raise _NotBegunError from error
        result: asyncio.Future[Any] = self._loop.create_future()
        self.running.append(result)
        return await result

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
            error, result = pickle.loads(memoryview(self._received)[_LENGTH_BYTES:end])  # noqa: S301 - from a worker
            del self._received[:end]
            future = self.running.popleft()
            if future.done():  # the request was cancelled
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def end(self) -> None:
        """End the process; the function that it runs fails, since it may be the reason."""
        if self._is_closed:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.terminate()
        self._on_end(self)
        # The later functions are not begun.
        reason = self._killed()
        for future in self.running:
            if not future.done():
                future.set_exception(reason)
            reason = _NotBegunError()


def _message(value: Any) -> bytes:
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
    warnings.simplefilter("ignore")  # about what is in samples
    threading.Thread(target=_end_with_server, daemon=True).start()
    with connection, connection.makefile("rb") as calls, suppress(ConnectionError):
        while len(length := calls.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            function, args = pickle.loads(calls.read(int.from_bytes(length, "little")))  # noqa: S301 - from the server
            try:
                answer = _message((None, function(*args)))
            except Exception as error:  # noqa: BLE001 - the server raises it
                answer = _message((sendable_error(error), None))
            connection.sendall(answer)


def _end_with_server() -> None:
    """End this worker when the server is killed, whatever it does."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)
