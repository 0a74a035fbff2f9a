"""References to files of this machine, with their sizes."""

from __future__ import annotations

import os
import stat

from ...storage import open_parent
from .row import FileRef, PartRef


def file_ref(path: str, *, named_by_contents: bool = False, status: os.stat_result | None = None) -> PartRef:
    """Return the reference to a file; one without a size if there is no such file, so that reading it fails.

    Args:
        path: Its path as the system has it.
        named_by_contents: The part has the extension of its contents.
        status: Its status, if it is known.
    """
    name = os.fsencode(path)
    try:
        status = status or os.stat(path)
    except (OSError, ValueError):  # a dangling link, or a name with a zero byte
        return FileRef(name, named_by_contents=named_by_contents)
    if not stat.S_ISREG(status.st_mode):
        return FileRef(name, named_by_contents=named_by_contents)
    return FileRef(name, status.st_size, str(status.st_mtime_ns), named_by_contents)


def file_version(path: str) -> str:
    """Return a text that differs after a change of a file: its version in an object store, or its time of change.

    Raises:
        StorageError: There is no such file.
    """
    storage, name = open_parent(path)
    info = storage.stat(name)
    return info.etag or str(info.mtime_ns)
