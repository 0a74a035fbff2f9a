"""Files and folders that appear whole at the end of an export, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NoReturn, Self

from ...errors import ConfigError, StorageError
from ...format.unfinished import remember_command
from ...storage import COMMAND_FILE, is_url, partials_of, temporary_name


class NewFolder:
    """A folder that is filled under another name, and takes its own at the end.

    Args:
        path: A new or empty folder of this machine.

    Raises:
        ConfigError: The path is a URL.
        StorageError: It exists, or cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self.folder = _new_staging(path, takes_empty_folder=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.folder, COMMAND_FILE))
                os.replace(self.folder, self._path)  # over an empty folder
                _remove_partials(self._path)
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
    staging = _new_staging(path, takes_empty_folder=False)
    absolute = os.path.abspath(path)
    try:
        with open(os.path.join(staging, os.path.basename(absolute)), "xb") as file:
            yield file
        os.link(file.name, absolute)  # fails if the name is taken by now
        _remove_partials(absolute)
    except OSError as error:
        raise_unwritable(error, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _new_staging(path: str, *, takes_empty_folder: bool) -> str:
    """Create a hidden folder next to a path that is free; it has the command line that makes the output."""
    if is_url(path):
        raise ConfigError(
            "an export is written to this machine", at=path, hint="name a local path, and copy the result there"
        )
    absolute = os.path.abspath(path)
    is_empty = takes_empty_folder and os.path.isdir(absolute) and not os.listdir(absolute)
    if os.path.lexists(absolute) and not is_empty:
        raise StorageError(
            "this exists, and nothing is overwritten", path=path, hint="name a new file, or a new or empty folder"
        )
    staging = temporary_name(absolute)
    try:
        os.makedirs(staging)
        remember_command(staging)
    except OSError as error:
        raise_unwritable(error, path)
    return staging


def _remove_partials(path: str) -> None:
    """Remove what this run and killed ones with the same output have left."""
    for partial in partials_of(path):
        shutil.rmtree(partial, ignore_errors=True)


def raise_unwritable(error: OSError, path: str) -> NoReturn:
    """Raise an ``OSError`` as a ``StorageError`` about the output."""
    raise StorageError(
        f"cannot write: {error.strerror or error}", path=error.filename or path, hint="check space and permissions"
    ) from error
