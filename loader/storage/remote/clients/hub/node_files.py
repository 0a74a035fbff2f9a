"""Share small files among the processes of a user on a node: answers of the hub, since each costs a request."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from .....errors import ConfigError
from ....node_cache.private_folder import PARTIAL, PrivateFolder, cache_settings, open_inner_folder, open_own_folder
from ....range_locks import RangeLocks
from ..helper_client import ForkLock

_MEMORY = "/dev/shm"  # noqa: S108 - the folder in it is this user's alone
_NAMES = rf"[a-z]+-[0-9a-f]{{32}}(?:-\d+-\d+{re.escape(PARTIAL)})?"  # and what a killed process was writing
_LOCK_WAIT_S = 330.0  # longer than a window of the hub's limits, which the holder of a lock may have to wait for
_OLD_S = 7 * 86400.0  # since a file was written; no run needs it for a week


def digest_of(*texts: str) -> str:
    """Return the digest of some texts, as 32 hexadecimal digits."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def open_node_files(cache_dir: str | None = None) -> NodeFiles:
    """Return the files of a cache folder, which all clients of this process share; see :class:`NodeFiles`."""
    settings = cache_settings(cache_dir)
    folder = _MEMORY if settings is None else settings.folder
    with _lock:
        if folder not in _opened:
            _opened[folder] = NodeFiles(_open(folder) or _open(_MEMORY))
        return _opened[folder]


class NodeFiles:
    """Small files by name, such as ``address-…``, in the folder of the node cache or in shared memory.

    Only this user may read them: signed addresses are credentials. Without a folder on this machine, each process has
    its own.

    Args:
        folder: The open folder; None keeps the files in this process.
    """

    def __init__(self, folder: PrivateFolder | None) -> None:
        self._folder = folder
        self._locks = None if self._folder is None else RangeLocks(self._folder.fd, "locks")
        self._thread_locks: dict[str, threading.Lock] = {}
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it is missing or not this user's."""
        if self._folder is None or name in self._kept:
            return self._kept.get(name)
        with suppress(OSError):
            fd = self._folder.open(name)
            if fd is not None:
                with open(fd, "rb") as file:
                    return file.read()
        return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it; a full disk keeps the contents in this process."""
        self._kept[name] = data
        if self._folder is None:
            return
        partial = f"{name}-{os.getpid()}-{threading.get_ident()}{PARTIAL}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with open(os.open(partial, flags, 0o600, dir_fd=self._folder.fd), "wb") as file:
                file.write(data)
            os.rename(partial, name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        except OSError:
            self._folder.remove(partial)
        else:
            self._kept.pop(name, None)

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a name, among the threads and processes of this node."""
        # One for each name: the holder of one may wait for another, as for the pace of the request that it sends.
        locks = self._locks
        among_processes = nullcontext() if locks is None else locks.hold(int(name[-15:], 16), wait_s=_LOCK_WAIT_S)
        with self._thread_locks.setdefault(name, threading.Lock()), among_processes:
            yield


_lock = ForkLock()
_opened: dict[str, NodeFiles] = {}


def _open(outer: str) -> PrivateFolder | None:
    name = f"energon-hub-{os.getuid()}"
    if outer == _MEMORY and not os.access(outer, os.W_OK):
        return None
    try:
        fd = open_own_folder(outer, name, hint="unset ENERGON_CACHE_DIR", on_network=False)
        folder = open_inner_folder(os.path.join(outer, name), fd, "answers", _NAMES)
        os.close(fd)
    except (ConfigError, OSError):
        return None  # of another user, or on another machine
    _remove_old(folder)
    return folder


def _remove_old(folder: PrivateFolder) -> None:
    # Memory is scarce, and listings and addresses of earlier runs are of no use.
    for name in list(folder.names()):
        status = folder.status(name)
        if status is not None and time.time() - status.st_mtime > _OLD_S:
            folder.remove(name)


os.register_at_fork(after_in_child=_opened.clear)  # threads that hold its locks are not in the child
