"""The files that the rows of a table in a tree name."""

from __future__ import annotations

import os
import posixpath
import unicodedata

from ...accounting import Account
from ...accounting.kinds import MEDIA_KINDS, kind_of_name
from ..file_trees.tree import FileTree
from ..rows.file_access import FileAccess
from ..rows.row import FaultRef, PartRef
from ..tables.named_files import NamedFiles, is_link

_MAX_FOLDERS = 100  # that are searched for each file


class TableFiles(NamedFiles):
    """Files of a tree by the names that a table has for them; it records which were requested.

    Args:
        table: Name of the table, whose folder names start from; or else the one folder that has the file.
        access: Decides which files outside of the tree may be named.
        root: Another folder whose files may be named.
    """

    def __init__(self, tree: FileTree, table: str, access: FileAccess | None = None, root: str | None = None) -> None:
        super().__init__(tree.path, access, [tree.path] if root is None else [tree.path, os.path.abspath(root)])
        self._tree = tree
        self._table = table
        self._folders = [posixpath.dirname(table)]
        self._others: list[str] | None = None
        self._media: dict[str, list[str]] | None = None  # by their names without folder and extension
        self.used: set[str] = set()
        self.hits = 0
        self.last = ""  # name of the first file since it was reset

    def exists(self, path: str) -> bool:
        exists = self._find(path) is not None
        self.hits += exists
        return exists

    def has_stem(self, text: str) -> bool:
        has = self._find_by_stem(text) is not None
        self.hits += has
        return has

    def name(self, path: str) -> str:
        return self._find(path) or posixpath.normpath(posixpath.join(self._folders[0], path))

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:
        if is_link(path):
            return super().ref(path, part, named_by_contents=named_by_contents)
        name = self._find(path)
        if name is None:
            return FaultRef(f"there is no file {path!r} in {self._tree.path}", code="F102")
        file = self._tree.ref(name, part)
        if not isinstance(file, FaultRef):  # it is not refused
            self.used.add(name)
            self.last = self.last or name
        return file

    def _find(self, path: str) -> str | None:
        """Return the name of a file, which a program of Windows or macOS may have written in another form."""
        swapped = path.replace("\\", "/")
        forms = (unicodedata.normalize(form, swapped) for form in ("NFC", "NFD")) if not path.isascii() else ()
        paths = (path, swapped, *forms)
        names = (posixpath.normpath(posixpath.join(folder, form)) for folder in self._folders for form in paths)
        return next(filter(self._tree.has, names), None) or self._find_by_stem(swapped) or self._find_elsewhere(swapped)

    def _find_by_stem(self, path: str) -> str | None:
        """Return the one medium that has the path as its name without extension, or the one of the table's folder."""
        if self._media is None:
            self._media = {}
            for folder, names in self._tree.folders(Account()):
                for name in names:
                    stem, _, extension = name.rpartition(".")
                    if kind_of_name(extension) in MEDIA_KINDS:
                        self._media.setdefault(stem, []).append(posixpath.join(folder, name))
        same = self._media.get(posixpath.basename(path), [])
        named = [name for name in same if f"/{name}".rpartition(".")[0].endswith(f"/{path}")]
        return self._only(named)

    def _find_elsewhere(self, path: str) -> str | None:
        """Return the name of a file below the one folder that has it, or the one that the table is named after."""
        if self._others is None:
            folders = [folder for folder, _ in self._tree.folders(Account())]
            above = {posixpath.dirname(folder) for folder in folders}
            self._others = sorted({*folders, *above})[:_MAX_FOLDERS]
        file = self._only([*filter(self._tree.has, (posixpath.join(folder, path) for folder in self._others))])
        if file is not None:
            self._folders[1:] = [file.removesuffix(path)]  # of the next one, too
        return file

    def _only(self, files: list[str]) -> str | None:
        """Return the only file, or the only one below a folder that the table is named after; None for several."""
        stem = posixpath.basename(self._table).partition(".")[0].lower()
        named = [file for file in files if stem in file.lower().split("/")[:-1]]
        return next((group[0] for group in (files, named) if len(group) == 1), None)
