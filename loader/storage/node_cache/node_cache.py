"""The caches of this process, opened on first use, and copies of whole files."""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...errors import StorageError
from ...escaped_log import get_logger
from ..range_locks import RangeLocks
from .block_cache import BLOCK_NAME, BlockCache, Space, remove_old_partials
from .private_folder import (
    CACHE_FOLDER_VARIABLE,
    CacheSettings,
    NewFile,
    PrivateFolder,
    open_inner_folder,
    open_own_folder,
)

_K = TypeVar("_K")
_T = TypeVar("_T")
_LOCKS = "locks"
_TEMPORARY_HINT = f"set {CACHE_FOLDER_VARIABLE} or TMPDIR to a folder of your own with some room"
_log = get_logger(__name__)
_lock = threading.RLock()


class _Cache(NamedTuple):
    blocks: BlockCache
    files: FileCopies


_caches: dict[CacheSettings, _Cache | None] = {}
_temporary: dict[str, FileCopies] = {}
_without_copies: list[CacheSettings | None] = []  # those that were warned of


def block_cache(settings: CacheSettings) -> BlockCache | None:
    """Return the cache of blocks; None if its folder cannot be written, which is logged once."""
    cache = _cache(settings)
    return None if cache is None else cache.blocks


def local_copy(settings: CacheSettings | None, key: str, download: Callable[[], Iterable[bytes]]) -> Path:
    """Return the path of a copy of a file; download the file if no copy exists.

    Without a cache, or if its disk is full, the copy is a temporary one.

    Args:
        settings: The cache; None if it is off.
        download: Yields its bytes.
    """
    # With a cache, the copy stays for later processes.
    cache = None if settings is None else _cache(settings)
    if cache is not None:
        try:
            return cache.files.path_of(key, download)
        except OSError as error:
            if settings not in _without_copies:
                _without_copies.append(settings)
                _log.warning("cannot write to the cache, so temporary copies are used: %s", error)
    # Otherwise it is removed with the last process that uses it.
    folder = tempfile.gettempdir()
    path = os.path.join(folder, f"energon-copies-{os.getuid()}")
    try:
        return _opened(_temporary, path, lambda: _open_temporary(folder)).path_of(key, download)
    except OSError as error:
        raise StorageError(
            f"cannot copy a remote file to this folder: {error.strerror or error}", path=path, hint=_TEMPORARY_HINT
        ) from error


def _cache(settings: CacheSettings) -> _Cache | None:
    return _opened(_caches, settings, lambda: _open(settings))


def _opened(known: dict[_K, _T], key: _K, open_new: Callable[[], _T]) -> _T:
    with _lock:
        if key not in known:
            known[key] = open_new()
        return known[key]


def _open(settings: CacheSettings) -> _Cache | None:
    name = f"energon-cache-{os.getuid()}"
    path = os.path.join(settings.folder, name)
    hint = f"set {CACHE_FOLDER_VARIABLE} to a folder of your own on a local disk"
    try:
        fd = open_own_folder(settings.folder, name, hint=hint, on_network=settings.on_network)
        blocks = open_inner_folder(path, fd, "blocks", BLOCK_NAME)
        files = open_inner_folder(path, fd, "files", COPY_NAME)
        locks = RangeLocks(fd, _LOCKS)
        space = Space(blocks, files, limit_bytes=settings.limit_bytes, free_bytes=settings.free_bytes)
        return _Cache(BlockCache(blocks, locks, space), FileCopies(files, locks, space))
    except OSError as error:
        _log.warning("cannot use the cache %s, so bytes are read from the store: %s", path, error.strerror or error)
        return None


def _open_temporary(folder: str) -> FileCopies:
    name = f"energon-copies-{os.getuid()}"
    fd = open_own_folder(folder, name, hint=_TEMPORARY_HINT, on_network=True)
    files = open_inner_folder(os.path.join(folder, name), fd, "files", COPY_NAME)
    return FileCopies(files, RangeLocks(fd, _LOCKS), None)


def _forget_in_child() -> None:
    global _lock  # noqa: PLW0603 - a thread that does not exist in the child may hold it
    _lock = threading.RLock()
    _caches.clear()
    _temporary.clear()


os.register_at_fork(after_in_child=_forget_in_child)


COPY_NAME = r"[0-9a-f]{40}(-[0-9a-f]{12}\.partial)?"
_WAIT_S = 600.0  # for another process that downloads the same file
_USERS = 1 << 60  # number of the lock that the users of a copy share


class FileCopies:
    """Copies of files, which all processes of a user share: a file is downloaded once.

    Args:
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
        """Return the path of a copy; download the file, whose bytes are yielded, if no copy exists."""
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        # A shared lock shows other processes that this one uses the copy.
        if self._space is None and name not in self._kept:
            self._locks.acquire(_USERS + _number(name), wait_s=_WAIT_S, shared=True)
            self._kept.add(name)
        # Download under a lock, and look again once it is held: another process may have finished meanwhile.
        if not self._has(name):
            thread_lock = self._threads.setdefault(name, threading.Lock())
            with thread_lock, self._locks.hold(_number(name), wait_s=_WAIT_S):
                if not self._has(name):
                    self._write(name, download())
        # Its time of change is the time of its last use.
        self._folder.touch(name)
        path = Path(self._folder.path, name)
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "its folder was moved", str(path))
        return path

    def _has(self, name: str) -> bool:
        """Return True if there is a copy; what is no plain file of this user is removed, or raises an ``OSError``."""
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
            # Only an unused copy can be locked.
            users_lock = _USERS + _number(name)
            if "-" not in name and self._locks.acquire(users_lock, wait_s=0):
                self._folder.remove(name)
                self._locks.release(users_lock)

    def _leave(self) -> None:
        """Remove the copies that no other process uses, at the end of this one."""
        if os.getpid() == self._owner:
            for name in self._kept:
                self._locks.release(_USERS + _number(name))
            self._remove_unused(self._kept)


def _number(name: str) -> int:
    return int(name[:14], 16)
