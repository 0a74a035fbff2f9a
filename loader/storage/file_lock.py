"""An exclusive lock on a file of this machine, between processes and between the threads of one."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import StorageError
from .os_error import fail

__all__ = ["hold_lock"]


class _Turn:
    """Whose turn it is within this process, for one lock file."""

    __slots__ = ("lock", "thread")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.thread: int | None = None  # that holds it


# Record locks do not conflict within a process, and closing any descriptor of the file drops them: so only the thread
# whose turn it is opens the file.
_turns: dict[str, _Turn] = {}


os.register_at_fork(after_in_child=_turns.clear)  # a child holds none of the locks, and would wait for ever


@contextmanager
def hold_lock(path: str, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a file, which is made if it is not there."""
    with _turn(path, wait), _record_lock(path, wait):
        yield


@contextmanager
def _turn(path: str, wait: bool) -> Iterator[None]:
    turn = _turns.setdefault(os.path.realpath(path), _Turn())
    if wait and turn.thread == threading.get_ident():
        raise StorageError("this thread holds this lock already, and would wait for itself", path=path)
    if not turn.lock.acquire(blocking=wait):
        raise _taken(path, f"process {os.getpid()}, which is this one")
    turn.thread = threading.get_ident()
    try:
        yield
    finally:
        turn.thread = None
        turn.lock.release()


@contextmanager
def _record_lock(path: str, wait: bool) -> Iterator[None]:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        fail("create this lock file", path, error)
    try:
        try:
            # Record locks, since forked workers do not inherit them and NFS honours them.
            fcntl.lockf(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                fail("lock this file", path, error)
            holder = os.pread(fd, 1000, 0).decode("utf-8", "replace").strip() or "another process"
            raise _taken(path, holder) from None
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError):  # a full disk: the lock holds all the same, and only its holder's name is lost
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}, since {started}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _taken(path: str, holder: str) -> StorageError:
    return StorageError(f"another run is at work here: {holder}", path=path, do="wait until it is done, or stop it")
