"""The files that the rows of a table in a tree name."""

from __future__ import annotations

import posixpath
import unicodedata

from ...accounting import Account
from ..rows.row import FaultRef, PartRef
from ..tables.named_files import NamedFiles
from ..tables.names import is_link
from .tree import FileTree

_MAX_FOLDERS = 100  # that are searched for each file


class TableFiles(NamedFiles):
    """Files of a tree by the names that a table has for them; it records which were requested.

    Args:
        tree: The tree.
        table: Name of the table, whose folder names start from; or else the one folder that has the file.
    """

    def __init__(self, tree: FileTree, table: str) -> None:
        super().__init__(tree.path)
        self._tree = tree
        self._table = table
        self._folders = [posixpath.dirname(table)]
        self._others: list[str] | None = None
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
        return self._find(path) or posixpath.normpath(posixpath.join(self._folders[0], path))

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:
        """Return the reference to a file; one that fails if there is none."""
        if is_link(path):
            return super().ref(path, part, named_by_contents=named_by_contents)
        name = self._find(path)
        if name is None:
            return FaultRef(f"there is no file {path!r} in {self._tree.path}", code="F102")
        self.used.add(name)
        self.last = self.last or name
        return self._tree.ref(name, part)

    def _find(self, path: str) -> str | None:
        """Return the name of a file, which a program of Windows or macOS may have written in another form."""
        swapped = path.replace("\\", "/")
        forms = (unicodedata.normalize(form, swapped) for form in ("NFC", "NFD")) if not path.isascii() else ()
        paths = (path, swapped, *forms)
        names = (posixpath.normpath(posixpath.join(folder, form)) for folder in self._folders for form in paths)
        return next(filter(self._tree.has, names), None) or self._find_elsewhere(swapped)

    def _find_elsewhere(self, path: str) -> str | None:
        """Return the name of a file below the one folder that has it, or the one that the table is named after."""
        if self._others is None:
            folders = [folder for folder, _ in self._tree.folders(Account()) if folder]
            above = {posixpath.dirname(folder) for folder in folders} - {""}
            self._others = sorted({*folders, *above})[:_MAX_FOLDERS]
        present = [folder for folder in self._others if self._tree.has(f"{folder}/{path}")]
        stem = posixpath.basename(self._table).partition(".")[0].lower()
        named = [folder for folder in present if stem in folder.lower().split("/")]
        for folders in (present, named):
            if len(folders) == 1:
                self._folders[1:] = folders  # of the next one, too
                return f"{folders[0]}/{path}"
        return None
