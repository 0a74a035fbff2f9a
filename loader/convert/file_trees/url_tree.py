"""The files below a URL of an object store, as a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import compress
from typing import IO, TypeVar, cast

from ...engine import Unit
from ...errors import EnergonError, plural
from ...storage import FileStream, open_storage
from ..rows.row import FileRef, PartRef
from .tree import COPY_BYTES, ListedTree, copy_path

T = TypeVar("T")

_REQUESTS = 32  # at once, so that a thousand documents take a few round trips
_PIECE_BYTES = 1 << 16  # of a long file, that are read first
_PIECES = 5  # at equal distances: a quarter of its rows, one after another, are in one of them


class UrlTree(ListedTree):
    """The files below a URL; what is there is listed once.

    Nothing leads out of it: object stores have no links, and names of tables are names of the listing.

    Args:
        tell: Gets a line for people before many requests.
    """

    unit: Unit = "files"

    def __init__(self, url: str, tell: Callable[[str], None] | None = None) -> None:
        self._tell = tell
        super().__init__(url.rstrip("/"))
        self._storage = open_storage(self.path)
        self._files = [*self._storage.list()]
        self.members = {info.name: (index, info.size_bytes) for index, info in enumerate(self._files)}

    def ref(self, name: str, part: str) -> PartRef:  # noqa: ARG002 - a file has no part name of its own
        info = self._files[self.members[name][0]]
        return FileRef(os.fsencode(self._storage.path(name)), info.size_bytes, info.version)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        info = self._files[self.members[name][0]]
        with self._storage.open(name, info) as file:
            yield cast("IO[bytes]", FileStream(file))

    def place(self, name: str, scratch: str) -> str:
        copy = copy_path(name, scratch)
        return copy if os.path.exists(copy) else self._storage.path(name)

    def fetch(self, names: Sequence[str], scratch: str) -> None:
        def copy(name: str) -> None:
            with suppress(EnergonError):  # reading the file raises it again
                self.local_path(name, scratch)

        missing = [name for name in names if not os.path.exists(copy_path(name, scratch))]
        requests = sum(-(-self.size(name) // COPY_BYTES) for name in missing)
        self._run(copy, missing, requests, sum(map(self.size, missing)))

    def look_into(self, names: Sequence[str], take: Callable[[str, Iterator[bytes]], bool]) -> set[str]:
        def look(name: str) -> bool:
            info = self._files[self.members[name][0]]
            step = (info.size_bytes - _PIECE_BYTES) // (_PIECES - 1)
            with suppress(EnergonError), self._storage.open(name, info) as file:
                return take(name, (file.read_at(piece * step, _PIECE_BYTES) for piece in range(_PIECES)))
            return False

        long = [name for name in names if self.size(name) > _PIECES * _PIECE_BYTES]
        requests = _PIECES * len(long)
        return {*compress(long, self._run(look, long, requests, requests * _PIECE_BYTES))}

    def _run(self, read: Callable[[str], T], names: Sequence[str], requests: int, size_bytes: int) -> list[T]:
        """Call a function for files at the same time; say before how many requests it may send."""
        if requests > 1 and self._tell is not None:
            self._tell(f"names of files are searched by up to {plural(requests, 'request')} for {size_bytes:,} bytes")
        with ThreadPoolExecutor(_REQUESTS) as threads:
            return [*threads.map(read, names)]

    def changed_ns(self, name: str) -> int:
        return self._files[self.members[name][0]].mtime_ns
