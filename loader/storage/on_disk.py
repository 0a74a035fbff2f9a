"""Rename and flush files of this machine, and check whether files can be written, by the paths that a storage gives."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from stat import S_ISDIR, S_ISREG

from ..errors import StorageError
from .protocol import Storage, raise_storage_error
from .temporary_files import files_below, temporary_name

_FLUSH_THREADS = 8  # disks carry out several flushes together
_MAX_FLUSHED_FILES = 1000  # more are flushed with all other files of the machine, in one call


def lists_files(storage: Storage) -> bool:
    """Return True unless the files of a dataset's ``.nv-meta`` are on a web server, which lists and takes none."""
    return getattr(storage, "can_list", True)


def is_writable(storage: Storage, folder: str) -> bool:
    """Return True if files can be created in a folder, or in a missing folder once it is created.

    For an object store this is known only by writing; a web server refuses it.
    """
    if not lists_files(storage):
        return False
    try:
        path = storage.target(folder)
    except StorageError:
        return False
    if not os.path.isabs(path):  # a URL
        return True
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)  # the folders below would be created
    return os.access(path, os.W_OK | os.X_OK)


def check_target(storage: Storage, name: str) -> None:
    """Raise a ``StorageError`` if a file of that name cannot be written because of a folder."""
    path = storage.target(name)
    if os.path.isabs(path) and os.path.isdir(path) and not os.path.islink(path):
        raise StorageError("expected a file or a free name to write to, found a folder", path=path, hint="move it away")


def rename_file(storage: Storage, old: str, new: str) -> None:
    """Move a file or folder to another name in one step, replacing an existing file.

    On another disk, too, the new name appears in one step, before the old one is removed.
    """
    source, target = storage.target(old), storage.target(new)
    if not os.path.isabs(source):  # a URL
        raise StorageError("objects cannot be renamed", path=source, hint=f"write {new} instead")
    # Rename; the folder of the target may be missing, which is rare, so it is not checked before.
    try:
        try:
            os.replace(source, target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise_storage_error(f"rename {old} to this", target, error)
    else:
        return
    # On another disk, copy, and remove the source only after the copy is complete.
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy_into_place(source, target)  # the folder is a link to another disk
    except OSError as error:
        raise_storage_error(f"copy {old} to this", target, error)
    storage.remove(old)


def _copy_into_place(source: str, target: str) -> None:
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
    _flush(os.path.dirname(target))


def _copy_file(source: str, target: str) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    with suppress(OSError):  # some file systems store no times or permissions
        shutil.copystat(source, target, follow_symlinks=False)
    _flush(target)


def _is_copied(source: str, target: str) -> bool:
    if not (os.path.isdir(source) and os.path.isdir(target)) or os.path.islink(source):
        return False
    # Names and sizes are enough: the target appears under its name only when it is whole.
    return _sizes(source).items() <= _sizes(target).items()


def _sizes(folder: str) -> dict[str, int]:
    return {os.path.relpath(path, folder): os.lstat(path).st_size for path in files_below(folder)}


def flush_files(storage: Storage, names: Iterable[str]) -> None:
    """Wait until the disk has files, folders with all their contents, and their names; objects that are stored, it has.

    They survive a power cut from then on.
    """
    files: list[str] = []
    folders: set[str] = set()
    # Collect the files, and the folders that hold their names.
    for path in map(storage.path, names):
        if not os.path.isabs(path):  # a URL
            continue
        folders.add(os.path.dirname(path))
        if os.path.isdir(path):
            folders.update(base for base, _, _ in os.walk(path))
            files += files_below(path)
        else:
            files.append(path)
    if len(files) > _MAX_FLUSHED_FILES:
        os.sync()
        return
    # Folders last, so that a name on the disk never leads to a file without contents.
    try:
        with ThreadPoolExecutor(_FLUSH_THREADS) as threads:
            list(threads.map(_flush, files))
        for folder in folders:
            _flush(folder)
    except OSError as error:
        raise_storage_error("flush this", error.filename or storage.path(""), error)


def _flush(path: str) -> None:
    if os.path.islink(path):
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # else opening a pipe waits for its other end
    mode = os.fstat(fd).st_mode
    try:
        if S_ISREG(mode) or S_ISDIR(mode):
            os.fsync(fd)
    except OSError as error:
        if S_ISREG(mode) or error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems flush no folder
            error.filename = path
            raise
    finally:
        os.close(fd)
