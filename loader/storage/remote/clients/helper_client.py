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
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from ....own_names import CANONICAL, ROOT
from ..failures import Remedy, RequestFailure
from ..object_url import ObjectUrl
from ..options import StorageOptions
from .connection import ClientObject

_ROOT = str(Path(__file__).parents[4])  # first, so that no other package named `loader` comes before this one
# Messages name classes as this process does: the other one has no `loader` if this one has that of a program.
_NAMES = "" if ROOT == CANONICAL else f"import sys; sys.modules['{CANONICAL}'] = None; import energon_cli; "
_START = (  # these reach the whole process group; the parent, which may handle them, ends this one
    "import signal as s; [s.signal(number, s.SIG_IGN) for number in (s.SIGINT, s.SIGUSR1, s.SIGUSR2)]; "
    f"{_NAMES}from {__package__}.helper import main; main()"
)


class ForkLock:
    """A lock between threads: no process is forked while a thread holds it, and a forked one begins with it free.

    Without it, a fork could copy the middle of an import, or the pipe by which :mod:`subprocess` learns that a program
    has started: the child or the parent would never return. For locks that live as long as the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        os.register_at_fork(before=self._acquire, after_in_parent=self._release, after_in_child=self._renew)

    def _acquire(self) -> None:
        self._lock.acquire()

    def _release(self) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._acquire()

    def __exit__(self, *_: object) -> None:
        self._release()


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
        self._requests = cast("BinaryIO", self._process.stdin)
        self._answers = io.BufferedReader(cast("io.FileIO", self._process.stdout))
        self.owner = os.getpid()
        self.environment = _variables_of(environment)
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
                call_number, answer = read_message(self._answers)
            except (EOFError, OSError, ValueError):
                with self._arrived:
                    self._has_ended = True
                    self._arrived.notify_all()
                self._answers.close()
                self.close()
                self._process.wait()  # or it stays a zombie
                return
            with self._arrived:
                self._waiting[call_number] = answer
                self._arrived.notify_all()

    def call(self, url: ObjectUrl, options: StorageOptions, method: str, *arguments: Any, **keywords: Any) -> Any:
        call_number = next(self._numbers)
        try:
            with self._writing:
                write_message(self._requests, (call_number, url, options, method, arguments, keywords))
        except (OSError, ValueError):
            self._has_ended = True
        with self._arrived:
            self._arrived.wait_for(lambda: call_number in self._waiting or self._has_ended)
            if call_number not in self._waiting:
                raise RequestFailure("the helper process has ended", Remedy.RETRY_FEW)
            answer = self._waiting.pop(call_number)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
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


# Variables that requests depend on: a helper is replaced if they change. Our own options are sent with each request.
_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "HF_", "MSC_", "HOME", "XDG_CONFIG")
_lock = ForkLock()
_helper: _Helper | None = None
_of_parents: list[_Helper] = []


def _variables_of(environment: Mapping[str, str]) -> list[tuple[str, str]]:
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


def _call(url: ObjectUrl, options: StorageOptions, method: str, *arguments: Any, **keywords: Any) -> Any:
    return _current().call(url, options, method, *arguments, **keywords)


class HelperClient:
    """Requests to one bucket, sent by the helper process."""

    can_list = True

    def __init__(self, url: ObjectUrl, options: StorageOptions) -> None:
        self._call = partial(_call, url, options)
        self.get = partial(self._call, "get")
        self.get_all = partial(self._call, "get_all")
        self.head = partial(self._call, "head")
        self.put = partial(self._call, "put")
        self.upload = partial(self._call, "upload")
        self.delete = partial(self._call, "delete")
        self.refresh = partial(self._call, "refresh")
        self.run_upload = partial(self._call, "run_upload")

    def pages(self, prefix: str) -> Iterator[Sequence[ClientObject]]:
        listing, helper = next(_listings), _current()  # which alone has the listing
        call = partial(helper.call, *self._call.args)
        call("begin pages", listing, prefix)
        try:
            while (page := call("next page", listing)) is not None:
                yield page
        except GeneratorExit:
            if helper.is_usable and not sys.is_finalizing():  # then the helper ends, too
                call("end pages", listing)
            raise


# Framed by hand: a connection of multiprocessing takes twice as long to receive 8 MiB.
_LENGTH = struct.Struct("<Q")


def read_message(stream: BinaryIO) -> Any:
    """Read one message; raise an ``EOFError`` if the other process has ended."""
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
