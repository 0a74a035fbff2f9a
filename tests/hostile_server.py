"""A web server on loopback that answers each path with bytes that a test chooses, and counts what it was asked."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Answer", "HostileServer", "endless", "whole"]

Answer = Callable[[], Iterable[bytes]]
"""Returns the pieces of an answer, the head included."""


def whole(body: bytes, *headers: str, status: str = "200 OK") -> Answer:
    """Return an answer with all its bytes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return lambda: ["\r\n".join([*lines, "", ""]).encode() + body]


def endless(start: bytes, piece: bytes, *, pause_s: float = 0.0) -> Answer:
    """Return an answer that repeats a piece until the client leaves."""

    def pieces() -> Iterator[bytes]:
        yield start
        wait = threading.Event()
        for _ in itertools.count():
            wait.wait(pause_s)
            yield piece

    return pieces


class HostileServer:
    """Serves answers by path; ``""`` answers all others.

    Args:
        answers: Path → answer, or the text of a ``Location`` to redirect to.

    Attributes:
        requests: The target of each request as it was sent.
        connections: Number of connections.
    """

    def __init__(self, answers: Mapping[str, Answer | str]) -> None:
        self.answers = dict(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in [*self._open]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while head := self._head(connection):
                target = head.split(b" ")[1]
                self.requests.append(target)
                path = target.partition(b"?")[0].decode("latin-1")
                answer = self.answers.get(path, self.answers.get("", whole(b"", status="404 Not Found")))
                if isinstance(answer, str):
                    answer = whole(b"", f"Location: {answer}", status="302 Found")
                for piece in answer():
                    connection.sendall(piece)
        self._open.discard(connection)

    def _head(self, connection: socket.socket) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            received = connection.recv(1)
            if not received:
                return b""
            head += received
        return head
