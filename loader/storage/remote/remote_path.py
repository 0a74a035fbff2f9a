"""The methods of paths, for URLs of object stores."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any

from ...errors import StorageError
from ..file_stream import FileStream
from ..protocol import FileInfo
from .remote_storage import RemoteStorage

__all__ = ["copy", "exists", "glob", "is_dir", "is_file", "open_file", "remove", "stat", "walk"]

_SPOOLED_BYTES = 8 << 20


def _split(url: str) -> tuple[RemoteStorage, str]:
    folder, _, name = url.rpartition("/")
    return RemoteStorage(folder), name


def stat(url: str) -> FileInfo:
    """Return the size, time and version of a file.

    Raises:
        FileNotFoundError: There is no such file.
    """
    storage, name = _split(url)
    try:
        return storage.stat(name)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise FileNotFoundError(f"this object does not exist: {url}") from error
        raise


def is_file(url: str) -> bool:
    """Return True if there is an object of this name."""
    try:
        stat(url)
    except FileNotFoundError:
        return False
    return True


def is_dir(url: str) -> bool:
    """Return True if there are objects below this name."""
    return RemoteStorage(url).has_objects()


def exists(url: str) -> bool:
    """Return True if there is an object of this name, or one below it."""
    return is_file(url) or is_dir(url)


def open_file(url: str, mode: str, encoding: str) -> IO[Any]:
    """Open a file; one that is written appears when it is closed.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The mode reads and writes, or appends.
    """
    kind = mode.replace("b", "").replace("t", "")
    if kind not in ("r", "w", "x"):
        raise ValueError(f"expected a mode 'r', 'w' or 'x' for an object, found {mode!r}")
    storage, name = _split(url)
    binary: IO[bytes]
    if kind == "r":
        info = stat(url)
        binary = io.BufferedReader(FileStream(storage.open(name, info)), 1 << 20)
    else:
        binary = _Upload(storage, name, if_absent=kind == "x")
    return binary if "b" in mode else io.TextIOWrapper(binary, encoding=encoding)


class _Upload(tempfile.SpooledTemporaryFile[bytes]):
    """A file that is stored when it is closed."""

    def __init__(self, storage: RemoteStorage, name: str, *, if_absent: bool) -> None:
        super().__init__(_SPOOLED_BYTES)
        self._place = (storage, name, if_absent)

    def close(self) -> None:
        if not self.closed:
            self.seek(0)
            storage, name, if_absent = self._place
            try:
                storage.put(name, self.read(), if_absent=if_absent)
            finally:
                super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()  # nothing is stored after an error


def walk(url: str) -> Iterator[str]:
    """Yield the URLs of all objects below a URL, sorted."""
    storage = RemoteStorage(url)
    return (storage.path(name) for name, _ in storage.objects())


def glob(url: str, pattern: str) -> list[str]:
    """Return the URLs of the files and folders below a URL that match a pattern, sorted.

    As in a shell, ``*`` and ``**`` do not match names that begin with a dot.
    """
    while pattern.startswith("../"):
        url, pattern = url.rpartition("/")[0], pattern[3:]
    fixed = re.match(r"(?:[^*?\[/]+/)*", pattern)
    start = fixed[0].rstrip("/") if fixed else ""
    matches = _compile(pattern)
    storage = RemoteStorage(url)
    found = set()
    for name, _ in storage.objects(start):
        parts = name.split("/")
        found |= {path for depth in range(len(parts)) if matches.fullmatch(path := "/".join(parts[: depth + 1]))}
    return sorted(storage.path(name) for name in found)


def _compile(pattern: str) -> re.Pattern[str]:
    """Translate a pattern of a shell; ``**`` matches any number of folders."""
    words = []
    for part in pattern.split("/"):
        if part == "**":
            words.append(r"(?:[^./][^/]*/)*")
            continue
        text = "" if part.startswith(".") else r"(?!\.)"
        for piece in re.findall(r"\*|\?|\[!?\]?[^\]]*\]|.", part, re.DOTALL):
            if piece == "*":
                text += "[^/]*"
            elif piece == "?":
                text += "[^/]"
            elif len(piece) > 1:
                text += "[" + piece[1:-1].replace("\\", r"\\").replace("!", "^", 1 if piece[1] == "!" else 0) + "]"
            else:
                text += re.escape(piece)
        words.append(f"{text}/")
    joined = "".join(words).removesuffix("/")
    return re.compile(joined if not pattern.endswith("**") else f"{joined}[^./][^/]*")


def remove(url: str, *, missing_ok: bool) -> None:
    """Remove a file.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if not missing_ok:
        stat(url)
    storage, name = _split(url)
    storage.remove_file(name)


def copy(source: str | os.PathLike[str], target: str) -> None:
    """Copy a file of this machine to a URL."""
    storage, name = _split(target)
    with open(source, "rb") as file:
        storage.put(name, file.read())
