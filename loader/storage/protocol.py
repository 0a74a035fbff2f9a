"""The interface of a store of files, and reading of documents through it.

Memory maps and SQLite need a file of this machine: ``local_path``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol, Self

from ..errors import ConfigError, StorageError

_HINTS = {
    errno.ENOSPC: "free some space on that disk and run the same command again",
    errno.EDQUOT: "free some of your quota on that disk and run the same command again",
    errno.EACCES: "ask for the permission, or run as a user who has it",
    errno.EPERM: "ask for the permission, or run as a user who has it",
    errno.EROFS: "the disk is mounted read-only: copy the dataset to a writable one",
    errno.EIO: "the disk or network file system reports a fault: check it (dmesg), then try again",
    errno.ESTALE: "the file was removed or replaced on the file server: check it, then start the program again",
    errno.ENOENT: "check the path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}

FAULTS_OF_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Numbers of errors that say nothing about a file."""

_TIME_UNITS_NS = (10**9, 10**6, 10**3)


def raise_storage_error(action: str, path: str, error: OSError) -> NoReturn:
    """Raise an ``OSError`` as a :class:`StorageError` with the path and a hint."""
    cause = error.strerror or str(error)
    raise StorageError(f"cannot {action}: {cause}", path=path, hint=_HINTS.get(error.errno or 0)) from error


def check_name(name: str, *, folder: str) -> None:
    """Check that a name leads to a file in its folder: names come from datasets, which may be hostile."""
    # The first test of `..` is fast, and false for nearly all names.
    if name.startswith("/") or (".." in name and ".." in name.split("/")):
        raise StorageError(
            f"the name {name!r} leads out of this folder",
            path=folder,
            hint="do not trust this dataset: a file of it has this name",
        )
    if "\0" in name:
        raise StorageError(f"no file has the name {name!r}", path=folder, hint="fix the file that references it")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """The name of a file relative to its store's root, its size, and the time of its last change.

    Files of object stores also have a version, ``etag``. Each store makes its own versions, so that versions of two
    stores are not compared.

    Attributes:
        store: The store of the version, as :attr:`.RemoteStorage.store`; empty if it is not known, None if versions
            of this store are not compared at all.
        is_indexed: An index recorded the file, which may have changed since.
    """

    name: str
    size_bytes: int
    mtime_ns: int
    etag: str = ""
    store: str | None = field(default="", compare=False)
    is_indexed: bool = field(default=False, compare=False)

    @property
    def version(self) -> str:
        """The ``etag``, or the time of the last change where the store makes no versions."""
        return self.etag or str(self.mtime_ns)

    def shares_versions(self, other: FileInfo) -> bool:
        """Return True if both have a version, made by one store as far as that is known."""
        if not (self.etag and other.etag) or self.store is None or other.store is None:
            return False
        if self.store and other.store:
            return self.store == other.store
        # The version without a store was listed where a dataset was prepared, so not on a web server.
        return not (self.store or other.store).startswith("http")

    def has_other_time(self, now: FileInfo) -> bool:
        """Return True if the times of change are known and differ.

        Times are compared as exactly as the present one is known: web servers give whole seconds, S3 milliseconds.
        """
        if not (self.mtime_ns and now.mtime_ns):
            return False
        # The coarsest unit that divides the present time is the unit of the store that reports it.
        unit_ns = next((unit_ns for unit_ns in _TIME_UNITS_NS if now.mtime_ns % unit_ns == 0), 1)
        return self.mtime_ns // unit_ns != now.mtime_ns // unit_ns


class ClosesOnExit(Protocol):
    """A context manager that closes when the block ends."""

    __slots__ = ()

    def close(self) -> None:
        """Close what is open; calls after the first do nothing."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PendingRead(Protocol):
    """A byte range that is being read."""

    def is_done(self) -> bool:
        """Return True if the bytes, or an error, have arrived."""

    def result(self) -> bytes:
        """Wait for the bytes."""


class ReadableFile(ClosesOnExit, Protocol):
    """An open file, read at given offsets. It has no file position, so threads may share it."""

    __slots__ = ()

    size_bytes: int

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Read ``size_bytes`` bytes at ``offset``; fewer only at the end of the file."""

    def expect(self, offset: int, size_bytes: int) -> None:  # noqa: ARG002 - of remote files
        """Announce a byte range that will be read soon, so that the store can prefetch it.

        The range need not be read, and need not be prefetched.
        """
        return

    def expect_few(self) -> None:
        """Announce that few bytes of the file will be read, so that a store fetches no others."""
        return

    def fetch(self, offset: int, size_bytes: int) -> PendingRead | None:  # noqa: ARG002 - of remote files
        """Begin to read a byte range; return None if the file is near, where reading it later takes no longer."""
        return None


class StoredFile(ReadableFile, Protocol):
    """An open file of a store."""

    __slots__ = ()

    info: FileInfo
    """Its size, time and version when it was opened; the expected ones if each read compares them."""


class FilesAhead(Protocol):
    """The files that a remote store fetches before they are read."""

    def list_once(self, folder: str) -> None:
        """Answer later questions about the files of a folder from one listing."""

    def prefetch(self, names: Iterable[str]) -> None:
        """Fetch small files at the same time, which are read next, whole and once each."""

    def settle_prefetched(self) -> bool:
        """Wait for the files of :meth:`prefetch`.

        Returns:
            False if one was written or removed since its folder was listed. The listing is then forgotten, and the
            files are no longer fetched ahead.
        """

    def prefetch_fixed(self, names: Iterable[str]) -> None:
        """Copy fixed files at the same time, as :meth:`Storage.local_path` will return them."""


