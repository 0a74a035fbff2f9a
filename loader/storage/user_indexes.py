"""The user's folder of indexes: of data that have no index next to them, and cannot or need not get one.

In ``derived`` are indexes that can be rebuilt, under names that say what they index. A limit removes those that were
used longest ago; whatever else is in the folder stays: the metadata of datasets, which users may have edited.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from contextlib import suppress

from ..errors import StorageError
from .local import LocalStorage
from .node_cache.private_folder import parse_bytes
from .remote import redact_urls
from .remote.object_url import parse_object_url
from .urls import is_url, split_url

FOLDERS_VARIABLE = "ENERGON_INDEX"
"""Environment variable with folders and URLs, separated by ``:``. Indexes are looked up in all, and written to the
first one."""

LIMIT_VARIABLE = "ENERGON_INDEX_BYTES"
"""Environment variable with the limit of indexes that can be rebuilt, such as ``20GB``."""

_LIMIT = "10GB"  # little of any disk; with 8 bytes a line, the indexes of a terabyte of JSONL

# A URL, whose host may have a port, or a path.
_ENTRY = re.compile(r"[a-z][a-z0-9+.-]*://[^/:]*(?::\d+(?![^/:]))?[^:]*|[^:]+")


def index_folders() -> list[str]:
    """Return the folders and URLs in which indexes are looked up, the user's folder first.

    Raises:
        StorageError: No variable names a folder, and the user has no home.
    """
    given = [os.path.expanduser(entry) for entry in _ENTRY.findall(os.environ.get(FOLDERS_VARIABLE, ""))]
    if given and not is_url(given[0]):
        return given
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if caches.startswith("~"):
        raise StorageError(
            "this user has no home for a folder of indexes", path=caches, hint=f"set {FOLDERS_VARIABLE} to a folder"
        )
    return [os.path.join(caches, "energon", "index"), *given]


def index_name(path: str) -> str:
    """Return the name in a folder of indexes for the data at a path or URL, without credentials.

    >>> index_name("s3://bucket/web/coco/")
    'coco-989d1be7ef8a8ddf'
    """
    protocol, rest = split_url(path)
    if protocol == "hf":
        path = str(parse_object_url(path))  # a revision may be written in several ways
    where = redact_urls(path).rstrip("/") if protocol else os.path.abspath(rest)
    digest = hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub(r'[^0-9A-Za-z._-]+', '-', where.rpartition('/')[2])[:40]}-{digest[:16]}"


def derived_indexes() -> list[LocalStorage]:
    """Return the folders of indexes that can be rebuilt, the user's first.

    Raises:
        StorageError: As for :func:`index_folders`.
    """
    storages = [LocalStorage(os.path.join(folder, "derived")) for folder in index_folders() if not is_url(folder)]
    for storage in storages:
        storage.answers = None  # ranks of other nodes have other folders
    return storages


def find_derived(name: str) -> LocalStorage | None:
    """Return the folder that has an index of this name, and note that it is used; None without one."""
    for folder in derived_indexes():
        if folder.exists(name):
            with suppress(OSError):  # a folder of others is read-only
                os.utime(folder.path(name))
            return folder
    return None


def limit_derived(*, used: str) -> None:
    """Note that an index of the user's folder is used, and remove others that were used longest ago above the limit."""
    folder = derived_indexes()[0]
    with suppress(FileNotFoundError):  # another process has removed it
        os.utime(folder.path(used))
    limit_bytes = parse_bytes(os.environ.get(LIMIT_VARIABLE) or _LIMIT, LIMIT_VARIABLE)
    sizes: Counter[str] = Counter()
    for file in folder.list():
        sizes[file.name.partition("/")[0]] += file.size_bytes
    # Remove the others, those that were used longest ago first.
    times = {}
    for name in sizes:
        with suppress(FileNotFoundError):  # another process has removed it
            times[name] = os.stat(folder.path(name)).st_mtime_ns
    excess = sizes.total() - limit_bytes
    for name in sorted(times.keys() - {used}, key=times.__getitem__):
        if excess <= 0:
            break
        folder.remove(name)
        excess -= sizes[name]
