"""Files and folders that appear whole at the end of an export, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import BinaryIO, NoReturn, Self

from ...errors import ConfigError, StorageError
from ...storage import is_url


class NewFolder:
    """A folder that is filled under another name, and takes its own at the end.

    Args:
        path: A new or empty folder of this machine.

    Raises:
        ConfigError: The path is a URL.
        StorageError: It exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        _check_local(path)
        self._path = os.path.abspath(path)
        if os.path.lexists(self._path) and not (os.path.isdir(self._path) and not os.listdir(self._path)):
            raise _exists(path)
        parent, name = os.path.split(self._path)
        try:
            os.makedirs(parent, exist_ok=True)
            self.folder = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)
        except OSError as error:
            raise_unwritable(error, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
                os.chmod(self.folder, 0o777 & ~_umask())
                os.replace(self.folder, self._path)  # over an empty folder
        except OSError as failed:
            raise_unwritable(failed, self._path)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self) -> None:
        """Complete the files."""


@contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Write a file of this machine that appears whole when the context ends without an error, or not at all.

    Raises:
        ConfigError: The path is a URL.
        StorageError: It exists, or cannot be written.
    """
    _check_local(path)
    absolute = os.path.abspath(path)
    if os.path.lexists(absolute):
        raise _exists(path)
    parent, name = os.path.split(absolute)
    try:
        os.makedirs(parent, exist_ok=True)
        file = tempfile.NamedTemporaryFile(prefix=f".{name}.", dir=parent, delete=False)  # noqa: SIM115
    except OSError as error:
        raise_unwritable(error, path)
    try:
        with file:
            yield file  # type: ignore[misc]
        os.chmod(file.name, 0o666 & ~_umask())
        os.link(file.name, absolute)  # fails if the name is taken by now
    except OSError as error:
        raise_unwritable(error, path)
    finally:
        os.unlink(file.name)


def raise_unwritable(error: OSError, path: str) -> NoReturn:
    """Raise an ``OSError`` as a ``StorageError`` about the output."""
    raise StorageError(
        f"cannot write: {error.strerror or error}", path=error.filename or path, hint="check space and permissions"
    ) from error


def _check_local(path: str) -> None:
    if is_url(path):
        raise ConfigError(
            "an export is written to this machine", at=path, hint="name a local path, and copy the result there"
        )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _exists(path: str) -> StorageError:
    return StorageError(
        "this exists, and nothing is overwritten", path=path, hint="name a new file, or a new or empty folder"
    )
