"""Files that appear in a folder whole or not at all, whatever happens to the process that writes them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress

from .private_folder import PrivateFolder

PARTIAL = ".partial"
"""End of the names of files that are being written, on file systems that need such a name."""

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


class NewFile:
    """A file that is being written; without :meth:`publish` it vanishes.

    Where the file system permits, it has no name until then, so that the system removes it if the process is killed.

    Args:
        folder: Its folder.
        name: Its name.
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
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=self._folder.fd)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
        return self._open_named()

    def _open_named(self) -> int:
        self._partial = f"{self._name}-{os.urandom(6).hex()}{PARTIAL}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._partial, flags, 0o600, dir_fd=self._folder.fd)

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write at the end of what is written.

        Raises:
            OSError: The disk is full.
        """
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self.fd, rest) :]

    def publish(self) -> None:
        """Link the file to its name; one that exists stays, since names say what files hold.

        Raises:
            OSError: The folder cannot be written.
        """
        with suppress(FileExistsError):
            if self._partial is None:
                # The only way to name it without a privilege; linkat(2) shows it.
                source = f"/proc/self/fd/{self.fd}"
                os.link(source, self._name, dst_dir_fd=self._folder.fd, follow_symlinks=True)
            else:
                os.rename(self._partial, self._name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
                self._partial = None

    def close(self) -> None:
        """Close the file, which vanishes if it was not published."""
        os.close(self.fd)
        if self._partial is not None:
            self._folder.remove(self._partial)
