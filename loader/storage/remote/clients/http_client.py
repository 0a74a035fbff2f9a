"""Requests to web servers, which answer ranges and versions but list nothing. It needs no package, and may fork."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ....version import __version__
from ..failures import Remedy, RequestFailure, failure_of_status
from ..object_url import ObjectUrl
from ..options import StorageOptions
from .client import ClientObject, Received

_MAX_REDIRECTS = 5
_MAX_IDLE = 64
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_Connection = http.client.HTTPConnection
_Address = tuple[str, str]  # protocol, host[:port]


class HttpClient:
    """Requests to one web server.

    Args:
        url: A URL of the server.
        options: Limits.
    """

    can_list = False

    def __init__(self, url: ObjectUrl, options: StorageOptions) -> None:
        self._root = f"{url.protocol}://{url.container}"
        self._limit_s = options.stall_s
        self._idle: dict[_Address, list[_Connection]] = {}
        self._lock = threading.Lock()

    def get(self, key: str, start: int, stop: int) -> Received:
        status, headers, data = self._request("GET", key, {"Range": f"bytes={start}-{stop - 1}"})
        if status == 200 and start == 0 and len(data) <= stop:  # the whole file, which a server may send for all of it
            return Received(data, len(data), _etag(headers), _mtime_ns(headers))
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if status != 206 or found is None:
            raise RequestFailure("the server answers a range with the whole file", Remedy.RETRY_FEW, kind="no ranges")
        first, last, size_bytes = map(int, found.groups())
        if first != start or last + 1 != min(stop, size_bytes):
            raise RequestFailure(f"requested bytes {start}–{stop}, received others", Remedy.RETRY_FEW)
        if len(data) != last + 1 - first:
            raise RequestFailure(f"expected {last + 1 - first} bytes, found {len(data)}", Remedy.RETRY)
        return Received(data, size_bytes, _etag(headers), _mtime_ns(headers))

    def get_all(self, key: str) -> Received:
        _, headers, data = self._request("GET", key, {})
        return Received(data, len(data), _etag(headers), _mtime_ns(headers))

    def get_url(self, url: str) -> bytes:
        """Get what a URL of any server names, which may have a query."""
        status, headers, data = self._send("GET", url, {})
        _check_status(status, headers)
        return data

    def head(self, key: str) -> ClientObject:
        _, headers, _ = self._request("HEAD", key, {})
        size = headers.get("Content-Length", "")
        if not size.isdecimal():
            raise RequestFailure("the server does not tell the size of this file", Remedy.GIVE_UP)
        return ClientObject(key, int(size), _mtime_ns(headers), _etag(headers))

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:  # noqa: ARG002 - the interface
        raise RequestFailure("a web server lists no files", Remedy.GIVE_UP, kind="no listing")

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:  # noqa: ARG002
        raise RequestFailure("files of a web server are read-only", Remedy.GIVE_UP, kind="read-only")

    def upload(self, key: str, path: str) -> str:  # noqa: ARG002 - the interface
        raise RequestFailure("files of a web server are read-only", Remedy.GIVE_UP)

    def delete(self, keys: Sequence[str]) -> None:  # noqa: ARG002 - the interface
        raise RequestFailure("files of a web server are read-only", Remedy.GIVE_UP, kind="read-only")

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for idle in self._idle.values():
                while idle:
                    idle.pop().close()

    # ------------------------------------------------------------------------------------------------- connections

    def _request(self, method: str, key: str, headers: dict[str, str]) -> tuple[int, http.client.HTTPMessage, bytes]:
        url = f"{self._root}/{quote(key.encode('utf-8', 'surrogateescape'))}"
        for _ in range(_MAX_REDIRECTS + 1):
            status, found, data = self._send(method, url, headers)
            if status not in _REDIRECTS or not found.get("Location"):
                _check_status(status, found)
                return status, found, data
            target = urljoin(url, found["Location"])
            if target == f"{url}/":  # of a folder, whose page of links is no file
                raise RequestFailure("it does not exist", Remedy.GIVE_UP, kind="missing")
            if urlsplit(target).scheme not in ("http", "https") or (
                url.startswith("https:") > target.startswith("https:")
            ):
                raise RequestFailure("the server redirects to a URL that is not safe", Remedy.GIVE_UP)
            url = target
        raise RequestFailure(f"the server redirects more than {_MAX_REDIRECTS} times", Remedy.GIVE_UP)

    def _send(self, method: str, url: str, headers: dict[str, str]) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send one request, and read the answer; a connection that the server closed meanwhile is replaced."""
        parts = urlsplit(url)
        address = parts.scheme, parts.netloc.rpartition("@")[2]
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        agent = {"User-Agent": f"energon-toolkit/{__version__}", "Accept-Encoding": "identity", **headers}
        with self._lock:
            idle = self._idle.setdefault(address, [])
            connection = idle.pop() if idle else None
        is_old = connection is not None
        while True:
            opened = connection or self._connect(address)
            try:
                opened.request(method, target, headers=agent)
                answer = opened.getresponse()
                data = answer.read()
            except (http.client.BadStatusLine, ConnectionError) as error:
                opened.close()
                if is_old:  # it was closed before the server saw the request
                    connection, is_old = None, False
                    continue
                raise RequestFailure("the connection broke", Remedy.RETRY) from error
            except http.client.IncompleteRead as error:
                opened.close()
                raise RequestFailure("the answer was cut short", Remedy.RETRY) from error
            except TimeoutError as error:
                opened.close()
                raise RequestFailure("no byte arrived in time", Remedy.RETRY) from error
            except (http.client.HTTPException, OSError, ValueError) as error:
                opened.close()
                raise RequestFailure(f"the answer is invalid ({type(error).__name__})", Remedy.RETRY_FEW) from None
            if answer.will_close:
                opened.close()
            else:
                with self._lock:
                    if len(idle) < _MAX_IDLE:
                        idle.append(opened)
            return answer.status, answer.headers, data

    def _connect(self, address: _Address) -> _Connection:
        protocol, host = address
        kind = http.client.HTTPSConnection if protocol == "https" else _Connection
        name, _, _ = host.partition(":")
        proxy = None if proxy_bypass(name) else getproxies().get(protocol)
        try:
            if proxy:
                found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
                connection = kind(found.hostname or "", found.port, timeout=self._limit_s)
                connection.set_tunnel(host)
            else:
                connection = kind(host, timeout=self._limit_s)
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            where = f"{protocol}://{host}" + (" through a proxy" if proxy else "")
            raise RequestFailure(
                f"cannot reach {where}: {_connect_cause(error)}", Remedy.RETRY, kind="unreachable"
            ) from None
        return connection


def _connect_cause(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name is unknown"
    if isinstance(error, TimeoutError):
        return "no connection in time"
    if isinstance(error, ssl.SSLError):
        return "its certificate was refused" if isinstance(error, ssl.SSLCertVerificationError) else "it speaks no TLS"
    return "the connection was refused" if isinstance(error, ConnectionRefusedError) else "no connection"


def _check_status(status: int, headers: http.client.HTTPMessage) -> None:
    if status in (200, 206):
        return
    cause = f"{status} {http.client.responses.get(status, '')}".strip()
    wait = headers.get("Retry-After", "")
    retry_after_s = float(wait) if wait.isdecimal() else None
    raise failure_of_status(status, cause, retry_after_s)


def _etag(headers: http.client.HTTPMessage) -> str:
    return headers.get("ETag", "").removeprefix("W/").strip('"')


def _mtime_ns(headers: http.client.HTTPMessage) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Last-Modified", "")).timestamp()) * 10**9
    except (TypeError, ValueError):
        return 0
