"""The members of the tars of a tree, which a manifest next to the tars may name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, cast

from ...storage import FileStream, open_parent
from ..rows.file_access import file_version
from ..rows.row import PartRef, RangeRef
from .tree import FileTree, ListedTree, read_tar_members


class MemberTree(ListedTree):
    """The members of tars, each below the name of its tar; tables and other files stay in the outer tree.

    Args:
        tars: Names of tars in the outer tree, with their paths and the paths of tars that are not compressed.
    """

    def __init__(self, outer: FileTree, tars: Iterable[tuple[str, str, str]]) -> None:
        super().__init__(outer.path)
        self._outer = outer
        self._ranges: dict[str, tuple[bytes, int, str]] = {}
        members: dict[str, tuple[int, int]] = {}
        for tar, path, plain in tars:
            changed = file_version(path)
            for name, (offset, size_bytes) in read_tar_members(plain, self.left, shown=tar).items():
                members[f"{tar}/{name}"] = len(members), size_bytes
                self._ranges[f"{tar}/{name}"] = os.fsencode(plain), offset, changed
        self.members = members

    def ref(self, name: str, part: str) -> PartRef:  # noqa: ARG002 - a range has no part name
        path, offset, changed = self._ranges[name]
        return RangeRef(path, offset, self.members[name][1], changed)

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        path, offset, _ = self._ranges[name]
        storage, last = open_parent(os.fsdecode(path))
        with storage.open(last) as file:
            yield cast("IO[bytes]", FileStream(file, offset, self.members[name][1]))

    def fetch(self, names: Sequence[str], scratch: str) -> None:
        self._outer.fetch(names, scratch)

    def look_into(self, names: Sequence[str], take: Callable[[str, Iterator[bytes]], bool]) -> set[str]:
        return self._outer.look_into(names, take)

    def local_path(self, name: str, scratch: str) -> str:
        return self._outer.local_path(name, scratch)
