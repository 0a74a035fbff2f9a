"""The files below a URL of an object store, as a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, cast

from ...accounting import Unit
from ...errors import EnergonError, plural
from ...storage import FileStream, open_storage
from ..rows.row import FileRef, PartRef
from .tree import ListedTree

_REQUESTS = 32  # at once, so that a thousand documents take a few round trips


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

    def fetch(self, names: Sequence[str], scratch: str) -> None:
        if len(names) > 1 and self._tell is not None:
            size_bytes = sum(map(self.size, names))
            self._tell(f"the names of files are searched by {plural(len(names), 'request')} for {size_bytes:,} bytes")

        def copy(name: str) -> None:
            with suppress(EnergonError):  # reading the file raises it again
                self.local_path(name, scratch)

        with ThreadPoolExecutor(_REQUESTS) as threads:
            [*threads.map(copy, names)]

    def changed_ns(self, name: str) -> int:
        return self._files[self.members[name][0]].mtime_ns
