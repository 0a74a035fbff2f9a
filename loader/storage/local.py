"""The store of a folder of this machine."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, NoReturn, TypeVar

from ..errors import StorageError
from ..escaped_log import get_logger
from .file_lock import hold_lock
from .protocol import FileInfo, Storage, StoredFile, check_name, raise_storage_error
from .shared_answers import answers_here, shared
from .temporary_files import temporary_name

PAUSES_S = (0.1, 0.5, 2.0)
"""Pauses before the repetitions of a failed operation, in seconds."""

# Faults that a network file system reports while its server restarts, or a disk reports once.
_PASSING = frozenset({errno.EIO, errno.EREMOTEIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN})

_log = get_logger(__name__)

T = TypeVar("T")


def retry(attempt: Callable[[OSError], T], error: OSError, *, action: str, path: str) -> T:  # noqa: RET503 - the last line raises
    """Repeat a failed operation after each of :data:`PAUSES_S`, until it succeeds.

    Only faults of a disk or a network that may pass are repeated, not a missing file or a missing permission.

    Args:
        attempt: The operation; its argument is the error of the last attempt.
        path: The file, for both.

    Raises:
        StorageError: The last attempt failed, too.
    """
    # Stop at once for faults that waiting does not fix.
    for pause_s in PAUSES_S:
        if error.errno not in _PASSING:
            break
        _log.warning("cannot %s: %s; trying again in %g s: %s", action, error.strerror, pause_s, path)
        time.sleep(pause_s)
        try:
            return attempt(error)
        except OSError as another:
            error = another
    raise_storage_error(action, path, error)


# A prefetch is optional: some file systems refuse advice, and macOS has no posix_fadvise. One object serves all calls.
_OPTIONAL = suppress(OSError, AttributeError)

_MAX_LINKS = 6  # in the path of a listed file
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # else a pipe waits for its other end


def new_file(path: str) -> BinaryIO:
    """Open a file that does not exist, for writing; create its folder if it is missing."""
    try:
        return open(path, "xb")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "xb")


def pread_all(fd: int, offset: int, size_bytes: int) -> bytes:
    """Read bytes of a file, fewer only at its end: Linux reads at most 2 GiB a call, and network file systems less."""
    pieces = [os.pread(fd, size_bytes, offset)]
    done = len(pieces[0])
    while pieces[-1] and done < size_bytes:
        pieces.append(os.pread(fd, size_bytes - done, offset + done))
        done += len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _LocalFile(StoredFile):
    __slots__ = ("_fd", "_path", "info", "size_bytes")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1  # so that close() works if the file cannot be opened
        try:
            self._fd = os.open(path, _READ)
        except OSError as error:
            self._fd = retry(lambda _: os.open(path, _READ), error, action="open this file", path=path)
        # Ask the open file, not the path, which may lead elsewhere by now.
        status = os.fstat(self._fd)
        if not S_ISREG(status.st_mode):
            raise StorageError(
                "expected a file, found a directory, pipe or device", path=path, hint="remove it, or check the path"
            )
        self.size_bytes = status.st_size
        self.info = FileInfo(name=path, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        try:
            # One call reads nearly everything; the loop of `pread_all` costs time in each small read.
            data = os.pread(self._fd, size_bytes, offset)
            if len(data) < size_bytes and offset + len(data) < self.size_bytes:
                data += pread_all(self._fd, offset + len(data), size_bytes - len(data))
        except OSError as error:
            return self._read_again(offset, size_bytes, error)
        return data

    def _read_again(self, offset: int, size_bytes: int, error: OSError) -> bytes:
        def attempt(last: OSError) -> bytes:
            # A server that was restarted refuses old handles: only another open helps.
            if last.errno == errno.ESTALE:
                self._open_again(last)
            return pread_all(self._fd, offset, size_bytes)

        action = f"read bytes {offset}–{offset + size_bytes} of this file"
        return retry(attempt, error, action=action, path=self._path)

    def _open_again(self, error: OSError) -> None:
        # Readers hold offsets of the file as it was: another file under its name would give wrong samples.
        fd = os.open(self._path, _READ)
        try:
            status = os.fstat(fd)
            if (status.st_size, status.st_mtime_ns) != (self.size_bytes, self.info.mtime_ns):
                raise StorageError(
                    "this file was replaced while it was open: it has another size or time of change now",
                    path=self._path,
                    hint="restart the program when the dataset is complete; prepare it again if its contents changed",
                ) from error
            os.dup2(fd, self._fd, inheritable=False)  # in one step: other threads may be reading
        finally:
            os.close(fd)

    def expect(self, offset: int, size_bytes: int) -> None:
        if not size_bytes:
            return  # to the system, 0 bytes mean all up to the end
        with _OPTIONAL:
            os.posix_fadvise(self._fd, offset, size_bytes, os.POSIX_FADV_WILLNEED)

    def fetch(self, offset: int, size_bytes: int) -> None:
        self.expect(offset, size_bytes)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_exiting():  # else the system closes it, and modules may be gone
            self.close()


class LocalStorage(Storage):
    """A folder of this machine.

    Args:
        root: The folder; it need not exist yet.
        replaced: Name of a folder in it and the path of the folder to use instead. The root is never written to then.
    """

    checks_versions = False
    ahead = None

    def __init__(
        self, root: str | os.PathLike[str], *, replaced: tuple[str, str | os.PathLike[str]] | None = None
    ) -> None:
        self.url = os.fspath(root)
        self._root = os.path.abspath(self.url)
        self._prefix = os.path.join(self._root, "")
        self._replaced = None if replaced is None else (replaced[0], os.path.abspath(replaced[1]))
        self._checked_folders = {""}  # hidden ones that are no links
        self.answers = answers_here.get()

    def path(self, name: str) -> str:
        check_name(name, folder=self._root)
        if self._replaced is not None and self._is_replaced(name):
            inner = name[len(self._replaced[0]) + 1 :]
            return os.path.join(self._replaced[1], inner) if inner else self._replaced[1]
        return self._prefix + name if name else self._root

    def _is_replaced(self, name: str) -> bool:
        return self._replaced is not None and f"{name}/".startswith(f"{self._replaced[0]}/")

    def target(self, name: str) -> str:
        # Only the replacement may change, so that a read-only dataset stays as it is.
        if self._replaced is not None and not self._is_replaced(name):
            raise read_only_error(self.path(name), *self._replaced)
        # Refuse links to other folders inside hidden folders: a hostile dataset may contain such a link, to have files
        # of the user overwritten or removed. The hidden folder itself (`.nv-meta`) may be a link: users store it
        # elsewhere if the shards are read-only.
        folder = name.rpartition("/")[0]
        if folder not in self._checked_folders and folder.startswith("."):
            self._check_folder(folder)
        return self.path(name)

    def _check_folder(self, name: str) -> None:
        # The first folder may be a link, so the check begins with the second one.
        folders = name.split("/")
        for depth in range(2, len(folders) + 1):
            folder = self.path("/".join(folders[:depth]))
            if os.path.islink(folder):
                raise StorageError(
                    "expected a folder, found a link to another folder", path=folder, hint="remove the link"
                )
        if os.path.isdir(self.path(name)):  # a missing one may become a link
            self._checked_folders.add(name)

    def local_path(self, name: str = "", info: FileInfo | None = None, *, is_fixed: bool = False) -> Path:  # noqa: ARG002 - of remote files
        return Path(self.path(name))

    def open(self, name: str, info: FileInfo | None = None) -> _LocalFile:  # noqa: ARG002 - the system knows it
        return _LocalFile(self.path(name))

    @shared
    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        with self.open(name) as file:
            end = file.size_bytes if stop is None else min(stop, file.size_bytes)
            return file.read_at(start, max(0, end - start))

    @shared
    def exists(self, name: str) -> bool:
        return os.path.lexists(self.path(name))

    @shared
    def stat(self, name: str) -> FileInfo:
        path = self.path(name)
        try:
            stat = os.stat(path)
        except OSError as error:
            stat = retry(lambda _: os.stat(path), error, action="read the status of this file", path=path)
        return FileInfo(name=name, size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)

    @shared
    def list(self, folder: str = "", *, on_skipped: Callable[[str], object] | None = None) -> Iterator[FileInfo]:
        names: list[str] = []
        top = self.path(folder)

        def unreadable(error: OSError) -> NoReturn:
            if isinstance(error, NotADirectoryError) and error.filename == top and not os.path.isfile(top):
                raise StorageError("expected a file or folder, found a pipe, device or socket", path=top) from error
            raise_storage_error("list this folder", error.filename or top, error)

        # List the names first: sorting by whole names orders the files of nested folders, too.
        for base, files in walk_folders(top, onerror=unreadable):
            prefix = os.path.normpath(os.path.join(folder, os.path.relpath(base, top)))
            names.extend(files if prefix == "." else [f"{prefix}/{name}" for name in files])
        # Then read the status of each file, in the order of the names.
        for name in sorted(names):
            try:
                status = os.stat(self.path(name))
            except FileNotFoundError:
                continue  # removed since the listing, or a dangling link
            except OSError as error:
                raise_storage_error("read the status of this file", self.path(name), error)
            if S_ISREG(status.st_mode):
                yield FileInfo(name=name, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)
            elif on_skipped is not None:  # a pipe, which would block its reader, or a device
                on_skipped(name)

    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        path = self.target(name)
        temporary: str | None = None
        try:
            # Write under another name in the same folder, from where a rename is one step.
            unused = temporary_name(path)
            with new_file(unused) as file:
                temporary = unused
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            # The file appears under its name only now, whole.
            os.replace(temporary, path)
        except BaseException as error:
            # Leave nothing behind, also after Ctrl-C.
            if temporary is not None:
                with suppress(FileNotFoundError):  # renamed already, or the whole folder is gone
                    os.unlink(temporary)
            if isinstance(error, OSError):
                raise_storage_error("write this file", path, error)
            raise

    def create_once(self, name: str, data: bytes) -> bool:
        with self.lock(f"{name}.lock", wait=True):
            if self.exists(name):
                return False
            self.write(name, data)
        return True

    def remove(self, name: str) -> None:
        path = self.target(name)
        # A removed folder may come back as a link, so every folder is checked again.
        self._checked_folders = {""}
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise_storage_error("remove this", path, error)

    def lock(self, name: str, *, wait: bool = False, shared: bool = False) -> AbstractContextManager[None]:
        return hold_lock(self.target(name), wait=wait, shared=shared)


def read_only_error(path: str, folder: str, instead: str) -> StorageError:
    """Return the error for writing outside of the one folder for which another one is used."""
    return StorageError(
        f"this folder is read-only while {instead} is used instead of its {folder}",
        path=path,
        hint=f"to change files of the folder, use its own {folder}",
    )


def walk_folders(
    top: str, *, has_hidden: bool = False, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and all below it, each with the names of its files; links to folders are followed, not in circles.

    Args:
        onerror: Called with the error of a folder that cannot be listed, which is left out.
    """
    links = {top: 0}  # number of links in the path of a folder
    for base, folders, files in os.walk(top, onerror=onerror, followlinks=True):
        # `os.walk` descends into what remains of this list.
        names = sorted(name for name in folders if has_hidden or not name.startswith("."))
        folders.clear()
        for name in names:
            path = os.path.join(base, name)
            is_link = os.path.islink(path)
            links[path] = links[base] + is_link
            # Links to folders of links multiply: two in each folder, thirty levels deep, make a billion paths.
            if links[path] <= _MAX_LINKS and not (is_link and _leads_to_ancestor(path, top)):
                folders.append(name)
        yield base, files


def _leads_to_ancestor(folder: str, top: str) -> bool:
    """Return True if a link leads to a folder above it: following it would never end."""
    # Compare real paths, since the folders above may be reached through links as well.
    target = os.path.realpath(folder)
    while folder != top:
        folder = os.path.dirname(folder)
        if os.path.commonpath((target, os.path.realpath(folder))) == target:
            return True
    return False
