"""What the operating system refuses, told with the path and what to do about it."""

from __future__ import annotations

import errno
from typing import NoReturn

from ..errors import StorageError

__all__ = ["fail"]

_ADVICE = {
    errno.ENOSPC: "free some space on that disk and run the same command again",
    errno.EDQUOT: "free some of your quota on that disk and run the same command again",
    errno.EACCES: "ask for the permission, or run as a user who has it",
    errno.EPERM: "ask for the permission, or run as a user who has it",
    errno.EROFS: "the disk is mounted read-only: copy the dataset to a writable one",
    errno.EIO: "the disk or network file system reports a fault: check it (dmesg), then try again",
    errno.ENOENT: "check the path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def fail(action: str, path: str, error: OSError) -> NoReturn:
    """Raise the ``StorageError`` of a failed action."""
    cause = error.strerror or str(error)
    raise StorageError(f"cannot {action}: {cause}", path=path, do=_ADVICE.get(error.errno or 0)) from error
