"""Locks on files of this machine between processes: of whole files, also between threads, and by number."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import StorageError
from .protocol import raise_storage_error


class _ThreadLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder: int | None = None  # identity of the thread


# Record locks do not conflict within a process, and closing any descriptor of the file drops them. So only the thread
# that holds the thread lock opens the file.
_thread_locks: dict[str, _ThreadLock] = {}


os.register_at_fork(after_in_child=_thread_locks.clear)  # their holders do not exist in the child, which would deadlock


@contextmanager
def hold_lock(path: str, *, wait: bool, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing; processes hold a shared one together."""
    with _thread_lock(path, wait), _record_lock(path, wait, shared):
        yield


@contextmanager
def _thread_lock(path: str, wait: bool) -> Iterator[None]:
    # Threads need a lock of their own: the system gives all threads of a process the same lock.
    thread_lock = _thread_locks.setdefault(os.path.realpath(path), _ThreadLock())
    if wait and thread_lock.holder == threading.get_ident():
        raise StorageError("this thread holds this lock already, and would wait for itself", path=path)
    if not thread_lock.lock.acquire(blocking=wait):
        raise _locked(path, f"process {os.getpid()}, which is this one")
    thread_lock.holder = threading.get_ident()
    try:
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


# Blocking calls know no deadline, so a lock is tried again and again: often at first, since most waits are short.
_FIRST_DELAY_S, _MAX_DELAY_S, _GROWTH = 0.001, 0.05, 1.5


class RangeLocks:
    """Locks by number: each is a byte of an empty file. They do not conflict within a process."""

    def __init__(self, folder: int, name: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        # Never closed: closing any descriptor of a file drops all record locks that the process holds on it.
        self._fd = os.open(name, flags, 0o600, dir_fd=folder)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():  # another user might hold its locks
            os.close(self._fd)
            raise OSError(errno.EPERM, "its file of locks is no plain file of this user", name)

    def acquire(self, offset: int, *, wait_s: float, shared: bool = False) -> bool:
        """Acquire a lock.

        Args:
            offset: The byte of the file that is the lock, in [0, 2^62).

        Returns:
            False if others held it all the time.
        """
        stop_s, delay_s = time.monotonic() + wait_s, _FIRST_DELAY_S
        while True:
            try:
                fcntl.lockf(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, offset)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    return True  # a file system without locks: what is done twice is done right twice
            else:
                return True
            if time.monotonic() >= stop_s:
                return False
            time.sleep(delay_s)
            delay_s = min(delay_s * _GROWTH, _MAX_DELAY_S)

    def release(self, offset: int) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, offset)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise

    @contextmanager
    def hold(self, offset: int, *, wait_s: float) -> Iterator[bool]:
        """Hold a lock, for some seconds at most to wait; yield False without it."""
        is_held = self.acquire(offset, wait_s=wait_s)
        try:
            yield is_held
        finally:
            if is_held:
                self.release(offset)
