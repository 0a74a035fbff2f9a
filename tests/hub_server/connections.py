"""A connection of a client: requests of HTTP/1.1 in, answers out, with the faults that break a body."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any

from .answers import Answer, LoggedRequest, Request

__all__ = ["Connection", "OpenFiles"]

_SENDFILE_BYTES = 1 << 20  # from which on the kernel copies the bytes; less is read and written with the headers
_OPEN_FILES = 512


class OpenFiles:
    """Files of blobs, kept open: a repository may have thousands, which are read at random."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, int] = OrderedDict()

    def read(self, path: Path, start: int, size: int) -> bytes:
        descriptor = self._open.pop(path, None)
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._open[path] = descriptor
        if len(self._open) > _OPEN_FILES:
            os.close(self._open.popitem(last=False)[1])
        return os.pread(descriptor, size, start)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


class Connection(asyncio.Protocol):
    """A connection; its requests are answered one after the other.

    Args:
        handle: Called for each request; it must call :meth:`send` or :meth:`reset` at some time.
        files: The open files of the server.
        connections: Where it is listed while it is open.
        tasks: Where sending large files is listed.
        is_cdn: As of :class:`Request`.
    """

    def __init__(
        self,
        handle: Callable[[Request, Connection], None],
        files: OpenFiles,
        connections: set[Connection],
        tasks: set[asyncio.Task[None]],
        *,
        is_cdn: bool,
    ) -> None:
        self._handle, self._files, self._connections, self._tasks = handle, files, connections, tasks
        self._is_cdn = is_cdn
        self._received = bytearray()
        self._head: tuple[str, dict[str, str], int] | None = None  # request line, headers, size of the body
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host, self._port = transport.get_extra_info("peername")[:2]
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._next()

    def _next(self) -> None:
        """Hand on the next request, if all of it is there and no other is being answered."""
        if self._is_busy:
            return
        if self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            first, *lines = self._received[:end].decode("latin-1").split("\r\n")
            del self._received[: end + 4]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if headers.get("expect", "").lower() == "100-continue":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
            if first.count(" ") != 2:
                self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                self.transport.close()
                return
            self._head = first, headers, -1 if is_chunked else int(headers.get("content-length", "0"))
        first, headers, size = self._head
        body = self._take_chunks() if size < 0 else self._take(size)
        if body is None:
            return
        self._head = None
        self._is_busy = True
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        self._handle(Request(method, path, query, headers, body, self._is_cdn, self._host, self._port), self)

    def _take(self, size: int) -> bytes | None:
        if len(self._received) < size:
            return None
        body = bytes(self._received[:size])
        del self._received[:size]
        return body

    def _take_chunks(self) -> bytes | None:
        pieces: list[bytes] = []
        at = 0
        while True:
            end = self._received.find(b"\r\n", at)
            if end < 0:
                return None
            size = int(bytes(self._received[at:end]).split(b";")[0], 16)
            at = end + 2 + size + 2  # of the next chunk
            if len(self._received) < at:
                return None
            if not size:
                del self._received[:at]
                return b"".join(pieces)
            pieces.append(bytes(self._received[end + 2 : end + 2 + size]))

    # ------------------------------------------------------------------------------------------------------ answers

    def send(self, answer: Answer, request: Request, logged: LoggedRequest) -> None:
        """Send an answer, with the fault that the log names."""
        logged.status = answer.status
        answer.headers.setdefault("Content-Length", str(answer.length))
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        is_last = request.headers.get("connection", "").lower() == "close"
        if request.method == "HEAD" or not answer.length:
            self.transport.write(head)
        elif logged.fault in ("reset in body", "stall", "short body"):
            half = answer.read()[: answer.length // 2]
            logged.sent_bytes = len(half)
            self.transport.write(head + half)
            if logged.fault == "stall":
                return  # nothing more until the client gives up
            if logged.fault == "reset in body":
                asyncio.get_running_loop().call_later(0.05, self.reset)  # what is sent must arrive first
            else:
                self.transport.close()
            return
        elif answer.blob is not None and isinstance(answer.blob.data, Path) and answer.size >= _SENDFILE_BYTES:
            self._run(self._send_file(head, answer.blob.data, answer, logged, is_last=is_last))
            return
        elif answer.blob is not None and isinstance(answer.blob.data, Path):
            self.transport.write(head + self._files.read(answer.blob.data, answer.start, answer.size))
            logged.sent_bytes = answer.size
        else:
            self.transport.write(head + answer.read())
            logged.sent_bytes = answer.length
        self._end_answer(is_last=is_last)

    async def _send_file(
        self, head: bytes, path: Path, answer: Answer, logged: LoggedRequest, *, is_last: bool
    ) -> None:
        self.transport.write(head)
        loop = asyncio.get_running_loop()
        try:
            with path.open("rb") as file:
                while logged.sent_bytes < answer.size:  # in pieces, since a client may leave
                    size = min(_SENDFILE_BYTES, answer.size - logged.sent_bytes)
                    at = answer.start + logged.sent_bytes
                    logged.sent_bytes += await loop.sendfile(self.transport, file, at, size)
        except (ConnectionError, RuntimeError):  # the client has gone; the latter says so of a closing transport
            self.transport.abort()
            return
        self._end_answer(is_last=is_last)

    def _run(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(sending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _end_answer(self, *, is_last: bool) -> None:
        self._is_busy = False
        if is_last:
            self.transport.close()
        elif self._received:
            self._next()

    def reset(self) -> None:
        """Close the connection so that the client gets a reset."""
        if self.transport.is_closing():
            return
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
