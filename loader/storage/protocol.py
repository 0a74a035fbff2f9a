"""What a store of files can do. Nothing above this package opens a file by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

__all__ = ["ByteRange", "FileInfo", "ReadableFile", "Storage"]


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The half-open range of bytes ``[start, stop)`` of a file."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"expected 0 <= start <= stop, found [{self.start}, {self.stop})")

    @property
    def size_bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file of a store: its name relative to the store's root, its size and when it last changed."""

    name: str
    size_bytes: int
    mtime_ns: int


class ReadableFile(Protocol):
    """An open file that is read at given offsets; it has no position of its own, so threads may share it."""

    size_bytes: int

    def read_at(self, offset: int, size_bytes: int) -> bytes:
        """Read ``size_bytes`` bytes at ``offset``; fewer only where the file ends."""

    def expect(self, offset: int, size_bytes: int) -> None:
        """Say what will be read soon, so that the store may fetch it ahead; no promise on either side."""

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Storage(Protocol):
    """A folder of files, near or far. Names are relative to it, with ``/`` between folders.

    Every method raises :class:`loader.errors.StorageError` with the path and the cause where the files cannot be
    reached; a missing file is also a ``FileNotFoundError`` by :attr:`__cause__`.
    """

    url: str
    """The root as the user would write it; used in messages."""

    def open(self, name: str) -> ReadableFile:
        """Open a file for positioned reads."""

    def read(self, name: str, byte_range: ByteRange | None = None) -> bytes:
        """Read a whole file or a range of it."""

    def exists(self, name: str) -> bool:
        """Tell whether a file or folder of that name is there."""

    def stat(self, name: str) -> FileInfo:
        """Look one file up."""

    def list(self, folder: str = "") -> Iterator[FileInfo]:
        """Yield every file below ``folder``, sorted by name; hidden folders (``.nv-meta``) are left out."""

    def create(self, name: str, *, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        """Write a file that appears whole on leaving the context without an error, or not at all.

        Args:
            name: The file; one of that name is replaced.
            durable: Wait until the disk has it, so that it also survives a power cut.
        """

    def is_writable(self, folder: str) -> bool:
        """Tell whether files can be created in a folder."""

    def check_target(self, name: str) -> None:
        """Raise a ``StorageError`` where a file of that name can surely not be written: a folder stands there."""

    def rename(self, old: str, new: str) -> None:
        """Move a file or folder to another name in one step, replacing a file that is there.

        Where the new name is on another disk, it appears in one step too, before the old one is removed.
        """

    def flush(self, names: Iterable[str]) -> None:
        """Wait until the disk has files, folders with all they hold, and their names: they survive a power cut then."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all it holds; a missing one is fine."""

    def lock(self, name: str, *, wait: bool = False) -> AbstractContextManager[None]:
        """Hold an exclusive lock; where another process or thread has it, wait or raise who has it.

        The lock ends with the process that holds it, however that ends.
        """

    def local_path(self, name: str = "") -> Path:
        """Give the path for tools that need a file of this machine (SQLite, memory maps)."""

    def path(self, name: str) -> str:
        """Give the full path or URL of a name, for messages."""
