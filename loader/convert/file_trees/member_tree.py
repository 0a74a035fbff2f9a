"""The members of the tars of a tree, which a manifest next to the tars may name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO

from ..rows.row import PartRef
from .tree import FileTree, ListedTree, TarTree


class MemberTree(ListedTree):
    """The members of tars, each below the name of its tar; tables and other files stay in the outer tree.

    Args:
        tars: Names of tars in the outer tree, with their paths and the paths of tars that are not compressed.
    """

    def __init__(self, outer: FileTree, tars: Iterable[tuple[str, str, str]]) -> None:
        super().__init__(outer.path)
        self._outer = outer
        self._of_tars: dict[str, tuple[TarTree, str]] = {}
        for tar, path, plain in tars:
            tree = TarTree(path, plain, shown=tar)
            self.left.merge(tree.left)
            self._of_tars |= {f"{tar}/{name}": (tree, name) for name in tree.members}
        self.members = {name: tree.members[inner] for name, (tree, inner) in self._of_tars.items()}

    def ref(self, name: str, part: str) -> PartRef:
        tree, inner = self._of_tars[name]
        return tree.ref(inner, part)

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        tree, inner = self._of_tars[name]
        return tree.open(inner)

    def fetch(self, names: Sequence[str], scratch: str) -> None:
        self._outer.fetch(names, scratch)

    def look_into(self, names: Sequence[str], take: Callable[[str, Iterator[bytes]], bool]) -> set[str]:
        return self._outer.look_into(names, take)

    def local_path(self, name: str, scratch: str) -> str:
        return self._outer.local_path(name, scratch)
