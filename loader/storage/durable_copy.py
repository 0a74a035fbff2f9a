"""Copy files across disks, wait until a disk has them, and make temporary folders that outlive no run."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from stat import S_ISREG

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
_FLUSH_THREADS = 8  # disks carry out several flushes together
_MAX_FLUSHED_FILES = 1000  # more are flushed with all other files of the machine, in one call


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
    return sum(max(0, _size(file)) for file in (_files(path) if os.path.isdir(path) else [path]))


def left_command(folder: str) -> str | None:
    """Return the command line that a run has recorded in its folder, as a user here types it; None without one."""
    try:
        with open(os.path.join(folder, COMMAND_FILE), "rb") as file:
            record = json.loads(file.read(_MAX_RECORD))
        line, started = str(record["line"]), str(record["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return line if started == os.getcwd() else f"cd {shlex.quote(started)} && {line}"


def copy_into_place(source: str, target: str) -> None:
    """Copy a file, or a folder with all its contents, so that the target appears whole or not at all."""
    if _is_copied(source, target):
        return  # an earlier copy was interrupted before its source was removed
    # Copy under a hidden name on the target's disk, and rename when all of it is there.
    temporary = temporary_name(target)
    try:
        if os.path.isdir(source) and not os.path.islink(source):
            shutil.copytree(source, temporary, symlinks=True, copy_function=_copy_file)
        else:
            _copy_file(source, temporary)
        os.replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            os.unlink(temporary)
        raise
    # The caller removes the source next, so the new name has to survive a power cut.
    _flush_folder(os.path.dirname(target))


def _copy_file(source: str, target: str) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    with suppress(OSError):  # some file systems store no times or permissions
        shutil.copystat(source, target, follow_symlinks=False)
    _flush_file(target)


def _is_copied(source: str, target: str) -> bool:
    if not (os.path.isdir(source) and os.path.isdir(target)) or os.path.islink(source):
        return False
    # Names and sizes are enough: the target appears under its name only when it is whole.
    names = [os.path.relpath(path, source) for path in _files(source)]
    sizes = [_size(os.path.join(source, name)) for name in names]
    return sizes == [_size(os.path.join(target, name)) for name in names]


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def _files(path: str) -> list[str]:
    return [os.path.join(base, name) for base, _, names in os.walk(path) for name in names]


def flush_files(paths: Iterable[str]) -> None:
    """Wait until the disk has the files, the contents of the folders, and their names."""
    files: list[str] = []
    folders: set[str] = set()
    # Collect the files, and the folders that hold their names.
    for path in paths:
        folders.add(os.path.dirname(path))
        if os.path.isdir(path):
            folders.update(base for base, _, _ in os.walk(path))
            files += _files(path)
        else:
            files.append(path)
    if len(files) > _MAX_FLUSHED_FILES:
        os.sync()
        return
    with ThreadPoolExecutor(_FLUSH_THREADS) as threads:
        list(threads.map(_flush_file, files))
    # Folders last, so that a name on the disk never leads to a file without contents.
    for folder in folders:
        _flush_folder(folder)


def _flush_file(path: str) -> None:
    if os.path.islink(path):
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # else opening a pipe waits for its other end
    try:
        if S_ISREG(os.fstat(fd).st_mode):
            os.fsync(fd)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def _flush_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush a folder
            error.filename = path
            raise
    finally:
        os.close(fd)
