"""The error of a folder that does not exist, in the words of its kind of storage."""

from __future__ import annotations

from ..errors import StorageError
from .durable_copy import left_command, partials_of, size_of
from .protocol import Storage
from .urls import is_url


def missing_folder(storage: Storage) -> StorageError:
    """Return the error of a folder that does not exist, or that has no object below its URL."""
    path = storage.path("")
    if path.startswith(("http://", "https://")):
        return StorageError(
            "no prepared dataset is at this URL: it has no .nv-meta/.info.json, and a web server cannot list shards",
            path=path,
            hint="check the URL; prepare the folder that the server shares, before it does",
        )
    if is_url(path):
        return StorageError("there is no file below this URL", path=path, hint="check the URL")
    return StorageError("this folder does not exist", path=path, hint=hint_of_missing(path))


def hint_of_missing(path: str) -> str:
    """Return the hint for a path that does not exist: the interrupted run that would have made it, if there is one."""
    partials = [] if is_url(path) else partials_of(path)
    if not partials:
        return "check the path"
    first = partials[0]
    line = left_command(first)
    how = f"run: {line}" if line else "run its command again"
    return f"an interrupted run has left {first} ({size_of(first):,} bytes), which is removed when it completes; {how}"
