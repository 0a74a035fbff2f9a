"""Copies of whole remote files, for tools that need a path: memory maps and SQLite."""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from .new_file import NewFile
from .private_folder import PrivateFolder
from .range_locks import RangeLocks
from .space import Space, remove_old_partials

COPY_NAME = r"[0-9a-f]{40}(-[0-9a-f]{12}\.partial)?"
_WAIT_S = 600.0  # for another process that downloads the same file
_USERS = 1 << 60  # number of the lock that the users of a copy share


class FileCopies:
    """Copies of files, which all processes of a user share: a file is downloaded once.

    Args:
        folder: Holds them.
        locks: Locks by number.
        space: The limits; None keeps copies only while a process uses them. Those that killed processes used are
            removed by the next one.
    """

    def __init__(self, folder: PrivateFolder, locks: RangeLocks, space: Space | None) -> None:
        self._folder = folder
        self._locks = locks
        self._space = space
        self._owner = os.getpid()
        self._kept: set[str] = set()
        self._threads: dict[str, threading.Lock] = {}  # record locks do not conflict within a process
        if space is None:
            self._remove_unused(list(folder.names()))
            atexit.register(self._leave)

    def path_of(self, key: str, download: Callable[[], Iterable[bytes]]) -> Path:
        """Return the path of a copy, which is downloaded if there is none.

        Args:
            key: The file and its version.
            download: Yields its bytes.

        Raises:
            OSError: The disk refuses it.
            Exception: As by ``download``.
        """
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        if self._space is None and name not in self._kept:
            self._locks.acquire(_USERS + _number(name), wait_s=_WAIT_S, shared=True)
            self._kept.add(name)
        if not self._has(name):
            own = self._threads.setdefault(name, threading.Lock())
            with own, self._locks.hold(_number(name), wait_s=_WAIT_S):
                if not self._has(name):
                    self._write(name, download())
        self._folder.touch(name)
        path = Path(self._folder.path, name)
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "its folder was moved", str(path))
        return path

    def _has(self, name: str) -> bool:
        """Return True if there is a copy; what is no plain file of this user is removed.

        Raises:
            OSError: It cannot be removed.
        """
        try:
            fd = self._folder.open(name)
        except OSError:
            if not self._folder.remove(name):
                raise
            return False
        if fd is None:
            return False
        os.close(fd)
        return True

    def _write(self, name: str, pieces: Iterable[bytes]) -> None:
        reserved = 0
        try:
            with closing(NewFile(self._folder, name)) as file:
                for piece in pieces:
                    if self._space is not None and self._space.reserve(len(piece)):  # else it is written all the same
                        reserved += len(piece)
                    file.write((piece,))
                os.fsync(file.fd)  # it has no checksum that would show what a power cut did to it
                file.publish()
        finally:
            if self._space is not None:
                self._space.written(reserved)

    def _remove_unused(self, names: Iterable[str]) -> None:
        remove_old_partials(self._folder)
        for name in names:
            number = _USERS + _number(name)
            if "-" not in name and self._locks.acquire(number, wait_s=0):
                self._folder.remove(name)
                self._locks.release(number)

    def _leave(self) -> None:
        """Remove the copies that no other process uses, at the end of this one."""
        if os.getpid() == self._owner:
            for name in self._kept:
                self._locks.release(_USERS + _number(name))
            self._remove_unused(self._kept)


def _number(name: str) -> int:
    return int(name[:14], 16)
