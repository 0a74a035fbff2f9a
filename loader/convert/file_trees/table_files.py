"""The files that the rows of a table in a tree name."""

from __future__ import annotations

import posixpath
import unicodedata

from ..rows.row import FaultRef, PartRef
from ..tables.names import is_link
from ..tables.part_values import FilesBelow
from .tree import FileTree

__all__ = ["TableFiles"]


class TableFiles:
    """Files of a tree by the names that a table has for them; it records which it was asked for.

    Args:
        tree: The tree.
        folder: Folder in the tree that names start from.
    """

    def __init__(self, tree: FileTree, folder: str) -> None:
        self._tree = tree
        self._folder = folder
        self.used: set[str] = set()
        self.hits = 0
        self.last = ""  # name of the first file since it was reset

    def exists(self, path: str) -> bool:
        """Return True if there is such a file."""
        exists = self._find(path) is not None
        self.hits += exists
        return exists

    def name(self, path: str) -> str:
        """Return the name of a file in the tree."""
        return self._find(path) or self._full(path)

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:
        """Return the reference to a file; one that fails if there is none."""
        if is_link(path):
            return FilesBelow("").ref(path, part, named_by_contents=named_by_contents)
        name = self._find(path)
        if name is None:
            return FaultRef(f"there is no file {path!r} in {self._tree.path}", code="F102")
        self.used.add(name)
        self.last = self.last or name
        return self._tree.ref(name, part)

    def _full(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._folder, path))

    def _find(self, path: str) -> str | None:
        """Return the name of a file, which a program of Windows or macOS may have written in another form."""
        swapped = path.replace("\\", "/")
        forms = (unicodedata.normalize(form, swapped) for form in ("NFC", "NFD")) if not path.isascii() else ()
        return next((name for name in map(self._full, (path, swapped, *forms)) if self._tree.has(name)), None)
