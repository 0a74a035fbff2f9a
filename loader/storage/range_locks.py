"""Locks by number on a file of this machine, between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
            raise OSError(errno.EPERM, "its file of locks is not a plain file of this user", name)

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
