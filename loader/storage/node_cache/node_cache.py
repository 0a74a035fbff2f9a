"""The caches of this process, opened on first use."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...errors import StorageError
from ...escaped_log import get_logger
from .block_cache import BLOCK_NAME, BlockCache
from .file_copies import COPY_NAME, FileCopies
from .private_folder import open_inner_folder, open_own_folder
from .range_locks import RangeLocks
from .settings import CACHE_FOLDER_VARIABLE, CacheSettings
from .space import Space

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
    """Return the cache of blocks; None if its folder cannot be written, which is logged once.

    Raises:
        ConfigError: The folder belongs to another user, or is on another machine.
    """
    found = _cache(settings)
    return None if found is None else found.blocks


def local_copy(settings: CacheSettings | None, key: str, download: Callable[[], Iterable[bytes]]) -> Path:
    """Return the path of a copy of a file, which is downloaded if there is none.

    Without a cache, or if its disk is full, the copy is a temporary one.

    Args:
        settings: The cache; None if it is off.
        key: The file and its version.
        download: Yields its bytes.

    Raises:
        ConfigError: The folder belongs to another user, or is on another machine.
        StorageError: There is no room for temporary files.
        Exception: As by ``download``.
    """
    cache = None if settings is None else _cache(settings)
    if cache is not None:
        try:
            return cache.files.path_of(key, download)
        except OSError as error:
            if settings not in _without_copies:
                _without_copies.append(settings)
                _log.warning("cannot write to the cache, so temporary copies are used: %s", error)
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
