"""``EPath``: a path as code written for megatron-energon handles it."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator
from functools import total_ordering
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .resolve import open_storage

__all__ = ["EPath"]

_OWN = ("file://", "local://", "msc://__filesystem__")  # beginnings of paths of this machine


@total_ordering
class EPath:
    """A path of this machine, or the URL of another; whatever takes a path takes one of these.

    Paths can be joined, compared, sorted, hashed and pickled, whatever they name. What looks at a file works for paths
    of this machine, and raises what :class:`pathlib.Path` raises there, such as ``FileNotFoundError``.

    Args:
        initial_path: A path, a ``file://`` URL, the URL of another machine (``msc://profile/bucket/folder``), or any
            object that stands for a path. A relative one is made absolute at once.

    Raises:
        StorageError: By all methods that look at a file: the URL is of another machine.

    >>> path = EPath("/data") / "coco" / "s_000.tar"
    >>> path, path.name, str(path.parent), path.with_suffix(".tar.idx").name
    (EPath('/data/coco/s_000.tar'), 's_000.tar', '/data/coco', 's_000.tar.idx')
    >>> far = EPath("msc://profile/bucket/ds") / "s_000.tar"
    >>> far.url, far.is_local()
    ('msc://profile/bucket/ds/s_000.tar', False)
    """

    __slots__ = ("_path", "_prefix")

    def __init__(self, initial_path: str | os.PathLike[str]) -> None:
        text = os.fspath(initial_path)
        own = next((beginning for beginning in _OWN if text.startswith(beginning)), "")
        protocol, separator, rest = text.removeprefix(own).partition("://")
        if separator and protocol.isidentifier():
            self._prefix = f"{protocol}://"
            self._path = PurePosixPath(rest)
        else:
            self._prefix = ""
            self._path = PurePosixPath(os.path.abspath(text.removeprefix(own)))

    def _beside(self, path: PurePosixPath | str) -> EPath:
        """Give another path of the same machine."""
        return EPath(f"{self._prefix}{path}")

    # ------------------------------------------------------------------------------------------------- as a value

    def __str__(self) -> str:
        return f"{self._prefix}{self._path}"

    def __fspath__(self) -> str:
        # Of a URL, too: whoever opens it says whether that can be read.
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

    # ------------------------------------------------------------------------------------------------ its parts

    def __truediv__(self, other: str | os.PathLike[str]) -> EPath:
        """Join a relative path; an absolute one, or a URL, takes the place of this one."""
        text = os.fspath(other)
        if text.startswith("/") or "://" in text:
            return EPath(text)
        return self._beside(posixpath.normpath(self._path / text))

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
        """The folder that it lies in; that of a root is the root."""
        if self._prefix and len(self._path.parts) == 1:
            return self
        return self._beside(self._path.parent)

    @property
    def url(self) -> str:
        """The URL, or the path of this machine."""
        return str(self)

    @property
    def display_name(self) -> str:
        """What to call it in a message."""
        return str(self)

    def is_local(self) -> bool:
        """Tell whether it is a path of this machine."""
        return not self._prefix

    def with_suffix(self, suffix: str) -> EPath:
        """Give the path with another last suffix, or with one where it has none."""
        return self._beside(self._path.with_suffix(suffix))

    def with_name(self, name: str) -> EPath:
        """Give the path with another last component."""
        return self._beside(self._path.with_name(name))

    def relative_to(self, other: str | os.PathLike[str]) -> str:
        """Give the way here from a folder above.

        Raises:
            ValueError: It is not below that folder.

        >>> EPath("/data/coco/s.tar").relative_to("/data")
        'coco/s.tar'
        """
        base = EPath(other)
        if base._prefix != self._prefix:
            raise ValueError(f"{str(self)!r} is not below {str(base)!r}")
        return str(self._path.relative_to(base._path))

    # ------------------------------------------------------------------------------------------------- its file

    def local_path(self) -> Path:
        """Give the path of this machine.

        Raises:
            StorageError: It is the URL of another one.
        """
        # It is refused by what opens URLs, so that there is one message for it.
        return open_storage(self).local_path() if self._prefix else Path(self._path)

    def exists(self) -> bool:
        """Tell whether there is a file or folder."""
        return self.local_path().exists()

    def is_file(self) -> bool:
        """Tell whether there is a file."""
        return self.local_path().is_file()

    def is_dir(self) -> bool:
        """Tell whether there is a folder."""
        return self.local_path().is_dir()

    def size(self) -> int:
        """Give the size of the file in bytes."""
        return self.local_path().stat().st_size

    def open(
        self,
        mode: str = "r",
        block_size: int | None = None,  # noqa: ARG002 - of downloads
        prefetch_file: bool = False,  # noqa: ARG002 - likewise
        *,
        encoding: str = "utf-8",
    ) -> IO[Any]:
        """Open the file.

        Args:
            mode: As Python's own ``open`` has it.
            block_size: Accepted for code written for megatron-energon.
            prefetch_file: Likewise.
            encoding: Of text.
        """
        return self.local_path().open(mode, encoding=None if "b" in mode else encoding)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the whole file as text."""
        return self.local_path().read_text(encoding)

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        return self.local_path().read_bytes()

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write text to the file, in place of what is there."""
        self.local_path().write_text(text, encoding)

    def write_bytes(self, data: bytes) -> None:
        """Write the file, in place of what is there."""
        self.local_path().write_bytes(data)

    def glob(self, pattern: str) -> Iterator[EPath]:
        """Yield what lies below it and matches a pattern, sorted: ``*.tar``, ``**/*.tar``."""
        return iter([EPath(found) for found in sorted(self.local_path().glob(pattern))])

    def walk(self) -> Iterator[EPath]:
        """Yield all files below the folder, sorted."""
        return (found for found in self.glob("**/*") if found.is_file())

    def mkdir(self, exist_ok: bool = True, parents: bool = False) -> None:
        """Make a folder."""
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
