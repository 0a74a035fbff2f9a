"""The settings of a cache, and its folders of one user: no other user reads or changes what is in them."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...errors import ConfigError

CACHE_FOLDER_VARIABLE = "ENERGON_CACHE_DIR"
"""Environment variable with the folder of the cache, which is off without it."""

CACHE_BYTES_VARIABLE = "ENERGON_CACHE_BYTES"
"""Environment variable with the limit, such as ``500GB``; half of the disk by default."""

CACHE_NETWORK_VARIABLE = "ENERGON_CACHE_ON_NETWORK"
"""Environment variable that permits a folder on another machine, if it is 1."""

_UNITS = {"": 1, **{unit: 1000**power for power, unit in enumerate(("K", "M", "G", "T"), 1)}}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate(("K", "M", "G", "T"), 1)}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Settings of a cache."""

    folder: str  # folder in which the cache creates its own
    limit_bytes: int | None = None  # most bytes of its files; None for half of the disk
    # Bytes of the disk that it leaves free; None for 20 GiB, or a tenth of a smaller disk.
    free_bytes: int | None = None
    on_network: bool = False  # accept a folder on another machine


def cache_settings(folder: str | None = None, limit: str | int | None = None) -> CacheSettings | None:
    """Return the settings of the cache; None if it is off.

    Args:
        folder: Its folder. None reads the environment variable; an empty text turns the cache off.
        limit: Most bytes of its files; None reads the environment variable.
    """
    folder = os.environ.get(CACHE_FOLDER_VARIABLE, "") if folder is None else folder
    if not folder:
        return None
    source = "the storage option cache_bytes"
    if limit is None:
        limit, source = os.environ.get(CACHE_BYTES_VARIABLE) or None, CACHE_BYTES_VARIABLE
    return CacheSettings(
        folder=os.path.abspath(os.path.expanduser(folder)),
        limit_bytes=None if limit is None else parse_bytes(str(limit), source),
        on_network=os.environ.get(CACHE_NETWORK_VARIABLE) == "1",
    )


def parse_bytes(text: str, source: str) -> int:
    """Return a number of bytes, given with or without a unit.

    >>> parse_bytes("1.5 GB", "a test"), parse_bytes("8MiB", "a test"), parse_bytes("100", "a test")
    (1500000000, 8388608, 100)
    """
    match = _NUMBER.fullmatch(text.strip().upper())
    if match is None or match[2] == "I":
        raise ConfigError(f"expected a number of bytes in {source}, found {text!r}", hint="write 500GB or 2TB")
    return int(float(match[1]) * _UNITS[match[2]])


# Programs for backups leave out folders with a file of this content.
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache: see https://bford.info/cachedir/\n"
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """An open folder of this user; all names are resolved in it, wherever it is moved.

    Args:
        name_pattern: Matches the names of its files; others are neither opened nor removed.
    """

    def __init__(self, path: str, fd: int, name_pattern: str) -> None:
        self.path = path
        self.fd = fd
        self._is_own_name = re.compile(name_pattern).fullmatch

    def open(self, name: str) -> int | None:
        """Open a file; return None if it is missing.

        Raises:
            OSError: It is a link, a folder or a pipe, belongs to another user, or has a second name elsewhere.
        """
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_nlink <= 1:
            return fd
        os.close(fd)
        raise OSError(errno.EPERM, "it is not a plain file of this user", name)

    def names(self) -> Iterator[str]:
        with os.scandir(self.fd) as entries:
            for entry in entries:
                if self._is_own_name(entry.name) and entry.is_file(follow_symlinks=False):
                    yield entry.name

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file; None if it was removed, or is a folder or a link."""
        try:
            status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def touch(self, name: str, time_s: float | None = None) -> None:
        """Set the time of a file, now by default; one that was removed is no error."""
        with suppress(OSError):
            os.utime(name, None if time_s is None else (time_s, time_s), dir_fd=self.fd, follow_symlinks=False)

    def remove(self, name: str) -> bool:
        """Remove a file, or a link, never what it points to; return False if that is not possible."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except OSError:
            return False
        return True


