"""Files and folders that appear whole at the end of a command, or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO, Self

import msgspec

from ...engine.journal import Job, decode_job
from ...errors import ConfigError, StorageError
from ...format.unfinished import remember_command
from ...storage import COMMAND_FILE, Storage, flush_files, is_url, partials_of, raise_storage_error, temporary_name

_REQUEST = "user.energon.request"
"""Extended attribute of an export with its job: other programs read its files, which have no place for a record."""


class NewOutput:
    """A folder that is filled under another name, and takes its own at the end of the block.

    After an error, nothing has the name. Subclasses that write one file set :attr:`is_file`.

    Args:
        path: A new or empty folder of this machine; or a new file.
        sources: Paths of what it is made of, which must not contain it.

    Attributes:
        job: Recorded in an extended attribute, where the file system has them, for :func:`written_output`.
    """

    is_file = False
    job: Job | None = None

    def __init__(self, path: str, sources: Iterable[str] = ()) -> None:
        self.path = check_new_output(path, sources, is_file=self.is_file)
        # Write under another name until the end.
        self.folder = temporary_name(self.path)
        self._open = ExitStack()
        with self._writing():
            os.makedirs(self.folder)
            remember_command(self.folder)
            if self.is_file:
                file = os.path.join(self.folder, os.path.basename(self.path))
                self.file: BinaryIO = self._open.enter_context(open(file, "xb"))  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            with self._writing():
                # Complete the files; after an error, only close them.
                with self._open:
                    if kind is None:
                        self._finish()
                if kind is None:
                    self._publish()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _finish(self) -> None:
        """Complete the files."""

    def _publish(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self.folder, COMMAND_FILE))
        if self.job is not None and hasattr(os, "setxattr"):  # not on macOS
            with suppress(OSError):  # a file system without extended attributes
                os.setxattr(self.file.name if self.is_file else self.folder, _REQUEST, msgspec.json.encode(self.job))
        # Take the name, unless another process has taken it.
        if self.is_file:
            os.link(self.file.name, self.path)  # fails if the name is taken
        else:
            os.replace(self.folder, self.path)  # over an empty folder
        remove_partials(self.path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise_storage_error("write", error.filename or self.path, error)


def remove_partials(path: str) -> None:
    """Remove what this run and killed ones with the same output have left."""
    for partial in [] if is_url(path) else partials_of(path):
        with suppress(OSError):
            shutil.rmtree(partial) if os.path.isdir(partial) else os.unlink(partial)


def written_output(path: str) -> Job | None:
    """Return the job that has written a file or folder; None if nothing is recorded."""
    if is_url(path) or not hasattr(os, "getxattr"):
        return None
    with suppress(OSError):
        return decode_job(os.getxattr(path, _REQUEST))
    return None


def check_new_output(path: str, sources: Iterable[str] = (), *, is_file: bool) -> str:
    """Return the absolute path of a new file or folder; raise an error if it exists, or is inside of a source."""
    if is_url(path):
        raise ConfigError(
            "this is written to a folder of this machine", at=path, hint="write it here, then copy it there"
        )
    target = os.path.abspath(path)
    # Nothing that exists is overwritten.
    is_folder = os.path.isdir(target) and not is_file
    first = min(os.listdir(target), default=None) if is_folder else None
    if first is not None or (os.path.lexists(target) and not is_folder):
        expected = "a new file" if is_file else "a new or empty folder"
        existing = "a folder" if os.path.isdir(target) else "a file"
        raise StorageError(
            f"expected {expected}, found {existing if first is None else f'{first} in it'}: nothing is overwritten",
            path=target,
            hint="name another one",
        )
    check_outside(path, sources)
    return target


def check_outside(output: str, sources: Iterable[str]) -> None:
    """Raise a ``ConfigError`` if an output is one of some folders, or inside of one.

    The next run, and each later one on that folder, would take the new shards for samples.
    """
    if is_url(output):
        folder = next((path for path in sources if is_url(path) and is_below_url(output, path)), None)
        if folder is not None:
            raise ConfigError(_INSIDE, at=output, hint=f"name a URL outside of {folder}")
        return
    if os.path.isfile(output):  # is refused anyway
        return
    target = os.path.join(os.path.realpath(output), "")
    for path in sources:
        if not is_url(path) and os.path.isdir(path) and target.startswith(os.path.join(os.path.realpath(path), "")):
            raise ConfigError(_INSIDE, at=output, hint=f"name a folder outside of {path}")


_INSIDE = "the new dataset would be inside of the folder that it is made of"


def is_below_url(url: str, folder: str) -> bool:
    """Return True for a URL that is the one of a folder, or below it."""
    return f"{url.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def keep_shards(storage: Storage, names: Collection[str], pattern: re.Pattern[str], *, fault: str, hint: str) -> None:
    """Keep the shards that a run has written, remove shards of an interrupted run, and refuse others.

    Args:
        names: Names of the shards that stay, which are flushed.
        pattern: Names that such a run gives to shards.
        fault: The fault of another shard, for the message.
    """
    known = frozenset(names)
    for file in [*storage.list("")]:
        if file.name in known or not file.name.endswith(".tar"):
            continue
        if not pattern.fullmatch(file.name):
            raise ConfigError(f"{file.name} {fault}, and would be part of the dataset", at=storage.path(""), hint=hint)
        storage.remove(file.name)
    flush_files(storage, names)
