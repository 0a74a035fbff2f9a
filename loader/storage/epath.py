"""``EPath``, the path type of code written for megatron-energon."""

from __future__ import annotations

import glob
import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import total_ordering
from pathlib import Path, PurePosixPath
from stat import S_ISDIR
from typing import IO, Any, Literal

from . import remote_path
from .local import walk_folders
from .remote import PROTOCOLS
from .remote.object_url import parse_object_url
from .urls import normal_url, open_storage, split_url

_LOCAL_PROFILE = "__filesystem__"
_DSS = "dss://"
_COPIED_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStatus:
    """Facts about a file or folder, with the attribute names of the object stores' clients.

    Attributes:
        key: The path.
        content_length: Size in bytes; 0 for a folder.
        last_modified: Time of the last change, in UTC.
        type: ``"file"`` or ``"directory"``.
    """

    key: str
    content_length: int
    last_modified: datetime
    type: Literal["file", "directory"]


@total_ordering
class EPath:
    """A path of this machine, or a remote URL; accepted wherever a path is.

    All paths can be joined, compared, sorted, hashed and pickled. Methods that access a file raise what
    :class:`pathlib.Path` raises, such as ``FileNotFoundError``.

    Args:
        initial_path: A path, a ``file://`` URL, a remote URL (``msc://profile/bucket/folder``), or any path-like
            object. A relative path is made absolute at once, and ``.`` and ``..`` in a URL are resolved. A ``dss://``
            URL keeps its form.

    Raises:
        ConfigError: A URL leads out of its bucket, holds credentials, or is of a ``dss://`` dataset without a version.
        StorageError: By all methods that access a file: the object store cannot be reached, or the protocol is unknown.

    >>> path = EPath("/data") / "coco" / "s_000.tar"
    >>> path, path.name, str(path.parent), path.with_suffix(".tar.idx").name
    (EPath('/data/coco/s_000.tar'), 's_000.tar', '/data/coco', 's_000.tar.idx')
    >>> remote = EPath("msc://profile/bucket/ds") / "s_000.tar"
    >>> remote.url, remote.is_local()
    ('msc://profile/bucket/ds/s_000.tar', False)
    """

    __slots__ = ("_path", "_prefix")

    def __init__(self, initial_path: str | os.PathLike[str]) -> None:
        text = normal_url(_text(initial_path))
        protocol, rest = split_url(text)
        if text.startswith(_DSS):
            protocol, rest = "dss", text.removeprefix(_DSS)
        if protocol in PROTOCOLS and parse_object_url(text).protocol == "msc":  # credentials are refused in any case
            protocol = "msc"
        if protocol.isidentifier():
            self._prefix = f"{protocol}://"
            self._path = PurePosixPath(rest)
        else:
            self._prefix = ""
            self._path = PurePosixPath(os.path.abspath(text if protocol else rest))

    def _with_path(self, path: PurePosixPath | str) -> EPath:
        """Return another path of the same machine or bucket."""
        return EPath(f"{self._prefix}{path}")

    # ---------------------------------------------------------------------------------------------- value semantics

    def __str__(self) -> str:
        return f"{self._prefix}{self._path}"

    def __fspath__(self) -> str:
        # For a URL, too: opening it raises the error if it cannot be read.
        return str(self.local_path()) if self._prefix == _DSS else str(self)

    def __repr__(self) -> str:
        return f"EPath({str(self)!r})"

    def __reduce__(self) -> tuple[type[EPath], tuple[str]]:
        return type(self), (str(self),)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of megatron-energon have its attributes; those of this class have no state.
        profile, path = str(state["profile"]), str(state["internal_path"])
        url = f"{_DSS if profile == 'dss' else f'msc://{profile}/'}{path.lstrip('/')}"
        EPath.__init__(self, path if profile == _LOCAL_PROFILE else url)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, EPath) else NotImplemented

    def __hash__(self) -> int:
        return hash((EPath, self._prefix, self._path))

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other) if isinstance(other, EPath) else NotImplemented

    # ------------------------------------------------------------------------------------------------- components

    def __truediv__(self, other: str | os.PathLike[str]) -> EPath:
        """Join a relative path; an absolute path or a URL replaces this one."""
        text = _text(other)
        return EPath(text) if text.startswith("/") or "://" in text else self._with_path(self._path / text)

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
        """The last component, as progress displays show it."""
        return self.name

    @property
    def profile(self) -> str:
        """The profile of an ``msc://`` URL; ``__filesystem__`` for a path of this machine, empty for other URLs."""
        if not self._prefix:
            return _LOCAL_PROFILE
        return self._path.parts[0] if self._prefix == "msc://" and self._path.parts else ""

    @property
    def internal_path(self) -> PurePosixPath:
        """The path without the protocol of a URL."""
        return self._path

    def is_local(self) -> bool:
        """Return True for a path of this machine, which the folder of a ``dss://`` URL is, too."""
        return self._prefix in ("", _DSS)

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
        """Return the path on this machine; a remote file is copied first."""
        if self.is_local():
            return Path(split_url(str(self))[1])
        return open_storage(self.parent).local_path(self.name)

    def exists(self) -> bool:
        """Return True if a file or folder exists."""
        return self.local_path().exists() if self.is_local() else remote_path.exists(str(self))

    def is_file(self) -> bool:
        """Return True if it is an existing file."""
        return self.local_path().is_file() if self.is_local() else remote_path.is_file(str(self))

    def is_dir(self) -> bool:
        """Return True if it is an existing folder."""
        return self.local_path().is_dir() if self.is_local() else remote_path.is_dir(str(self))

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self.local_path().stat().st_size if self.is_local() else remote_path.stat(str(self)).size_bytes

    def stat(self) -> PathStatus:
        """Return size, type and time of the last change."""
        if not self.is_local():
            info = remote_path.stat_any(str(self))
            is_folder, size_bytes, mtime_s = not info.name, info.size_bytes, info.mtime_ns / 1e9
        else:
            status = self.local_path().stat()
            is_folder, size_bytes, mtime_s = S_ISDIR(status.st_mode), status.st_size, status.st_mtime
        return PathStatus(
            key=str(self),
            content_length=0 if is_folder else size_bytes,
            last_modified=datetime.fromtimestamp(mtime_s, tz=UTC),
            type="directory" if is_folder else "file",
        )

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
            mode: Mode of Python's ``open``; modes that create a file also create its folder. Remote files are read or
                replaced as a whole.
            block_size: Ignored; accepted for code written for megatron-energon.
            prefetch_file: Ignored, as ``block_size``.
            encoding: Encoding of text files.
        """
        if not self.is_local():
            return remote_path.open_file(str(self), mode, encoding)
        path = self.local_path() if mode.startswith("r") else _target(self)
        return path.open(mode, encoding=None if "b" in mode else encoding)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the whole file as text."""
        if not self.is_local():
            return io.TextIOWrapper(io.BytesIO(remote_path.read(str(self))), encoding=encoding).read()
        with self.open("r", encoding=encoding) as file:
            return str(file.read())

    def read_bytes(self) -> bytes:
        """Read the whole file."""
        if not self.is_local():
            return remote_path.read(str(self))
        with self.open("rb") as file:
            return bytes(file.read())

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Replace the contents of the file with text; create its folder if it is missing."""
        with self.open("w", encoding=encoding) as file:
            file.write(text)

    def write_bytes(self, data: bytes) -> None:
        """Replace the contents of the file with bytes; create its folder if it is missing."""
        with self.open("wb") as file:
            file.write(data)

    def glob(self, pattern: str) -> Iterator[EPath]:
        """Yield the paths below it that match a pattern (``*.tar``, ``**/*.tar``, ``../other/*.tar``), sorted.

        As in a shell, ``*`` and ``**`` do not match names that begin with a dot.
        """
        if not self.is_local():
            return map(EPath, remote_path.glob(str(self), pattern))
        base = str(self.local_path())
        paths = glob.glob(os.path.join(glob.escape(base), pattern), recursive=True)
        return iter(sorted(EPath(f"{self}{path.removeprefix(base)}") for path in paths))

    def walk(self) -> Iterator[EPath]:
        """Yield all files below the folder, sorted; also those whose names begin with a dot.

        Links to folders are followed, but not in circles.
        """
        if not self.is_local():
            return map(EPath, remote_path.walk(str(self)))
        base = str(self.local_path())
        paths = (os.path.join(folder, name) for folder, names in walk_folders(base, has_hidden=True) for name in names)
        return iter(sorted(EPath(f"{self}{path.removeprefix(base)}") for path in paths if os.path.isfile(path)))

    def mkdir(self, exist_ok: bool = True, parents: bool = False) -> None:  # noqa: ARG002 - see below
        """Create the folder. Missing folders above it are created in any case; object stores need none."""
        if self.is_local():
            self.local_path().mkdir(exist_ok=exist_ok, parents=True)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        if not self.is_local():
            remote_path.remove(str(self), missing_ok=missing_ok)
        else:
            self.local_path().unlink(missing_ok=missing_ok)

    def copy(self, target: str | os.PathLike[str]) -> None:
        """Copy the file; create the folder of the copy if it is missing."""
        aim = EPath(target)
        if not (self.is_local() and aim.is_local()):
            with self.open("rb") as source, aim.open("wb") as file:
                shutil.copyfileobj(source, file, _COPIED_AT_ONCE)
        else:
            shutil.copyfile(self.local_path(), _target(aim))

    def move(self, target: str | os.PathLike[str]) -> None:
        """Move the file or folder, also to another disk; create the folder that it is moved to if it is missing.

        Remote files are copied, and removed afterwards; remote folders are not moved.
        """
        aim = EPath(target)
        if not (self.is_local() and aim.is_local()):
            self.copy(aim)
            self.unlink()
        else:
            shutil.move(self.local_path(), _target(aim))


def _text(path: str | os.PathLike[str]) -> str:
    return str(path) if isinstance(path, EPath) else os.fspath(path)


def _target(path: EPath) -> Path:
    """Return the path of this machine for writing, in a folder that exists: buckets create folders alike."""
    local = path.local_path()
    local.parent.mkdir(parents=True, exist_ok=True)
    return local
