"""A folder of files one of whose folders is elsewhere, such as on this machine instead of in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from ..errors import StorageError
from .protocol import ByteRange, FileInfo, ReadableFile, Storage


class SplitStorage:
    """A storage with another storage instead of one of its folders. All other files are read-only.

    Args:
        main: The storage.
        folder: Name of the folder in it.
        other: The folder to use instead.
    """

    def __init__(self, main: Storage, folder: str, other: Storage) -> None:
        self.url = main.url
        self.checks_versions = main.checks_versions
        self.main = main
        self._folder = folder
        self._other = other

    def _is_replaced(self, name: str) -> bool:
        return f"{name}/".startswith(f"{self._folder}/")

    def _place(self, name: str) -> tuple[Storage, str]:
        return (self._other, name[len(self._folder) + 1 :]) if self._is_replaced(name) else (self.main, name)

    def _writable(self, name: str) -> str:
        if not self._is_replaced(name):
            raise StorageError(
                f"this folder is read-only while {self._other.path('')} is used instead of its {self._folder}",
                path=self.path(name),
                hint=f"to change files of the folder, use its own {self._folder}",
            )
        return name[len(self._folder) + 1 :]

    def path(self, name: str) -> str:
        storage, inner = self._place(name)
        return storage.path(inner)

    def open(self, name: str, info: FileInfo | None = None) -> ReadableFile:
        storage, inner = self._place(name)
        return storage.open(inner, None if info is None else replace(info, name=inner))

    def read(self, name: str, byte_range: ByteRange | None = None) -> bytes:
        storage, inner = self._place(name)
        return storage.read(inner, byte_range)

    def read_start(self, name: str, size_bytes: int) -> tuple[bytes, int]:
        storage, inner = self._place(name)
        return storage.read_start(inner, size_bytes)

    def exists(self, name: str) -> bool:
        storage, inner = self._place(name)
        return storage.exists(inner)

    def stat(self, name: str) -> FileInfo:
        storage, inner = self._place(name)
        return replace(storage.stat(inner), name=name)

    def current(self, info: FileInfo) -> FileInfo:
        storage, inner = self._place(info.name)
        return replace(storage.current(replace(info, name=inner)), name=info.name)

    @property
    def unreadable_names(self) -> Sequence[str]:
        return self.main.unreadable_names

    def list(self, folder: str = "") -> Iterator[FileInfo]:
        storage, inner = self._place(folder)
        start = f"{self._folder}/" if storage is self._other else ""
        return (replace(info, name=f"{start}{info.name}") for info in storage.list(inner))

    def local_path(self, name: str = "", info: FileInfo | None = None) -> Path:
        storage, inner = self._place(name)
        return storage.local_path(inner, None if info is None else replace(info, name=inner))

    def copy_of_fixed(self, name: str) -> str:
        storage, inner = self._place(name)
        return storage.copy_of_fixed(inner)

    def list_once(self, folder: str) -> None:
        storage, inner = self._place(folder)
        storage.list_once(inner)

    def prefetch(self, names: Iterable[str]) -> None:
        self._announce(names, self.main.prefetch, self._other.prefetch)

    def settle_prefetched(self) -> bool:
        return all([self.main.settle_prefetched(), self._other.settle_prefetched()])

    def prefetch_fixed(self, names: Iterable[str]) -> None:
        self._announce(names, self.main.prefetch_fixed, self._other.prefetch_fixed)

    def _announce(
        self, names: Iterable[str], main: Callable[[Iterable[str]], None], other: Callable[[Iterable[str]], None]
    ) -> None:
        places = [self._place(name) for name in names]
        main(inner for storage, inner in places if storage is self.main)
        other(inner for storage, inner in places if storage is self._other)

    def create(self, name: str, *, durable: bool = True) -> AbstractContextManager[BinaryIO]:
        return self._other.create(self._writable(name), durable=durable)

    def create_once(self, name: str, data: bytes) -> bool:
        return self._other.create_once(self._writable(name), data)

    def write_new(self, name: str, data: bytes) -> None:
        self._other.write_new(self._writable(name), data)

    def is_writable(self, folder: str) -> bool:
        return self._is_replaced(folder) and self._other.is_writable(folder[len(self._folder) + 1 :])

    def check_target(self, name: str) -> None:
        self._other.check_target(self._writable(name))

    def rename(self, old: str, new: str) -> None:
        self._other.rename(self._writable(old), self._writable(new))

    def flush(self, names: Iterable[str]) -> None:
        self._other.flush([self._writable(name) for name in names])

    def remove(self, name: str) -> None:
        self._other.remove(self._writable(name))

    def lock(self, name: str, *, wait: bool = False, shared: bool = False) -> AbstractContextManager[None]:
        return self._other.lock(self._writable(name), wait=wait, shared=shared)
