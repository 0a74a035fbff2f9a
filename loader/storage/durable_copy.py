"""Copy files across disks, and wait until a disk has them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from stat import S_ISREG

from .temporary_files import files_below, temporary_name

_FLUSH_THREADS = 8  # disks carry out several flushes together
_MAX_FLUSHED_FILES = 1000  # more are flushed with all other files of the machine, in one call


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
    return _sizes(source).items() <= _sizes(target).items()


def _sizes(folder: str) -> dict[str, int]:
    return {os.path.relpath(path, folder): os.lstat(path).st_size for path in files_below(folder)}


def flush_files(paths: Iterable[str]) -> None:
    """Wait until the disk has the files, the contents of the folders, and their names."""
    files: list[str] = []
    folders: set[str] = set()
    # Collect the files, and the folders that hold their names.
    for path in paths:
        folders.add(os.path.dirname(path))
        if os.path.isdir(path):
            folders.update(base for base, _, _ in os.walk(path))
            files += files_below(path)
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
