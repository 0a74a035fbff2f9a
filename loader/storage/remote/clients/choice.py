"""Choose the client of a URL in this process: a process that may fork holds no client that is written in Rust."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from contextlib import suppress
from functools import cache, partial

from ..fetcher import Fetcher
from ..object_url import ObjectUrl, parse_object_url
from ..options import StorageOptions, options_for
from .connection import Connection, ObjectClient
from .helper_client import ForkLock, HelperClient

_WEB = ("http", "https")
_PYTHON = (*_WEB, "hf")  # protocols whose clients are written in Python

_lock = ForkLock()
_connections: dict[tuple[object, ...], Connection] = {}
_fetchers: dict[tuple[str, ...], Fetcher] = {}
_answered: set[tuple[str, ...]] = set()
_has_used_rust = False  # here, or before a fork of this process
_is_forked_after_use = False
_is_told = False


def use_rust_here() -> None:
    """Allow clients that are written in Rust in this process, which does not fork from now on."""
    global _is_told  # noqa: PLW0603 - one setting for each process
    _is_told = True


def may_use_rust() -> bool:
    """Return True if this process may hold a client that is written in Rust.

    A worker may, and a process that called :func:`use_rust_here`, unless its parent held such a client before the fork.
    """
    if _is_forked_after_use:
        return False
    return _is_told or multiprocessing.parent_process() is not None


def may_fork() -> bool:
    """Return True if this process holds no client that is written in Rust; its locks would hang a forked process."""
    return not _has_used_rust


def open_url(url: str) -> ObjectUrl:
    """Parse a URL whose objects are to be read; a profile is read again if its file has changed."""
    object_url = parse_object_url(url)
    if object_url.protocol == "hf":
        from .hub.revisions import pin_present_commit

        pin_present_commit(url, unless_pinned=True)
    return object_url._replace(profiles=_state_of_profiles()) if object_url.protocol == "msc" else object_url


_which = cache(shutil.which)


def _state_of_profiles() -> int:
    """Return a hash of the files in which multi-storage-client looks for profiles; to import it takes a second."""
    variables = ("MSC_CONFIG", "HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "PATH")
    path_of_msc, home, folder, folders, programs = (os.environ.get(name, "") for name in variables)
    tops = (folder, f"{home}/.config", *(folders or "/etc/xdg").split(":"))
    paths = [f"{top}/{name}" for top in tops for name in ("msc/config.yaml", "msc/config.json", "rclone/rclone.conf")]
    starts = [f"{home}/.", "/etc/", (_which("rclone", path=programs) or "").removesuffix("rclone")]
    paths += [f"{start}{name}" for start in starts for name in ("msc_config.yaml", "msc_config.json", "rclone.conf")]
    states = []
    for path in (path_of_msc, *paths):
        with suppress(OSError):
            status = os.stat(path)
            states.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return hash(tuple(states))


def fetcher_of(url: ObjectUrl) -> Fetcher:
    """Return the threads of this process that fetch from a URL's bucket, and the pace of its requests."""
    key = _bucket(url)
    return _fetchers.get(key) or _fetchers.setdefault(key, Fetcher(options_for(str(url)).max_requests))


def connection_of(url: ObjectUrl, options: StorageOptions) -> Connection:
    """Return the connection to a URL's bucket, which all threads of this process share."""
    global _has_used_rust  # noqa: PLW0603
    direct = may_use_rust()
    key = (*_bucket(url), url.profiles, options, direct)
    connection = _connections.get(key)
    if connection is None:  # else no lock: this is called for each request
        with _lock:
            connection = _connections.get(key)
            if connection is None:
                client = _open(url, options, direct=direct)
                _has_used_rust = _has_used_rust or (direct and url.protocol not in _PYTHON)
                connection = Connection(client, fetcher_of(url).pace, options, _bucket(url), _answered)
                _connections[key] = connection
    return connection


def note_answer(url: ObjectUrl) -> None:
    """Remember that the service of a URL's bucket has answered, in this process and in processes that it forks."""
    _answered.add(_bucket(url))


def has_answered(url: ObjectUrl) -> bool:
    """Return True if the service of a URL's bucket has answered before."""
    return _bucket(url) in _answered


def _bucket(url: ObjectUrl) -> tuple[str, ...]:
    return url.protocol, url.container, url.account, url.revision


def _open(url: ObjectUrl, options: StorageOptions, *, direct: bool) -> ObjectClient:
    if url.protocol == "hf":
        from .hub.hub_client import HubClient

        return HubClient(url, options)
    if url.protocol in _WEB:
        from .http_client import HttpClient

        return HttpClient(url, options)
    if direct:
        if url.protocol == "msc":
            from .msc_client import open_msc_client

            return open_msc_client(url, options)
        from .obstore_client import ObstoreClient, open_store

        return ObstoreClient(partial(open_store, url, options))
    return HelperClient(url, options)


def _forget_in_child() -> None:
    global _is_forked_after_use  # noqa: PLW0603
    if _has_used_rust:
        import ctypes

        # Never free clients of the parent: their destructors wait for locks of threads that are not in this process.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(list(_connections.values())))
    _connections.clear()
    _fetchers.clear()
    _is_forked_after_use = _is_forked_after_use or _has_used_rust


os.register_at_fork(after_in_child=_forget_in_child)
