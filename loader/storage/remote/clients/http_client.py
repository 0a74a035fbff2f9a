"""Requests to web servers, which answer ranges and versions but list nothing. It needs no package, and may fork."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import BinaryIO, NamedTuple, NoReturn
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ....version import __version__
from ..failures import Remedy, RequestFailure, failure_of_status
from ..object_url import ObjectUrl
from ..options import StorageOptions
from .connection import ClientObject, Received
from .limited_answer import (
    MAX_HEAD_BYTES,
    PRIVATE,
    PUBLIC,
    AddressKind,
    LimitedAnswer,
    RequestLimits,
    check_proxied,
    connect,
    named_failures,
)

_MAX_REDIRECTS = 5
_MAX_IDLE = 64
MAX_WHOLE_BYTES = 1 << 30  # of a file that is read into memory; larger ones are read in ranges
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_AFTER_HOST = re.compile(r"[/?#]")
_NO_URL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_HOST = 1000  # characters: those of DNS have 253, and the conversion of a long one takes minutes

_ANY = frozenset[AddressKind]({"public", "private", "special"})
AFTER = {"public": PUBLIC, "private": PRIVATE, "special": _ANY}
"""Kind of an address → kinds of those that it may redirect to."""


class _Target(NamedTuple):
    """A URL as it is requested: nothing after the host is decoded or encoded again, but for spaces."""

    protocol: str
    host: str
    port: int
    name: str  # host[:port] as the URL has it
    path: bytes  # with its query


class _Line(NamedTuple):
    socket: socket.socket
    kind: AddressKind


class WebAnswer(NamedTuple):
    """An answer, whatever its status is."""

    status: int
    headers: dict[str, str]  # by names in lower case
    data: bytes
    url: str  # that was requested
    kind: AddressKind  # of the server's address


class HttpClient:
    """Requests to web servers."""

    can_list = False

    def __init__(self, url: ObjectUrl, options: StorageOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = f"{url.protocol}://{url.container}"
        self._options = options
        self._clock = clock
        self._idle: list[tuple[tuple[str, str], _Line]] = []  # the last one used is the last
        self._lock = threading.Lock()
        self._most_idle = _MAX_IDLE
        self._tls: ssl.SSLContext | None = None

    def get(self, key: str, start: int, stop: int) -> Received:
        return self.get_range(self._url(key), start, stop)

    def get_range(self, url: str, start: int, stop: int, *, allowed: frozenset[AddressKind] = _ANY) -> Received:
        """Get the bytes [start, stop) of a URL of any server at an allowed address, or those up to its end."""
        with self._answer("GET", url, {"Range": f"bytes={start}-{stop - 1}"}, allowed=allowed) as answer:
            # A whole file serves only for a range that begins it, and reaches its end.
            is_whole = answer.status == 200  # which a server may send for all of a file
            content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if (start or (answer.length or 0) > stop) if is_whole else content_range is None:
                raise RequestFailure(
                    "the server answers a range with the whole file", Remedy.RETRY_FEW, kind="no ranges"
                )
            if is_whole or content_range is None:
                data = answer.read_most(stop)
                return Received(data, len(data), _etag(answer.headers), _mtime_ns(answer.headers))
            # Check which bytes came: proxies may answer with other ones.
            first, last, size_bytes = map(int, content_range.groups())
            if first != start or last + 1 != min(stop, size_bytes):
                raise RequestFailure(f"requested bytes {start}–{stop}, received others", Remedy.RETRY_FEW)
            data = answer.read_most(last + 1 - first)
            if len(data) != last + 1 - first:
                raise RequestFailure(f"expected {last + 1 - first} bytes, found {len(data)}", Remedy.RETRY)
            return Received(data, size_bytes, _etag(answer.headers), _mtime_ns(answer.headers))

    def get_all(self, key: str) -> Received:
        with self._answer("GET", self._url(key)) as answer:
            data = answer.read_most(MAX_WHOLE_BYTES)
            return Received(data, len(data), _etag(answer.headers), _mtime_ns(answer.headers))

    def send_url(self, method: str, url: str) -> bytes:
        """Send a request without a body to a URL of any server, which may have a query, and return the answer's."""
        with self._answer(method, url) as answer:
            return answer.read_most(MAX_WHOLE_BYTES)

    def ask(self, method: str, url: str, *, headers: Mapping[str, str], most_bytes: int) -> WebAnswer:
        """Send a request, and return the answer with any status; redirects are not followed.

        Args:
            most_bytes: Most bytes of the body of an answer with status 200 or 206; other bodies are left out.
        """
        limits = RequestLimits(stall_s=self._options.stall_s, request_s=self._options.request_s, clock=self._clock)
        target = _parse(url)
        line, answer = self._send(method, target, dict(headers), _ANY, limits)
        try:
            data = answer.read_most(most_bytes) if answer.status in (200, 206) else b""
            heads = {name.lower(): value for name, value in answer.headers.items()}
            return WebAnswer(answer.status, heads, data, url, line.kind)
        finally:
            self._keep(target, line, answer)

    def download(self, url: str, file: BinaryIO, most: int, *, allowed: frozenset[AddressKind]) -> None:
        """Write what a URL of any server names to a file.

        Args:
            most: Most bytes.
            allowed: Kinds of addresses that may be connected to; see :data:`PUBLIC` and :data:`PRIVATE`.
        """
        with self._answer("GET", url, allowed=allowed) as answer:
            # A file that ends with .gz may be sent with its own compression as the encoding; any other would change the
            # bytes.
            encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding not in ("identity", "") and not urlsplit(url).path.endswith((".gz", ".tgz")):
                raise RequestFailure(f"the server compresses it ({encoding[:20]}), unasked", Remedy.GIVE_UP)
            file.writelines(answer.pieces(most))

    def head(self, key: str) -> ClientObject:
        with self._answer("HEAD", self._url(key)) as answer:
            answer.read_most(0)
            size = answer.headers.get("Content-Length", "")
            if not (size.isascii() and size.isdecimal() and len(size) < 20):
                raise RequestFailure("the server does not tell the size of this file", Remedy.GIVE_UP)
            return ClientObject(key, int(size), _mtime_ns(answer.headers), _etag(answer.headers))

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:  # noqa: ARG002 - the interface
        raise RequestFailure("a web server lists no files", Remedy.GIVE_UP, kind="no listing")

    def put(self, *_: object, **__: object) -> NoReturn:
        raise RequestFailure("files of a web server are read-only", Remedy.GIVE_UP, kind="read-only")

    upload = delete = put

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        with self._lock:
            self._most_idle = 0
            while self._idle:
                self._idle.pop()[1].socket.close()

    # ------------------------------------------------------------------------------------------------- connections

    def _url(self, key: str) -> str:
        return f"{self._root}/{quote(key.encode('utf-8', 'surrogateescape'))}"

    @contextmanager
    def _answer(
        self, method: str, url: str, headers: dict[str, str] | None = None, *, allowed: frozenset[AddressKind] = _ANY
    ) -> Iterator[LimitedAnswer]:
        """Send a request, follow redirects, and yield the answer with status 200 or 206 whose head was read."""
        limits = RequestLimits(stall_s=self._options.stall_s, request_s=self._options.request_s, clock=self._clock)
        # Follow redirects here, since each target has to be an allowed address.
        for _ in range(_MAX_REDIRECTS + 1):
            target = _parse(url)
            line, answer = self._send(method, target, headers or {}, allowed, limits)
            try:
                location = answer.headers.get("Location")
                if answer.status not in REDIRECTS or not location:
                    _check_status(answer, method, is_range="Range" in (headers or {}))
                    yield answer
                    return
                url = redirected(url, location)
                allowed &= AFTER[line.kind]
            finally:
                self._keep(target, line, answer)
        raise RequestFailure(f"the server redirects more than {_MAX_REDIRECTS} times", Remedy.GIVE_UP)

    def _send(
        self,
        method: str,
        target: _Target,
        headers: dict[str, str],
        allowed: frozenset[AddressKind],
        limits: RequestLimits,
    ) -> tuple[_Line, LimitedAnswer]:
        """Send one request, and read the head of its answer; a connection that the server closed is replaced."""
        # Write the head here, so that the path goes out as the URL has it.
        fields = {"Host": target.name, "User-Agent": f"energon-toolkit/{__version__}", "Accept-Encoding": "identity"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in (fields | headers).items())
        head = method.encode() + b" " + target.path + b" HTTP/1.1\r\n" + lines.encode() + b"\r\n"
        # Use a connection that is open; the server may have closed it meanwhile, which is no failure.
        line = self._idle_line(target, allowed)
        while True:
            is_old = line is not None
            used = line or self._connect(target, allowed, limits)
            try:
                with named_failures():
                    return used, _exchange(used.socket, method, head, limits)
            except RequestFailure as failure:
                used.socket.close()
                if not (is_old and isinstance(failure.__cause__, http.client.BadStatusLine | ConnectionError)):
                    raise
                line = None  # it was closed before the server saw the request

    def _idle_line(self, target: _Target, allowed: frozenset[AddressKind]) -> _Line | None:
        with self._lock:
            # The last one used is the least likely to be closed.
            for position in reversed(range(len(self._idle))):
                address, line = self._idle[position]
                if address == (target.protocol, target.name) and line.kind in allowed:
                    del self._idle[position]
                    return line
        return None

    def _keep(self, target: _Target, line: _Line, answer: LimitedAnswer) -> None:
        """Keep a connection for the next request if its answer was read, or is the short one of an error."""
        # Reading a short page of an error is faster than a new connection.
        if not answer.isclosed() and answer.status not in (200, 206) and (answer.length or 0) <= MAX_HEAD_BYTES:
            try:
                answer.read_most(MAX_HEAD_BYTES)
            except RequestFailure:
                answer.will_close = True
        is_finished = answer.is_finished
        answer.close()
        if not is_finished:
            line.socket.close()
            return
        # Close the connection that was unused for the longest time, outside of the lock.
        with self._lock:
            self._idle.append(((target.protocol, target.name), line))
            oldest = self._idle.pop(0)[1] if len(self._idle) > self._most_idle else None
        if oldest is not None:
            oldest.socket.close()

    def _connect(self, target: _Target, allowed: frozenset[AddressKind], limits: RequestLimits) -> _Line:
        # Connect to the host, or through the proxy of the environment.
        proxy = None if proxy_bypass(target.host) else getproxies().get(target.protocol)
        limits.begin_step()
        try:
            if proxy:
                line = _tunnel(target, proxy, allowed, limits)
            else:
                line = _Line(*connect(target.host, target.port, allowed, limits))
            if target.protocol == "http":
                return line
            # Encrypt; all connections share one context, whose certificates take time to read.
            with self._lock:
                self._tls = self._tls or ssl.create_default_context()
            try:
                with limits.waiting() as left_s:
                    line.socket.settimeout(left_s)
                    return line._replace(socket=self._tls.wrap_socket(line.socket, server_hostname=target.host))
            except BaseException:
                line.socket.close()
                raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, RequestFailure) and error.kind != "slow":
                raise
            where = f"{target.protocol}://{target.name}" + (" through a proxy" if proxy else "")
            raise RequestFailure(
                f"cannot reach {where}: {_connect_cause(error)}", Remedy.RETRY, kind="unreachable"
            ) from None


