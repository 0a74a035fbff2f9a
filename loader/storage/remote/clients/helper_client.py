"""Send requests through a helper process, from a process that may fork."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from ....errors import ConfigError, StorageError
from ..failures import Remedy, RequestFailure
from ..object_url import ObjectUrl
from ..options import StorageOptions
from .client import ClientObject, Received
from .fork_lock import ForkLock

_ROOT = str(Path(__file__).parents[4])  # first, so that no other package named `loader` comes before this one
_START = (  # these reach the whole process group; the parent, which may handle them, ends this one
    "import signal as s; [s.signal(number, s.SIG_IGN) for number in (s.SIGINT, s.SIGUSR1, s.SIGUSR2)]; "
    f"from {__package__}.helper import main; main()"
)


class _Helper:
    """The helper of this process; each thread that calls it waits for its own answer."""

    def __init__(self) -> None:
        environment = dict(os.environ)  # one copy: another thread may change it while the helper starts
        # A new session would keep Ctrl-C away, and the terminal from ending it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**environment, "PYTHONPATH": os.pathsep.join([_ROOT, *filter(None, sys.path)])},
        )
        self.owner = os.getpid()
        self.environment = _variables_of(environment)
        self._requests = cast("BinaryIO", self._process.stdin)
        self._answers = io.BufferedReader(cast("io.FileIO", self._process.stdout))
        self._numbers = itertools.count()
        self._writing = threading.Lock()
        self._arrived = threading.Condition()
        self._waiting: dict[int, Any] = {}
        self._has_ended = False
        self._thread = threading.Thread(target=self._receive, daemon=True, name="storage-helper")
        self._thread.start()

    def _receive(self) -> None:
        while True:
            try:
                number, kind, content = read_message(self._answers)
            except (EOFError, OSError, ValueError):
                with self._arrived:
                    self._has_ended = True
                    self._arrived.notify_all()
                self._answers.close()
                self.close()
                self._process.wait()  # or it stays a zombie
                return
            with self._arrived:
                self._waiting[number] = (kind, content)
                self._arrived.notify_all()

    def call(self, url: ObjectUrl, options: StorageOptions, method: str, *arguments: Any) -> Any:
        number = next(self._numbers)
        try:
            with self._writing:
                write_message(self._requests, (number, url, options, method, arguments))
        except (OSError, ValueError):
            self._has_ended = True
        with self._arrived:
            self._arrived.wait_for(lambda: number in self._waiting or self._has_ended)
            if number not in self._waiting:
                raise RequestFailure("the helper process has ended", Remedy.RETRY_FEW)
            kind, content = self._waiting.pop(number)
        if kind == "failure":
            cause, remedy, failure_kind, retry_after_s = content
            raise RequestFailure(cause, Remedy[remedy], kind=failure_kind, retry_after_s=retry_after_s)
        if kind == "error":
            message, at, hint = content
            raise ConfigError(message, at=at, hint=hint)
        if kind == "bug":
            raise StorageError(f"the helper process failed: {content}", path=str(url))
        return content

    def close(self) -> None:
        """Let the helper end once it has answered all requests."""
        with self._writing:
            self._requests.close()

    def close_in_child(self) -> None:
        """Close the pipes in a process that was forked: the helper ends when its own parent does.

        The file descriptors stay open, on ``/dev/null``: the objects that own them close them later.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._requests, self._answers):
            if not pipe.closed:
                os.dup2(null, pipe.fileno(), inheritable=False)
        os.close(null)

    @property
    def is_usable(self) -> bool:
        return not self._has_ended and self.owner == os.getpid()


# Options of this library are sent with each request.
_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "MSC_", "HOME", "XDG_CONFIG")
_lock = ForkLock()
_helper: _Helper | None = None
_of_parents: list[_Helper] = []


def _variables_of(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that the requests of a helper depend on: it is replaced if they change."""
    return [(name, value) for name, value in environment.items() if name.startswith(_PREFIXES)]


def _current() -> _Helper:
    global _helper  # noqa: PLW0603 - one helper for each process
    with _lock:
        if _helper is None or not _helper.is_usable or _helper.environment != _variables_of(os.environ):
            if _helper is not None:
                _helper.close()
            _helper = _Helper()
        return _helper


def _forget_in_child() -> None:
    global _helper
    of_parent, _helper = _helper, None
    if of_parent is not None:
        _of_parents.append(of_parent)  # it must not be finalized: its process is not a child of this one
        of_parent.close_in_child()


os.register_at_fork(after_in_child=_forget_in_child)

_listings = itertools.count()


class HelperClient:
    """Requests to one bucket, sent by the helper process.

    Args:
        url: A URL in the bucket.
        options: Endpoint, region and limits.
    """

    can_list = True

    def __init__(self, url: ObjectUrl, options: StorageOptions) -> None:
        self._bucket = (url, options)

    def get(self, key: str, start: int, stop: int) -> Received:
        return Received(*_current().call(*self._bucket, "get", key, start, stop))

    def get_all(self, key: str) -> Received:
        return Received(*_current().call(*self._bucket, "get_all", key))

    def head(self, key: str) -> ClientObject:
        return ClientObject(*_current().call(*self._bucket, "head", key))

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        listing, start = next(_listings), prefix
        helper = _current()
        page = helper.call(*self._bucket, "pages", start, listing)
        try:
            while page is not None:
                yield [ClientObject(*found) for found in page]
                page = helper.call(*self._bucket, "pages", None, listing)
        except GeneratorExit:
            if helper.is_usable:
                helper.call(*self._bucket, "end pages", listing)
            raise

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_etag: str | None = None) -> str:
        return str(_current().call(*self._bucket, "put", key, data, if_absent, if_etag))

    def upload(self, key: str, path: str) -> str:
        return str(_current().call(*self._bucket, "upload", key, path))

    def delete(self, keys: Sequence[str]) -> None:
        _current().call(*self._bucket, "delete", tuple(keys))

    def refresh(self) -> None:
        _current().call(*self._bucket, "refresh")


_LENGTH = struct.Struct("<Q")


def read_message(stream: BinaryIO) -> Any:
    """Read one message.

    Raises:
        EOFError: The other process has ended.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    data = stream.read(_LENGTH.unpack(head)[0])
    return pickle.loads(data)  # noqa: S301 - written by the other end of a pipe of our own


def write_message(stream: BinaryIO, message: Any) -> None:
    """Write one message."""
    data = pickle.dumps(message, protocol=5)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:  # the stream has no buffer, which a fork would copy with a half of a message in it
        rest = rest[stream.write(rest) :]
