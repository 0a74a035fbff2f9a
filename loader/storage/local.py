"""Files of this machine."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, NoReturn, Self

from ..errors import StorageError
from .durable_copy import copy_into_place, flush_files, hidden_name
from .file_lock import hold_lock
from .os_error import fail
from .protocol import ByteRange, FileInfo

__all__ = ["LocalStorage"]

_REFUSED = suppress(OSError)  # a file system that takes no advice reads all the same; one object serves all calls

_MOST_LINKS = 6  # on the way to a file that is listed


class _LocalFile:
    """A file opened for ``pread``."""

    __slots__ = ("_fd", "_path", "size_bytes")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1  # so that a file that cannot be opened can still be closed
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not wait for a pipe's other end
        except OSError as error:
            fail("open this file", path, error)
        status = os.fstat(self._fd)
        if not S_ISREG(status.st_mode):
            raise StorageError(
                "expected a file, found a directory, pipe or device", path=path, do="look what it is doing there"
            )
        self.size_bytes = status.st_size

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        try:
            data = os.pread(self._fd, size_bytes, offset)
            if len(data) < size_bytes and offset + len(data) < self.size_bytes:
                # Linux gives at most 2 GiB a call, and network file systems may give less.
                pieces = [data]
                while data and sum(map(len, pieces)) < size_bytes:
                    done = sum(map(len, pieces))
                    data = os.pread(self._fd, size_bytes - done, offset + done)
                    pieces.append(data)
                return b"".join(pieces)
        except OSError as error:
            fail(f"read bytes {offset}–{offset + size_bytes} of this file", self._path, error)
        return data

    def expect(self, offset: int, size_bytes: int) -> None:
        if not size_bytes:
            return  # the system takes 0 bytes for all up to the end
        with _REFUSED:
            os.posix_fadvise(self._fd, offset, size_bytes, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class LocalStorage:
    """A folder of this machine.

    Args:
        root: The folder; it need not be there yet.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.url = os.fspath(root)
        self._root = os.path.abspath(self.url)

    def path(self, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/"):
            raise StorageError(f"the name {name!r} leads out of this folder", path=self._root, do="trust no file in it")
        if "\0" in name:
            raise StorageError(f"no file has the name {name!r}", path=self._root, do="mend what names it")
        return os.path.join(self._root, name) if name else self._root

    def _path_to_change(self, name: str) -> str:
        """Give the path of a file to write or remove; in hidden folders, links to other folders are not followed.

        Whoever made a dataset may have planted such a link, to have something of the user's overwritten or removed.
        The folder itself (``.nv-meta``) may be a link: people keep it elsewhere where shards are read-only.
        """
        folders = name.split("/")[:-1]
        if folders and folders[0].startswith("."):
            for depth in range(2, len(folders) + 1):
                folder = self.path("/".join(folders[:depth]))
                if os.path.islink(folder):
                    raise StorageError(
                        "this folder is a link, which may lead anywhere", path=folder, do="remove the link"
                    )
        return self.path(name)

    def check_target(self, name: str) -> None:
        path = self._path_to_change(name)
        if os.path.isdir(path) and not os.path.islink(path):
            raise StorageError("a folder stands where a file is to be written", path=path, do="move it away")

    def local_path(self, name: str = "") -> Path:
        return Path(self.path(name))

    def open(self, name: str) -> _LocalFile:
        return _LocalFile(self.path(name))

    def read(self, name: str, byte_range: ByteRange | None = None) -> bytes:
        with self.open(name) as file:
            wanted = byte_range or ByteRange(0, file.size_bytes)
            return file.read_at(wanted.start, wanted.size_bytes)

    def exists(self, name: str) -> bool:
        return os.path.lexists(self.path(name))

    def stat(self, name: str) -> FileInfo:
        try:
            stat = os.stat(self.path(name))
        except OSError as error:
            fail("look this file up", self.path(name), error)
        return FileInfo(name=name, size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)

    def list(self, folder: str = "") -> Iterator[FileInfo]:
        names: list[str] = []
        top = self.path(folder)

        def unreadable(error: OSError) -> NoReturn:
            fail("list this folder", error.filename or top, error)

        links = {top: 0}  # how many links lie on the way to a folder
        for base, folders, files in os.walk(top, onerror=unreadable, followlinks=True):
            folders[:] = sorted(
                name for name in folders if not name.startswith(".") and not _leads_back(os.path.join(base, name), top)
            )
            for name in folders:
                links[os.path.join(base, name)] = links[base] + os.path.islink(os.path.join(base, name))
            # Folders of links to folders of links multiply: two each, thirty deep, are a billion paths.
            folders[:] = [name for name in folders if links[os.path.join(base, name)] <= _MOST_LINKS]
            names.extend(os.path.relpath(os.path.join(base, name), self._root) for name in files)
        for name in sorted(names):
            try:
                status = os.stat(self.path(name))
            except FileNotFoundError:
                continue  # vanished since the listing, or a dangling link
            except OSError as error:
                fail("look this file up", self.path(name), error)
            if S_ISREG(status.st_mode):  # opening a pipe would wait for its other end
                yield FileInfo(name=name, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)

    @contextmanager
    def create(self, name: str, *, durable: bool = True) -> Iterator[BinaryIO]:
        path = self._path_to_change(name)
        folder = os.path.dirname(path)
        temporary: str | None = None
        try:
            os.makedirs(folder, exist_ok=True)
            unused = hidden_name(path)
            fd = os.open(unused, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            temporary = unused
            with os.fdopen(fd, "wb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(fd)
            os.replace(temporary, path)
        except BaseException as error:
            if temporary is not None:
                with suppress(FileNotFoundError):  # renamed already, or the whole folder is gone
                    os.unlink(temporary)
            if isinstance(error, OSError):
                fail("write this file", path, error)
            raise

    def rename(self, old: str, new: str) -> None:
        source, target = self._path_to_change(old), self._path_to_change(new)
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                fail(f"rename {old} to this", target, error)
        else:
            return
        try:
            copy_into_place(source, target)  # a folder that is a link to another disk
        except OSError as error:
            fail(f"copy {old} to this", target, error)
        self.remove(old)

    def flush(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                flush_files([self.path(name)])
            except OSError as error:
                fail("flush this", self.path(name), error)

    def is_writable(self, folder: str) -> bool:
        return os.access(self.path(folder), os.W_OK)

    def remove(self, name: str) -> None:
        path = self._path_to_change(name)
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            fail("remove this", path, error)

    def lock(self, name: str, *, wait: bool = False) -> AbstractContextManager[None]:
        return hold_lock(self._path_to_change(name), wait=wait)


def _leads_back(folder: str, top: str) -> bool:
    """Tell whether a link to a folder leads to one that the way to it passed, so that following it would never end."""
    if not os.path.islink(folder):
        return False
    target = os.path.realpath(folder)
    while folder != top:
        folder = os.path.dirname(folder)
        if os.path.commonpath((target, os.path.realpath(folder))) == target:
            return True
    return False
