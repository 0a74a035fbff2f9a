"""References to files of this machine, with their sizes."""

from __future__ import annotations

import os
import stat

from .row import FileRef, PartRef

__all__ = ["file_ref"]


def file_ref(path: str, *, named_by_contents: bool = False) -> PartRef:
    """Return the reference to a file; one without a size if there is no such file, so that reading it fails.

    Args:
        path: Its path as the system has it.
        named_by_contents: The part has the extension of its contents.
    """
    name = os.fsencode(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # a dangling link, or a name with a zero byte
        return FileRef(name, named_by_contents=named_by_contents)
    if not stat.S_ISREG(status.st_mode):
        return FileRef(name, named_by_contents=named_by_contents)
    return FileRef(name, status.st_size, str(status.st_mtime_ns), named_by_contents)
