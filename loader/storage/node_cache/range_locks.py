"""Locks between processes, one for each number; a lock ends with its process, even if that is killed."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST_DELAY_S, _MAX_DELAY_S, _GROWTH = 0.001, 0.05, 1.5


class RangeLocks:
    """The bytes of an empty file, each of which is a lock. They do not conflict within a process.

    Raises:
        OSError: The file cannot be created, or is no plain file of this user: another one might hold its locks.
    """

    def __init__(self, folder: int, name: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        # Never closed: closing any descriptor of a file drops all record locks that the process holds on it.
        self._fd = os.open(name, flags, 0o600, dir_fd=folder)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            os.close(self._fd)
            raise OSError(errno.EPERM, "its file of locks is no plain file of this user", name)

    def acquire(self, number: int, *, wait_s: float, shared: bool = False) -> bool:
        """Acquire a lock.

        Args:
            number: The lock, in [0, 2^62).

        Returns:
            False if others held it all the time.
        """
        stop_s, delay_s = time.monotonic() + wait_s, _FIRST_DELAY_S
        while True:
            try:
                fcntl.lockf(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, number)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    return True  # a file system without locks: what is done twice is done right twice
            else:
                return True
            if time.monotonic() >= stop_s:
                return False
            time.sleep(delay_s)
            delay_s = min(delay_s * _GROWTH, _MAX_DELAY_S)

    def release(self, number: int) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, number)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise

    @contextmanager
    def hold(self, number: int, *, wait_s: float) -> Iterator[bool]:
        """Hold a lock, for some seconds at most to wait; yield False without it."""
        is_held = self.acquire(number, wait_s=wait_s)
        try:
            yield is_held
        finally:
            if is_held:
                self.release(number)