class Storage(Protocol):
    """A folder of files, local or remote. Names are relative to it, with ``/`` between folders.

    Every method raises :class:`loader.errors.StorageError` with the path and the cause if the files cannot be reached.
    If a file is missing, the cause is a ``FileNotFoundError``, and ``is_missing`` is true.
    """

    url: str
    """The root as the user writes it, for messages."""

    @property
    def checks_versions(self) -> bool:
        """True if each read of a file that was opened with its size and version checks them."""

    @property
    def ahead(self) -> FilesAhead | None:
        """The files that it fetches before they are read; None for a store of this machine, whose files are near."""

    def open(self, name: str, info: FileInfo | None = None) -> StoredFile:
        """Open a file for positioned reads.

        Args:
            name: The file.
            info: Its size and version, if they are known; a remote store then sends no request for them.
        """

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read the bytes [start, stop) of a file, or up to its end; fewer only at the end. An object is one request."""

    def exists(self, name: str) -> bool:
        """Return True if a file or folder of that name exists."""

    def stat(self, name: str) -> FileInfo:
        """Return the size and the time of change of one file."""

    def list(self, folder: str = "", *, on_skipped: Callable[[str], object] | None = None) -> Iterable[FileInfo]:
        """Yield every file below a folder, sorted by name; hidden folders (``.nv-meta``) are skipped.

        Args:
            folder: The folder.
            on_skipped: Called with each name that no reader opens. In an object store, a part of it is empty, ``.`` or
                ``..``; on this machine, it is a pipe, device or socket.
        """

    def create(self, name: str, *, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        """Write a file that appears whole when the context ends without an error, or not at all.

        Args:
            name: The file; an existing one is replaced.
            durable: Wait until the disk has it, so that it also survives a power cut.
        """

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a small file as :meth:`create` does."""
        with self.create(name, durable=durable) as file:
            file.write(data)

    def create_once(self, name: str, data: bytes) -> bool:
        """Write a small file that appears whole, unless it exists; of several writers, one does, and returns True."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all its contents; a missing one is no error."""

    def lock(self, name: str, *, wait: bool = False, shared: bool = False) -> AbstractContextManager[None]:
        """Hold a lock. If another process or thread holds it, wait, or raise an error that names the holder.

        The lock ends with its process, even if that is killed. Several processes may hold a shared lock together, but
        not while another one holds it alone.
        """

    def local_path(self, name: str = "", info: FileInfo | None = None, *, is_fixed: bool = False) -> Path:
        """Return the path for tools that need a file of this machine (SQLite, memory maps): a copy of a remote file.

        Args:
            name: The file.
            info: Its size and version, if they are known.
            is_fixed: The file never changes under its name, so that its version is not requested.
        """

    def path(self, name: str) -> str:
        """Return the full path or URL of a name, for messages."""

    def target(self, name: str) -> str:
        """Return the full path or URL at which a file is written; raise a ``StorageError`` where none may be."""


def list_once(storage: Storage, folder: str) -> None:
    """Answer later questions about the files of a remote folder from one listing; files of this machine are near."""
    if storage.ahead is not None:
        storage.ahead.list_once(folder)


MAX_DOCUMENT_BYTES = 1 << 28
"""Default limit of a YAML or JSON document, which takes many times its size in memory when it is parsed.

The list of the shards of a dataset, 100 bytes each, is the longest document."""

_SHORT_SHARE = 256  # so that dataset.yaml may have 1 MiB, which takes seconds to parse

DOCUMENT_LIMIT_VARIABLE = "ENERGON_MAX_DOCUMENT_BYTES"
"""Environment variable that replaces the limit."""


def read_document(storage: Storage, name: str, *, is_short: bool = False) -> bytes:
    """Read a document.

    Args:
        storage: Its folder.
        name: Its name.
        is_short: People write it by hand: it may have a 256th of the limit.

    Raises:
        ConfigError: It is larger than :func:`max_document_bytes`; no more of it is read then.
        StorageError: It cannot be read.
    """
    share = _SHORT_SHARE if is_short else 1
    limit = max_document_bytes() // share
    data = storage.read(name, 0, limit + 1)
    if len(data) > limit:
        size_bytes = storage.stat(name).size_bytes
        raise ConfigError(
            f"this document has {size_bytes:,} bytes, more than the limit of {limit:,}",
            file=storage.path(name),
            hint=f"if it is right, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={size_bytes * share}",
        )
    return data


def max_document_bytes() -> int:
    """Return the limit of a document in bytes."""
    return limit_of_environment(DOCUMENT_LIMIT_VARIABLE, MAX_DOCUMENT_BYTES, unit="bytes")


def limit_of_environment(variable: str, default: int, *, unit: str) -> int:
    """Return the limit that a variable of the environment sets, or the default."""
    given = os.environ.get(variable, "").strip()
    if not given:
        return default
    if not (given.isascii() and given.isdecimal()):
        raise ConfigError(
            f"expected a number of {unit} in {variable}, found {given!r}", hint="set 500000000, or unset it"
        )
    return int(given)
