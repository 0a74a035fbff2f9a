"""Files that data names by URL: each is fetched once, a few at a time, from servers that may be dead or hostile."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import BinaryIO

import msgspec

from ...errors import EnergonError, SampleError, plural
from ..protocol import raise_storage_error
from .clients.choice import connection_of, open_url
from .clients.connection import Retries
from .clients.http_client import HttpClient
from .clients.limited_answer import PRIVATE, PUBLIC
from .failures import NO_ANSWER, Remedy, RequestFailure
from .fetcher import Fetch, Fetcher, Pace
from .object_url import PROTOCOLS, hide_query, host_of, parse_object_url
from .options import DownloadOptions, options_for

_TRIES = 2  # of a file; a run of training tries for minutes
_DEADLINE_S = 30.0  # of all tries together
_MISSES = 3  # requests in a row without a whole answer, after which a host that never answered is given up
_MISSES_AFTER_ANSWERS = 12  # as of a server that is restarted
_THREADS = 64
_REQUESTS_OF_HOST = 8  # at a time
_HELD_BYTES = 256 << 20  # about what is fetched ahead
_TYPICAL_BYTES = 32 << 20  # of a file, before the first ones have arrived
_PIECE_BYTES = 8 << 20
_CODES = {"refused": "F107", "given up": "F109"}
_HINTS = {
    "refused": "pass --allow-private if your own network and profiles may be read",
    "too large": "allow larger files with --max-size",
}


@dataclass(slots=True)
class _Host:
    pace: Pace = field(default_factory=lambda: Pace(_REQUESTS_OF_HOST))
    has_answered: bool = False
    misses: int = 0
    given_up: str = ""  # why


class Downloads:
    """Downloads of a process, as files of a folder that processes share and the caller removes."""

    def __init__(self, folder: str, options: DownloadOptions, *, keeps: bool = False) -> None:
        self._options = options
        self._keeps = keeps
        try:
            os.makedirs(folder, exist_ok=True)
            self._kept = folder
            self._folder = folder if keeps else tempfile.mkdtemp(dir=folder)
        except OSError as error:
            raise_storage_error("create a folder for downloads", folder, error)
        self._client = HttpClient(parse_object_url("https://host"), options_for(""))
        self._fetcher = Fetcher(_THREADS)
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}
        self._pending: dict[str, Fetch] = {}
        self._queue: deque[str] = deque()
        # Two windows: what was announced twice ago is forgotten.
        self._announced: deque[frozenset[str]] = deque([frozenset(), frozenset()])
        self._done, self._done_bytes = 1, _TYPICAL_BYTES
        # Processes of one import share which hosts were given up, so that each host is waited for once.
        with suppress(OSError), open(self._path_of_hosts(), "rb") as file:
            known = msgspec.json.decode(file.read(), type=dict[str, str])
            self._hosts = {host: _Host(given_up=reason) for host, reason in known.items()}

    def announce(self, urls: Iterable[str]) -> None:
        """Begin to fetch files that are taken soon, as many at a time as fit; forget those before the last ones."""
        window = dict.fromkeys(urls)
        for url in self._announced.popleft() - self._announced[0] - window.keys():  # of rows that failed sooner
            if self._pending.pop(url, None) is not None:
                self.discard(url)
        self._announced.append(frozenset(window))
        self._queue.extend(window)
        self._begin()

    def contact(self, urls: Sequence[str]) -> Mapping[str, str]:
        """Fetch the first files of several hosts at the same time; return host → reason for those that are given up."""
        # Begin all before the first one is waited for: dead hosts take seconds each.
        for url in urls:
            if url not in self._pending and not self._is_known(url):
                self._pending[url] = self._start(url)
        for url in urls:
            with suppress(EnergonError):
                self.take(url)
        given_up = {host: state.given_up for host, state in self._hosts.items() if state.given_up}
        with open(self._path_of_hosts(), "wb") as file:
            file.write(msgspec.json.encode(given_up))
        return given_up

    def take(self, url: str) -> str:
        """Return the path of a downloaded file; wait for it.

        Raises:
            SampleError: It cannot be fetched; the cause is a ``FileNotFoundError`` if the server has no such file.
            StorageError: The disk is full.
        """
        # An earlier process may have the file, or its failure.
        kept = self._path(self._kept, url)
        if os.path.exists(kept):
            return kept
        with suppress(OSError), open(f"{kept}.failed", "rb") as file:
            message, code = msgspec.json.decode(file.read(), type=tuple[str, str])
            raise SampleError(message, at=hide_query(url), code=code)
        # Take it from what was announced, or begin now, ahead of the queue.
        fetch = self._pending.pop(url, None)
        if fetch is None:
            with suppress(ValueError):
                self._queue.remove(url)
            fetch = self._start(url)
        # One less is pending, so another one may begin.
        self._begin()
        try:
            fetch.result()
        except SampleError as error:
            # Keep the failure for other processes, too; only its code separates a missing file from other causes.
            if self._keeps:
                code = "F102" if isinstance(error.__cause__, FileNotFoundError) else str(error.code)
                with open(f"{kept}.failed", "wb") as file:
                    file.write(msgspec.json.encode((error.message, code)))
            raise
        return self._path(self._folder, url)

    def discard(self, url: str) -> None:
        if not self._keeps:
            with suppress(OSError):
                os.unlink(self._path(self._folder, url))

    def close(self) -> None:
        self._queue.clear()
        self._pending.clear()  # what runs is not repeated
        self._client.close()

    def _begin(self) -> None:
        # As many as fill the memory that is allowed, by the mean size so far.
        most = max(1, min(_THREADS, _HELD_BYTES * self._done // self._done_bytes))
        while self._queue and len(self._pending) < most:
            url = self._queue.popleft()
            if url not in self._pending and not self._is_known(url):
                self._pending[url] = self._start(url)

    def _is_known(self, url: str) -> bool:
        kept = self._path(self._kept, url)
        return os.path.exists(kept) or os.path.exists(f"{kept}.failed")

    def _start(self, url: str) -> Fetch:
        return Fetch(self._fetcher, lambda is_wanted: self._fetch(url, is_wanted), 0)  # of no size: never sent twice

    def _path(self, folder: str, url: str) -> str:
        return os.path.join(folder, sha256(url.encode("utf-8", "surrogateescape")).hexdigest())

    def _path_of_hosts(self) -> str:
        return os.path.join(self._kept, "hosts.json")

    # ------------------------------------------------------------------------------------------- in several threads

    def _fetch(self, url: str, is_wanted: Callable[[], bool]) -> bytes:
        """Write a file, and return no bytes: a fetch must return some."""
        # One state for each host, which all threads share.
        path = self._path(self._folder, url)
        with self._lock:
            host = self._hosts.setdefault(host_of(url), _Host())
        last: list[RequestFailure] = []

        def attempt() -> None:
            if not is_wanted():
                raise RequestFailure("it is not wanted any more", Remedy.GIVE_UP, kind="not wanted")
            # No more than a few requests of one host at a time.
            started, failure = host.pace.begin(), None
            try:
                # A dead host fails its other files at once.
                if host.given_up:
                    cause = f"it was not tried, since {host_of(url)} was given up: {host.given_up}"
                    raise last[0] if last else RequestFailure(cause, Remedy.GIVE_UP, kind="given up")
                self._transfer(url, path)
            except RequestFailure as raised:
                failure = raised
                last[:] = [raised]
                raise
            finally:
                host.pace.end(started, failure)
                self._count(host, failure)

        # Try a few times, and name what went wrong for the caller's row.
        size_bytes = 0
        try:
            Retries(_DEADLINE_S, max_tries=_TRIES).run(attempt, action="fetch", url=hide_query(url))
            size_bytes = os.path.getsize(path)
        except OSError as error:
            raise_storage_error("write this download", path, error)
        except EnergonError as error:
            kind = error.__cause__.kind if isinstance(error.__cause__, RequestFailure) else ""
            code = _CODES.get(kind, "F108")
            raise SampleError(error.message, at=hide_query(url), hint=_HINTS.get(kind), code=code) from error.__cause__
        finally:
            with self._lock:
                self._done += 1
                self._done_bytes += size_bytes
        return b""

    def _count(self, host: _Host, failure: RequestFailure | None) -> None:
        """Count an answer, or that there was none; what says nothing about the host is not counted."""
        kind = failure.kind if failure else ""
        if kind in ("refused", "given up", "not wanted"):
            return
        with self._lock:
            # A refusal is an answer, too: the host lives.
            host.has_answered |= kind not in NO_ANSWER
            if failure is None or failure.remedy not in (Remedy.RETRY, Remedy.RETRY_FEW, Remedy.SLOW_DOWN):
                host.misses = 0
                return
            host.misses += not host.given_up
            if host.given_up:
                failure.remedy = Remedy.GIVE_UP
            # Hosts that have answered get more patience, since they may be restarted.
            elif host.misses >= (_MISSES_AFTER_ANSWERS if host.has_answered else _MISSES):
                host.given_up = f"{plural(host.misses, 'request')} in a row failed, the last one: {failure.cause}"
                failure.remedy = Remedy.GIVE_UP

    def _transfer(self, url: str, path: str) -> None:
        partial = f"{path}.partial"
        # The file appears whole under its name, or not at all.
        try:
            with open(partial, "wb") as file:
                if url.partition("://")[0].lower() in ("http", "https"):
                    allowed = PRIVATE if self._options.allow_private else PUBLIC
                    self._client.download(url, file, self._options.max_bytes, allowed=allowed)
                else:
                    self._copy_object(url, file)
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise

    def _copy_object(self, url: str, file: BinaryIO) -> None:
        protocol = url.partition("://")[0]
        if protocol not in PROTOCOLS:
            raise RequestFailure(f"{protocol}:// URLs cannot be read", Remedy.GIVE_UP)
        if protocol == "msc" and not self._options.allow_private:
            raise RequestFailure("a profile of yours may be a folder of this machine", Remedy.GIVE_UP, kind="refused")
        # Ask for the size first, so that a file that is too large is not begun.
        object_url = open_url(url)
        client = connection_of(object_url, options_for(url)).client
        size_bytes = client.head(object_url.key).size_bytes
        if size_bytes > self._options.max_bytes:
            cause = f"it has {size_bytes:,} bytes, more than {self._options.max_bytes:,}"
            raise RequestFailure(cause, Remedy.GIVE_UP, kind="too large")
        starts = range(0, size_bytes, _PIECE_BYTES)
        file.writelines(
            client.get(object_url.key, start, min(start + _PIECE_BYTES, size_bytes)).data for start in starts
        )