def _exchange(connection: socket.socket, method: str, head: bytes, limits: RequestLimits) -> LimitedAnswer:
    limits.begin_step()
    with limits.waiting() as left_s:
        connection.settimeout(left_s)
        connection.sendall(head)
    answer = LimitedAnswer(connection, method, limits)
    answer.begin()
    return answer


def _tunnel(target: _Target, proxy: str, allowed: frozenset[AddressKind], limits: RequestLimits) -> _Line:
    """Connect through a proxy, which the environment names, so that it may have any address."""
    # The proxy resolves the name, so only a literal address can be checked here.
    kind = check_proxied(target.host, allowed)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection, _ = connect(parts.hostname or "", parts.port or 80, _ANY, limits)
    name = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    try:
        answer = _exchange(connection, "CONNECT", f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode(), limits)
    except BaseException:
        connection.close()
        raise
    if answer.status != 200:
        connection.close()
        raise OSError(f"the proxy answers {answer.status}")
    return _Line(connection, kind)


def _parse(url: str) -> _Target:
    """Split a URL, by one parser for the check and the request."""
    # Cut the URL at the host; the path goes out as the data has it.
    protocol, _, rest = url.partition("://")
    name = _AFTER_HOST.split(rest, maxsplit=1)[0]
    path = rest[len(name) :].partition("#")[0].replace(" ", "%20")
    # The host may be an international name.
    try:
        parts = urlsplit(f"//{name if len(name) <= _MAX_HOST else ''}")
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = host.encode("idna").decode()
            name = host if port is None else f"{host}:{port}"
    except ValueError:
        host, port = "", None
    # Refuse credentials, and characters that other parsers may read differently.
    if "@" in name:
        raise RequestFailure("it holds credentials", Remedy.GIVE_UP)
    protocol = protocol.lower()
    if protocol not in ("http", "https") or not host or re.search(r"[\s\\%]", name) or _NO_URL.search(path):
        raise RequestFailure("it is not a URL of a web server", Remedy.GIVE_UP)
    path = path if path.startswith("/") else f"/{path}"
    default = 443 if protocol == "https" else 80
    return _Target(protocol, host, default if port is None else port, name, path.encode("utf-8", "surrogateescape"))