def open_own_folder(folder: str, name: str, *, hint: str, on_network: bool) -> int:
    """Open a folder of this user alone; create it, and the folders above it, if they are missing."""
    # Create it for this user only; one that exists is checked below, after it is open.
    path = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        # A link would let another user choose where the cache writes.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ConfigError("expected a folder for the cache, found a link or a file", at=path, hint=hint) from error
        if error.errno in (errno.EACCES, errno.EPERM) and os.stat(path).st_uid != os.getuid():
            raise _foreign(path, hint) from error
        raise
    try:
        _check(path, fd, hint=hint, on_network=on_network)
        _write_tag(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(path: str, fd: int, *, hint: str, on_network: bool) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.getuid():
        raise _foreign(path, hint)
    if status.st_mode & 0o077:
        os.fchmod(fd, 0o700)
    system = None if on_network else network_file_system(fd)
    if system is not None:
        raise ConfigError(
            f"a cache on {system} is of no use: its files are on another machine",
            at=path,
            hint=f"{hint}, or set {CACHE_NETWORK_VARIABLE}=1 if it is fast all the same",
        )


def open_inner_folder(path: str, outer: int, name: str, name_pattern: str) -> PrivateFolder:
    """Open a folder in an own folder; create it if it is missing."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=outer)
    fd = os.open(name, _FLAGS, dir_fd=outer)
    if os.fstat(fd).st_uid != os.getuid():
        os.close(fd)
        raise PermissionError(errno.EPERM, "this folder belongs to another user", os.path.join(path, name))
    return PrivateFolder(os.path.join(path, name), fd, name_pattern)


def _foreign(path: str, hint: str) -> ConfigError:
    return ConfigError("this folder for a cache belongs to another user", at=path, hint=hint)


def _write_tag(fd: int) -> None:
    with suppress(OSError):  # it exists, or the disk is full
        tag = os.open("CACHEDIR.TAG", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=fd)
        os.write(tag, _TAG)
        os.close(tag)


# f_type of statfs(2), from linux/magic.h and the sources of the file systems that are not in it.
_NAMES = {
    0x6969: "NFS",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x517B: "SMB",
    0x0BD00BD0: "Lustre",
    0x65735546: "FUSE",
    0x00C36400: "Ceph",
    0x47504653: "GPFS",
    0x01021997: "9P",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x19830326: "BeeGFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0xAAD7AAEA: "PanFS",
    0x20030528: "OrangeFS",
    0x786F4256: "a folder of the virtual machine's host",
}
_STATFS_BYTES = 512  # more than any architecture fills


def network_file_system(fd: int) -> str | None:
    """Return the name of the network file system of an open folder; None if it is local or not known."""
    if sys.platform != "linux":
        return None
    try:
        fstatfs = ctypes.CDLL(None).fstatfs
    except (AttributeError, OSError, TypeError):  # a Python without dynamic linking
        return None
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if fstatfs(fd, status) != 0:
        return None
    return _NAMES.get(ctypes.c_ulong.from_buffer(status).value & 0xFFFFFFFF)


PARTIAL = ".partial"
"""End of the names of files that are being written, on file systems that need such a name."""

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


class NewFile:
    """A file that is being written; without :meth:`publish` it vanishes.

    Where the file system permits, it has no name until then, so that the system removes it if the process is killed.

    Args:
        size_bytes: Bytes to reserve on the disk.

    Raises:
        OSError: It cannot be created, or the disk is full.
    """

    def __init__(self, folder: PrivateFolder, name: str, size_bytes: int = 0) -> None:
        self._folder = folder
        self._name = name
        self._partial: str | None = None
        self.fd = self._open()
        try:
            if size_bytes and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.fd, 0, size_bytes)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                self.close()
                raise
        except BaseException:
            self.close()
            raise

    def _open(self) -> int:
        # A file without a name needs no removal after a kill.
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self._folder.fd)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        # Elsewhere a name marks it as unfinished, and shows later processes what to remove.
        self._partial = f"{self._name}-{os.urandom(6).hex()}{PARTIAL}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._partial, flags, 0o600, dir_fd=self._folder.fd)

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write at the end of what is written; a full disk raises an ``OSError``."""
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self.fd, rest) :]

    def publish(self) -> None:
        """Link the file to its name; one that exists stays, since names say what files hold."""
        with suppress(FileExistsError):
            if self._partial is None:
                # The only way to name it without a privilege; linkat(2) shows it.
                source = f"/proc/self/fd/{self.fd}"
                os.link(source, self._name, dst_dir_fd=self._folder.fd, follow_symlinks=True)
            else:
                os.rename(self._partial, self._name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
                self._partial = None

    def close(self) -> None:
        os.close(self.fd)
        if self._partial is not None:
            self._folder.remove(self._partial)
