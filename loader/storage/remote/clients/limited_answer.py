"""Answers of web servers, read within limits of time and bytes that hold where the bytes arrive.

No parser of HTTP has to know them: heads, ``100 Continue``, chunks and trailers without an end are ended alike.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

from ..failures import Remedy, RequestFailure

MAX_HEAD_BYTES = 64 << 10
"""Most bytes of the heads of an answer together; those of servers have less than 16 KiB."""

_MIN_RATE = 1024  # bytes a second of a body: slower ones would take hours for a picture
_PIECE_BYTES = 1 << 20
_MAX_FRAMING = 8  # times the bytes of a chunked body; a chunk of one byte takes six


class RequestLimits:
    """Limits of the rest of a request, with all its redirects.

    Args:
        stall_s: Seconds for each step: to connect, to get the head of an answer, and to get 1 KiB/s of its body on
            average over as many seconds. The time between reads does not count.
        request_s: Seconds for the whole request.
        clock: Returns seconds.
    """

    def __init__(self, *, stall_s: float, request_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stall_s = stall_s
        self._request_s = request_s
        self._clock = clock
        self._end = clock() + request_s
        self._bytes_left = self._arrived = 0
        self._is_body = False
        self._step_s = stall_s

    def begin_step(self, allowed_bytes: int = 0, *, is_body: bool = False) -> None:
        """Begin to connect, to get a head, or to get the next bytes of a body, in the time left of the last step.

        Args:
            allowed_bytes: Most bytes that may arrive.
            is_body: They are of a body, so that enough bytes win more time.
        """
        if not (is_body and self._is_body):
            self._step_s, self._arrived = self._stall_s, 0
        self._is_body = is_body
        self._bytes_left = allowed_bytes

    @contextmanager
    def waiting(self) -> Iterator[float]:
        """Yield the seconds that the next operation of a socket may take, and count those that it takes.

        Raises:
            RequestFailure: The time is over.
        """
        started = self._clock()
        left_s = min(self._step_s, self._end - started)
        if left_s <= 0:
            raise self._late()
        try:
            yield left_s
        finally:
            self._step_s -= self._clock() - started

    def receive(self, connection: socket, buffer: memoryview) -> int:
        """Receive bytes; 0 at the end.

        Raises:
            RequestFailure: There are more bytes than allowed, or they arrive too slowly.
        """
        if self._bytes_left <= 0:
            raise RequestFailure(
                "the server sends more than was requested" if self._is_body else "the head of the answer has no end",
                Remedy.RETRY_FEW,
                kind="broken",
            )
        try:
            with self.waiting() as left_s:
                connection.settimeout(left_s)
                count = connection.recv_into(buffer[: self._bytes_left])
        except TimeoutError:
            raise self._late() from None
        self._bytes_left -= count
        self._arrived += count
        if self._is_body and self._arrived >= _MIN_RATE * self._stall_s:
            self._step_s, self._arrived = self._stall_s, 0
        return count

    def _late(self) -> RequestFailure:
        if self._clock() >= self._end:
            cause = f"it took longer than {self._request_s:g} s"
        elif self._arrived:
            cause = f"only {self._arrived:,} bytes arrived in {self._stall_s:g} s"
        else:
            cause = "no byte arrived in time"
        return RequestFailure(cause, Remedy.RETRY, kind="slow")


class _Arriving(io.RawIOBase):
    def __init__(self, connection: socket, limits: RequestLimits) -> None:
        self._connection = connection
        self._limits = limits

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return the file that ``http.client`` parses."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._limits.receive(self._connection, memoryview(buffer))


class LimitedAnswer(http.client.HTTPResponse):
    """The answer to a request.

    Args:
        connection: The connection, on which the request was sent.
        method: Its method.
        limits: What it may take.
    """

    def __init__(self, connection: socket, method: str, limits: RequestLimits) -> None:
        super().__init__(_Arriving(connection, limits), method=method)  # type: ignore[arg-type]  # a makefile
        self._limits = limits

    def begin(self) -> None:
        """Read the head.

        Raises:
            HTTPException: It is not valid, or its body is encoded in another way than by chunks.
        """
        self._limits.begin_step(MAX_HEAD_BYTES)
        super().begin()
        if "Transfer-Encoding" in self.headers and not self.chunked:
            raise http.client.UnknownTransferEncoding

    @property
    def is_finished(self) -> bool:
        """True if the connection can be used for the next request."""
        return self.isclosed() and not self.will_close

    def pieces(self, most: int, *, piece_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
        """Yield the body.

        Args:
            most: Most bytes that it may have.
            piece_bytes: Most bytes of a piece.

        Raises:
            RequestFailure: It has more bytes, none of which is read if its length is known, or it ends early.
        """
        length = self.length
        if length is not None and length > most:
            raise RequestFailure(f"it has {length:,} bytes, more than {most:,}", Remedy.GIVE_UP, kind="too large")
        received = 0
        while True:
            size = min(piece_bytes, most + 1 - received)
            self._limits.begin_step(size * _MAX_FRAMING + MAX_HEAD_BYTES, is_body=True)
            with named_failures():
                data = self.read(size)
            if not data:
                break
            received += len(data)
            if received > most:
                raise RequestFailure(f"it has more than {most:,} bytes", Remedy.GIVE_UP, kind="too large")
            yield data
        if length is not None and received < length:
            raise RequestFailure(f"expected {length:,} bytes, found {received:,}", Remedy.RETRY, kind="broken")

    def read_most(self, most: int) -> bytes:
        """Return the body; see :meth:`pieces`."""
        known = _PIECE_BYTES if self.length is None else max(1, self.length)
        pieces = [*self.pieces(most, piece_bytes=known)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextmanager
def named_failures() -> Iterator[None]:
    """Raise a :class:`.RequestFailure` for what goes wrong on a connection."""
    try:
        yield
    except RequestFailure:
        raise
    except http.client.IncompleteRead as error:
        raise RequestFailure("the answer was cut short", Remedy.RETRY, kind="broken") from error
    except (http.client.BadStatusLine, ConnectionError) as error:
        raise RequestFailure("the connection broke", Remedy.RETRY, kind="broken") from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        cause = f"the answer is invalid ({type(error).__name__})"
        raise RequestFailure(cause, Remedy.RETRY_FEW, kind="broken") from None
