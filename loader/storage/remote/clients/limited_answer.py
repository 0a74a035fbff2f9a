"""Connect to allowed addresses only, and read answers within limits of time and bytes that hold where bytes arrive.

No parser of HTTP has to know them: heads, ``100 Continue``, chunks and trailers without an end are ended alike.
"""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal

from ..failures import Remedy, RequestFailure

MAX_HEAD_BYTES = 64 << 10
"""Most bytes of the heads of an answer together; servers send less than 16 KiB."""

_MIN_RATE = 1024  # bytes a second of a body: slower ones would take hours for a picture
_PIECE_BYTES = 1 << 20
_MAX_FRAMING = 8  # times the bytes of a chunked body; a chunk of one byte takes six


class RequestLimits:
    """Limits of the rest of a request, with all its redirects.

    Args:
        stall_s: Seconds for each step: to connect, to get the head of an answer, and to get 1 KiB/s of its body on
            average over as many seconds. The time between reads does not count.
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
        # The next bytes of a body share the time of those before, so that pauses between reads win none.
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

    def receive(self, connection: socket.socket, buffer: memoryview) -> int:
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
        # Enough bytes arrived: the body gets as much time again.
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
    def __init__(self, connection: socket.socket, limits: RequestLimits) -> None:
        self._connection = connection
        self._limits = limits

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._limits.receive(self._connection, memoryview(buffer))


class LimitedAnswer(http.client.HTTPResponse):
    """The answer to a request."""

    def __init__(self, connection: socket.socket, method: str, limits: RequestLimits) -> None:
        super().__init__(_Arriving(connection, limits), method=method)  # type: ignore[arg-type]  # a makefile
        self._limits = limits

    def begin(self) -> None:
        self._limits.begin_step(MAX_HEAD_BYTES)
        super().begin()
        if "Transfer-Encoding" in self.headers and not self.chunked:
            raise http.client.UnknownTransferEncoding

    @property
    def is_finished(self) -> bool:
        return self.isclosed() and not self.will_close

    def pieces(self, most: int, *, piece_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
        """Yield the body, of ``most`` bytes at most, in pieces."""
        # Refuse a body that is announced as too large before it is read.
        length = self.length
        if length is not None and length > most:
            raise RequestFailure(f"it has {length:,} bytes, more than {most:,}", Remedy.GIVE_UP, kind="too large")
        received = 0
        # Read one byte more than is allowed, which shows that there is more.
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


AddressKind = Literal["public", "private", "special"]
"""``private`` is also loopback; ``special`` is link-local, as of the credentials of cloud machines, multicast, reserved
or without a meaning, as ``0.0.0.0``."""

PUBLIC = frozenset[AddressKind]({"public"})
PRIVATE = frozenset[AddressKind]({"public", "private"})
"""Kinds that URLs in data may lead to, and those if the user allows private ones."""

_NAT64 = IPv6Network("64:ff9b::/96")
_THIS_NETWORK = ip_network("0.0.0.0/8")
_METADATA = frozenset(map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
"""Where cloud machines find their credentials and settings, besides link-local addresses."""


def kind_of_address(text: str) -> AddressKind:
    """Return the kind of an address; one of IPv4 in one of IPv6 counts as itself.

    >>> [kind_of_address(text) for text in ("1.1.1.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254")]
    ['public', 'private', 'private', 'private', 'special']
    """
    address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    # Some addresses of IPv6 lead to one of IPv4, which would pass the checks otherwise.
    if isinstance(address, IPv6Address):
        inner = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
        address = address.ipv4_mapped or address.sixtofour or inner or address
    if address.is_loopback:
        return "private"
    if address.is_link_local or address.is_multicast or address.is_reserved or address.is_unspecified:
        return "special"
    if address in _THIS_NETWORK or address in _METADATA:
        return "special"
    is_site = isinstance(address, IPv6Address) and address.is_site_local
    return "public" if address.is_global and not is_site else "private"


def connect(
    host: str, port: int, allowed: Collection[AddressKind], limits: RequestLimits
) -> tuple[socket.socket, AddressKind]:
    """Connect to a host at an address of an allowed kind: to the very address that was checked.

    Raises:
        OSError: There is no connection.
        RequestFailure: All addresses are of other kinds, or the time is over.
    """
    # Resolve once, and connect to what was checked: a second answer of the name server may differ.
    addresses = [
        (kind_of_address(str(address[0])), family, address) for family, _, _, _, address in _resolve(host, port, limits)
    ]
    usable = [each for each in addresses if each[0] in allowed]
    if not usable:
        raise _refused(host, str(addresses[0][2][0]), addresses[0][0])
    fault: OSError | None = None
    # Try each address, with its share of the time that is left.
    for failed, (kind, family, address) in enumerate(usable):
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            with limits.waiting() as left_s:
                connection.settimeout(left_s / (len(usable) - failed))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            fault = fault or error
        else:
            return connection, kind
    raise fault or OSError("no address")


def check_proxied(host: str, allowed: Collection[AddressKind]) -> AddressKind:
    """Return the kind of a host that a proxy connects to: names are resolved by the proxy, which has to refuse some."""
    try:
        address = str(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)[0][4][0])
    except (OSError, ValueError):
        if not f".{host.rstrip('.').lower()}".endswith(".localhost"):
            return "public"
        address = "127.0.0.1"
    kind = kind_of_address(address)
    if kind not in allowed:
        raise _refused(host, address, kind)
    return kind


def _resolve(host: str, port: int, limits: RequestLimits) -> list[Any]:
    """Return the addresses of a host; the system's resolver knows no deadline, and is left behind at ours."""
    answer: list[Any] = []

    def resolve() -> None:
        try:
            answer.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:  # a name with a label that no name can have
            answer.append(error)

    # Wait for the thread no longer than the request may take.
    thread = threading.Thread(target=resolve, daemon=True, name="resolve")
    with limits.waiting() as left_s:
        try:
            thread.start()
        except RuntimeError:  # the system allows no more threads
            resolve()
        else:
            thread.join(left_s)
        if not answer:
            raise TimeoutError
    # Raise its error here.
    if isinstance(answer[0], OSError):
        raise answer[0]
    if isinstance(answer[0], ValueError) or not answer[0]:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return list(answer[0])


def _refused(host: str, address: str, kind: AddressKind) -> RequestFailure:
    at = "" if host == address else f" is {address}, and"
    return RequestFailure(f"{host}{at} is a {kind} address", Remedy.GIVE_UP, kind="refused")
