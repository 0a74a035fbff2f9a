"""The files below a URL of an object store, as a tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from ...accounting import Unit
from ...storage import FileStream, open_storage
from ..rows.row import FileRef, PartRef
from .tree import ListedTree


class UrlTree(ListedTree):
    """The files below a URL; what is there is listed once.

    Nothing leads out of it: object stores have no links, and names of tables are names of the listing.
    """

    unit: Unit = "files"

    def __init__(self, url: str) -> None:
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

    def changed_ns(self, name: str) -> int:
        return self._files[self.members[name][0]].mtime_ns
