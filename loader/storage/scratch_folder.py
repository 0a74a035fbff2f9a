"""Temporary folders of commands. Each run removes the folders that killed runs left."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PREFIX = "energon-scratch-"
_LOCK = ".lock"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Yield a new folder below ``TMPDIR``, which is removed at the end.

    Processes that are forked inside of the context share its lock, so that the folder is in use until all of them end.
    """
    _remove_abandoned(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
        lock = os.path.join(folder, _LOCK)
        descriptor = os.open(f"{lock}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.rename(f"{lock}.new", lock)  # a folder without a lock is not taken for an abandoned one
            yield folder
        finally:
            os.close(descriptor)


def _remove_abandoned(parent: str) -> None:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # of another user, in use, or gone by now
                _remove_if_abandoned(entry.path)


def _remove_if_abandoned(folder: str) -> None:
    descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
