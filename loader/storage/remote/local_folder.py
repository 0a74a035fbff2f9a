"""A remote folder with one of its folders replaced by a folder of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ...errors import StorageError
from ..local import LocalStorage
from ..protocol import ByteRange, FileInfo, ReadableFile
from .fetcher import Fetch
from .remote_storage import RemoteStorage

__all__ = ["PartlyLocalStorage"]


class PartlyLocalStorage:
    """Objects below a URL, which are not written, and a folder of this machine instead of one folder of theirs.

    Args:
        url: The URL.
        replaced: Name of a folder, and the path of the folder to use instead.
    """

    checks_versions = True

    def __init__(self, url: str, replaced: tuple[str, str | os.PathLike[str]]) -> None:
        self._remote = RemoteStorage(url)
        self._replaced = (replaced[0], os.path.abspath(replaced[1]))
        self._local = LocalStorage(os.path.dirname(self._replaced[1]), replaced=self._replaced)
        self.url = self._remote.url

    def __reduce__(self) -> tuple[Any, ...]:
        return PartlyLocalStorage, (self.url, self._replaced)

    def _of(self, name: str) -> LocalStorage | RemoteStorage:
        return self._local if f"{name}/".startswith(f"{self._replaced[0]}/") else self._remote

    def _writable(self, name: str) -> LocalStorage:
        if self._of(name) is self._remote:
            self._refuse(name)
        return self._local

    def _refuse(self, name: str) -> NoReturn:
        folder, path = self._replaced
        raise StorageError(
            f"this folder is read-only while {path} is used instead of its {folder}",
            path=self.path(name),
            hint=f"to change files of the folder, use its own {folder}",
        )

    def path(self, name: str) -> str:
        return self._of(name).path(name)

    def open(self, name: str, info: FileInfo | None = None) -> ReadableFile:
        return self._of(name).open(name, info)

    def fetch_range(self, info: FileInfo, start: int, stop: int) -> Fetch:
        """Begin to read the bytes [start, stop) of a remote file of a known size and version."""
        return self._remote.fetch_range(info, start, stop)

    def read(self, name: str, byte_range: ByteRange | None = None) -> bytes:
        return self._of(name).read(name, byte_range)

    def exists(self, name: str) -> bool:
        return self._of(name).exists(name)

    def stat(self, name: str) -> FileInfo:
        return self._of(name).stat(name)

    def list(self, folder: str = "") -> Iterator[FileInfo]:
        return self._of(folder).list(folder)

    def create(self, name: str, *, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        return self._writable(name).create(name, durable=durable)

    def write_new(self, name: str, data: bytes) -> None:
        self._writable(name).write_new(name, data)

    def is_writable(self, folder: str) -> bool:
        return self._of(folder) is self._local and self._local.is_writable(folder)

    def check_target(self, name: str) -> None:
        self._writable(name).check_target(name)

    def rename(self, old: str, new: str) -> None:
        self._writable(new).rename(old, new)

    def flush(self, names: Iterable[str]) -> None:
        self._local.flush(names)

    def remove(self, name: str) -> None:
        self._writable(name).remove(name)

    def lock(self, name: str, *, wait: bool = False) -> AbstractContextManager[None]:
        return self._writable(name).lock(name, wait=wait)

    def list_once(self, folder: str) -> None:
        self._of(folder).list_once(folder)

    def prefetch(self, names: Iterable[str]) -> None:
        for name in names:
            self._of(name).prefetch([name])

    def prefetch_fixed(self, names: Iterable[str]) -> None:
        for name in names:
            self._of(name).prefetch_fixed([name])

    def read_start(self, name: str, size_bytes: int) -> tuple[bytes, int]:
        return self._of(name).read_start(name, size_bytes)

    def local_path(self, name: str = "", info: FileInfo | None = None) -> Path:
        return self._of(name).local_path(name, info)

    def copy_of_fixed(self, name: str) -> Path:
        return self._of(name).copy_of_fixed(name)
