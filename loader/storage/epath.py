"""``EPath``, the path type of code written for megatron-energon."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator
from functools import total_ordering
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .local import open_storage

__all__ = ["EPath"]

_LOCAL_PREFIXES = ("file://", "local://", "msc://__filesystem__")


@total_ordering
class EPath:
    """A path of this machine, or a remote URL; accepted wherever a path is.

    All paths can be joined, compared, sorted, hashed and pickled. Methods that access a file work for paths of this
    machine, and raise what :class:`pathlib.Path` raises, such as ``FileNotFoundError``.

    Args:
        initial_path: A path, a ``file://`` URL, a remote URL (``msc://profile/bucket/folder``), or any path-like
            object. A relative path is made absolute at once.

    Raises:
        StorageError: By all methods that access a file: the URL is remote.

    >>> path = EPath("/data") / "coco" / "s_000.tar"
    >>> path, path.name, str(path.parent), path.with_suffix(".tar.idx").name
    (EPath('/data/coco/s_000.tar'), 's_000.tar', '/data/coco', 's_000.tar.idx')
    >>> remote = EPath("msc://profile/bucket/ds") / "s_000.tar"
    >>> remote.url, remote.is_local()
    ('msc://profile/bucket/ds/s_000.tar', False)
    """

    __slots__ = ("_path", "_prefix")

    def __init__(self, initial_path: str | os.PathLike[str]) -> None:
        text = os.fspath(initial_path)
        local = next((prefix for prefix in _LOCAL_PREFIXES if text.startswith(prefix)), "")
        protocol, separator, rest = text.removeprefix(local).partition("://")
        if separator and protocol.isidentifier():
            self._prefix = f"{protocol}://"
            self._path = PurePosixPath(rest)
        else:
            self._prefix = ""
            self._path = PurePosixPath(os.path.abspath(text.removeprefix(local)))

    def _with_path(self, path: PurePosixPath | str) -> EPath:
        """Return another path of the same machine or bucket."""
        return EPath(f"{self._prefix}{path}")

    # ---------------------------------------------------------------------------------------------- value semantics

    def __str__(self) -> str:
        return f"{self._prefix}{self._path}"

    def __fspath__(self) -> str:
        # For a URL, too: opening it raises the error if it cannot be read.
        return str(self)

    def __repr__(self) -> str:
        return f"EPath({str(self)!r})"

    def __reduce__(self) -> tuple[type[EPath], tuple[str]]:
        return type(self), (str(self),)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, EPath) else NotImplemented

    def __hash__(self) -> int:
        return hash((EPath, self._prefix, self._path))

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other) if isinstance(other, EPath) else NotImplemented

    # ------------------------------------------------------------------------------------------------- components

    def __truediv__(self, other: str | os.PathLike[str]) -> EPath:
        """Join a relative path; an absolute path or a URL replaces this one."""
        text = os.fspath(other)
        if text.startswith("/") or "://" in text:
            return EPath(text)
        return self._with_path(posixpath.normpath(self._path / text))

    @property
    def name(self) -> str:
        """The last component."""
        return self._path.name

    @property
    def stem(self) -> str:
        """The last component without its last suffix."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The last suffix of the last component, with its dot."""
        return self._path.suffix

    @property
    def parent(self) -> EPath:
        """The folder that contains it; for a root, the root itself."""
        if self._prefix and len(self._path.parts) == 1:
            return self
        return self._with_path(self._path.parent)

    @property
    def url(self) -> str:
        """The URL, or the path of this machine."""
        return str(self)

    @property
    def display_name(self) -> str:
        """The path as messages show it."""
        return str(self)

    def is_local(self) -> bool:
        """Return True for a path of this machine."""
        return not self._prefix

    def with_suffix(self, suffix: str) -> EPath:
        """Return the path with another last suffix, or with a suffix added if it has none."""
        return self._with_path(self._path.with_suffix(suffix))

    def with_name(self, name: str) -> EPath:
        """Return the path with another last component."""
        return self._with_path(self._path.with_name(name))

    def relative_to(self, other: str | os.PathLike[str]) -> str:
        """Return the path relative to a folder above it.

        Raises:
            ValueError: It is not below that folder.

        >>> EPath("/data/coco/s.tar").relative_to("/data")
        'coco/s.tar'
        """
        base = EPath(other)
        if base._prefix != self._prefix:
            raise ValueError(f"{str(self)!r} is not below {str(base)!r}")
        return str(self._path.relative_to(base._path))

    # ------------------------------------------------------------------------------------------------ file access

    def local_path(self) -> Path:
        """Return the path of this machine.

        Raises:
            StorageError: It is a remote URL.
        """
        # open_storage raises the error, so that there is one message for it.
        return open_storage(self).local_path() if self._prefix else Path(self._path)

    def exists(self) -> bool:
        """Return True if a file or folder exists."""
        return self.local_path().exists()

    def is_file(self) -> bool:
        """Return True if it is an existing file."""
        return self.local_path().is_file()

    def is_dir(self) -> bool:
        """Return True if it is an existing folder."""
        return self.local_path().is_dir()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.local_path().stat().st_size

    def open(
        self,
        mode: str = "r",
        block_size: int | None = None,  # noqa: ARG002 - accepted, concerns downloads
        prefetch_file: bool = False,  # noqa: ARG002 - as above
        *,
        encoding: str = "utf-8",
    ) -> IO[Any]:
        """Open the file.

        Args:
            mode: Mode of Python's ``open``.
            block_size: Ignored; accepted for code written for megatron-energon.
            prefetch_file: Ignored, as ``block_size``.
            encoding: Encoding of text files.
        """
        return self.local_path().open(mode, encoding=None if "b" in mode else encoding)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the whole file as text."""
        return self.local_path().read_text(encoding)

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        return self.local_path().read_bytes()

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Replace the contents of the file with text."""
        self.local_path().write_text(text, encoding)

    def write_bytes(self, data: bytes) -> None:
        """Replace the contents of the file with bytes."""
        self.local_path().write_bytes(data)

    def glob(self, pattern: str) -> Iterator[EPath]:
        """Yield the paths below it that match a pattern (``*.tar``, ``**/*.tar``), sorted."""
        return iter([EPath(found) for found in sorted(self.local_path().glob(pattern))])

    def walk(self) -> Iterator[EPath]:
        """Yield all files below the folder, sorted."""
        return (found for found in self.glob("**/*") if found.is_file())

    def mkdir(self, exist_ok: bool = True, parents: bool = False) -> None:
        """Create the folder."""
        self.local_path().mkdir(exist_ok=exist_ok, parents=parents)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        self.local_path().unlink(missing_ok=missing_ok)

    def copy(self, target: str | os.PathLike[str]) -> None:
        """Copy the file."""
        shutil.copyfile(self.local_path(), EPath(target).local_path())

    def move(self, target: str | os.PathLike[str]) -> None:
        """Move the file or folder, also to another disk."""
        shutil.move(self.local_path(), EPath(target).local_path())
