"""Locks on files of this machine, between processes and threads."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ..errors import StorageError
from .protocol import raise_storage_error


@dataclass(slots=True)
class _ThreadLock:
    lock: threading.Lock = field(default_factory=threading.Lock)
    holder: int | None = None  # identity of the thread


# Record locks do not conflict within a process, and closing any descriptor of the file drops them. So only the thread
# that holds the thread lock opens the file.
_thread_locks: dict[str, _ThreadLock] = {}


os.register_at_fork(after_in_child=_thread_locks.clear)  # their holders do not exist in the child, which would deadlock


@contextmanager
def hold_lock(path: str, *, wait: bool, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; processes hold a shared one together."""
    # Threads need a lock of their own: the system gives all threads of a process the same lock.
    thread_lock = _thread_locks.setdefault(os.path.realpath(path), _ThreadLock())
    if wait and thread_lock.holder == threading.get_ident():
        raise StorageError("this thread holds this lock already, and would wait for itself", path=path)
    if not thread_lock.lock.acquire(blocking=wait):
        raise _locked(path, f"process {os.getpid()}, which is this one")
    thread_lock.holder = threading.get_ident()
    try:
        with _record_lock(path, wait, shared):
            yield
    finally:
        thread_lock.holder = None
        thread_lock.lock.release()


@contextmanager
def _record_lock(path: str, wait: bool, shared: bool) -> Iterator[None]:
    # Open the lock file without following a link, which a hostile dataset may contain.
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise_storage_error("create this lock file", path, error)
    try:
        try:
            # Record locks, because forked workers do not inherit them and NFS honours them.
            fcntl.lockf(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise_storage_error("lock this file", path, error)
            holder = os.pread(fd, 1000, 0).decode("utf-8", "replace").strip() or "another process"
            raise _locked(path, holder) from None
        # Write who holds the lock, for the message of those that do not get it.
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        others = "one or more shares of a command, the last one started by " if shared else ""
        with suppress(OSError):  # on a full disk the lock holds, and only the name of its holder is missing
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{others}process {os.getpid()} on {socket.gethostname()}, since {started}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _locked(path: str, holder: str) -> StorageError:
    return StorageError(f"another run is at work here: {holder}", path=path, hint="wait until it is done, or stop it")
