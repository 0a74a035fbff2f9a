"""Temporary files and folders, and unfinished ones that a killed run has left."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
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
        # Take the lock before its file has the name that other processes look for.
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
        # Every user may write to the parent folder: folders of other users stay.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return
        # Its owner and all of its forks have ended if the lock is free.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


COMMAND_FILE = ".energon-command"
"""In a folder of an unfinished run: the command line, and the folder in which it was given."""

_MAX_BASE = 100  # characters: a name has at most 255 bytes
_PARTIAL = re.compile(r"\.(.+)\.(\d+)-[0-9a-f]{12}\.partial", re.DOTALL)
_MAX_RECORD = 1 << 20


def temporary_name(path: str) -> str:
    """Return an unused hidden name in the same folder as a path."""
    folder, base = os.path.split(path)
    return os.path.join(folder, f".{base[:_MAX_BASE]}.{os.getpid()}-{os.urandom(6).hex()}.partial")


def process_of_partial(name: str) -> int:
    """Return the number of the process that has begun an unfinished file, by the file's name; 0 for other files."""
    match = _PARTIAL.fullmatch(name.rpartition("/")[2])
    return int(match[2]) if match else 0


def partials_of(path: str) -> list[str]:
    """Return the paths of the unfinished files and folders of this machine that have a path as their final name."""
    folder, base = os.path.split(os.path.abspath(path))
    try:
        matches = [*map(_PARTIAL.fullmatch, sorted(os.listdir(folder)))]
    except OSError:
        return []
    return [os.path.join(folder, match[0]) for match in matches if match and match[1] == base[:_MAX_BASE]]


def size_of(path: str) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if it is gone."""
    return sum(max(0, _size(file)) for file in (files_below(path) if os.path.isdir(path) else [path]))


def left_command(folder: str) -> str | None:
    """Return the command line that a run has recorded in its folder, as a user here types it; None without one."""
    try:
        with open(os.path.join(folder, COMMAND_FILE), "rb") as file:
            record = json.loads(file.read(_MAX_RECORD))
        line, started = str(record["line"]), str(record["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return line if started == os.getcwd() else f"cd {shlex.quote(started)} && {line}"


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def files_below(path: str) -> list[str]:
    """Return the paths of all files in a folder and below it."""
    return [os.path.join(base, name) for base, _, names in os.walk(path) for name in names]