def redirected(url: str, location: str) -> str:
    """Return the URL to which a server redirects; raise a failure if it is none, or less safe."""
    try:
        # Heads are decoded as Latin-1, whatever they are.
        target = urljoin(url, location.encode("latin-1").decode("utf-8", "surrogateescape"))
        protocol, _, rest = target.partition("://")
        host = _AFTER_HOST.split(rest, maxsplit=1)[0]
        target = f"{protocol}://{host.rpartition('@')[2]}{rest[len(host) :]}"
    except ValueError:
        target = ""
    # Servers of folders redirect to their listing: there is no such file.
    if target == f"{url}/":
        raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing")
    is_less_safe = url.lower().startswith("https:") > target.startswith("https:")
    if is_less_safe or not target.startswith(("http://", "https://")):
        raise RequestFailure("the server redirects to a URL that is not safe", Remedy.GIVE_UP)
    return target


def _connect_cause(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name is unknown"
    if isinstance(error, TimeoutError | RequestFailure):
        return "no connection in time"
    if isinstance(error, ssl.SSLError):
        return "its certificate was refused" if isinstance(error, ssl.SSLCertVerificationError) else "it speaks no TLS"
    return "the connection was refused" if isinstance(error, ConnectionRefusedError) else "no connection"


def _check_status(answer: LimitedAnswer, method: str, *, is_range: bool) -> None:
    is_done = answer.status == 200 or (answer.status == 204 and method == "DELETE")
    if is_done or (answer.status == 206 and is_range):
        return
    cause = f"{answer.status} {http.client.responses.get(answer.status, '')}".strip()
    wait = answer.headers.get("Retry-After", "")
    retry_after_s = float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < 10 else None
    raise failure_of_status(answer.status, cause, retry_after_s)


def _etag(headers: http.client.HTTPMessage) -> str:
    return headers.get("ETag", "").removeprefix("W/").strip('"')


def _mtime_ns(headers: http.client.HTTPMessage) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Last-Modified", "")).timestamp()) * 10**9
    except (TypeError, ValueError, OverflowError):
        return 0
