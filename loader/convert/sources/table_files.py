"""The files that the values of a table or document name: of the tree that it is in, or near it if it is alone."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...engine import Account
from ...storage import is_url
from ..file_trees.member_tree import MemberTree
from ..file_trees.tree import FileTree, FolderTree
from ..layouts.tree_files import TreeFiles, kind_of_extension
from ..rows.file_access import FileAccess, data_folder, is_below
from ..rows.row import FaultRef, PartRef
from ..tables.name_index import NUMBER, STEM, shared_end
from ..tables.named_files import Hit, NamedFiles, is_link, join_root, split_extension
from ..tables.records import folder_of
from ..tables.split_names import subset_of_file

_TEXTS = frozenset({"text", "tree"})
_MAX_FOLDERS = 10_000  # near a table, that are searched


class TableFiles(NamedFiles):
    """Files of a tree by the names that a table has for them; it records which were requested.

    Args:
        table: Name of the table: of several files of one name, the nearest one to it is meant.
        access: Decides which files outside of the tree may be named.
        root: Another folder whose files may be named.
    """

    is_tree = True

    @classmethod
    def of(cls, files: TreeFiles, table: str, access: FileAccess | None = None, root: str | None = None) -> TableFiles:
        """Return the files of a tree that is listed."""
        named = cls(files.tree, table, access, root)
        named._files = files
        return named

    @cached_property
    def _files(self) -> TreeFiles:
        return TreeFiles(self._tree)

    def __init__(self, tree: FileTree, table: str, access: FileAccess | None = None, root: str | None = None) -> None:
        roots = [tree.path] if root is None else [tree.path, root if is_url(root) else os.path.abspath(root)]
        super().__init__(tree.path, access, roots)
        self._tree = tree
        self._name = table
        self.table_path = join_root(tree.path, table)  # another one is read if the tree is far away or an archive
        self._folder, last = posixpath.split(table)
        # Of files of one name, those in a folder that the name of the table begins with are meant.
        stem = last.partition(".")[0].lower()
        begins = {stem[: match.start()] for match in re.finditer("[-_ ]", stem)}
        self._owners = frozenset({stem, *begins, subset_of_file(last).lower()} - {""})
        self.weakest_form, self.is_of_media = NUMBER, False
        self.used: set[str] = set()
        self.last = ""  # name of the first file since it was reset
        self._asked: tuple[str, str | None] = "", None  # the last path, and the file that it names

    def find(self, text: str) -> Hit | None:
        hit = self._files.index.find(text, self._folder, self._owners)
        return hit if hit is not None and self._is_meant(hit) else None

    def find_all(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        files, forms = self._files.index.find_all(texts, self._folder, self._owners)
        # Ask only for the hits that may not be meant.
        asked = (files >= 0) & ((forms > self.weakest_form) | (files == self._number) | self.is_of_media)
        for position in np.flatnonzero(asked).tolist():
            if not self._is_meant(Hit(files[position], forms[position])):
                files[position], forms[position] = -1, 0
        return files, forms

    @cached_property
    def _number(self) -> int:
        """Number of the table among the files; -1 if it is none of them."""
        same = self._files.index.of_name(posixpath.basename(self._name))
        return next((n for n in same if self._files.names[n] == self._name), -1)

    def _is_meant(self, hit: Hit) -> bool:
        name = self._files.names[hit.file]
        # Without its extension, a file next to the table or in the outer folder is named by its path.
        is_path = hit.form == STEM and posixpath.dirname(name) in ("", self._folder)
        if name == self._name or (hit.form > self.weakest_form and not is_path):
            return False
        return not self.is_of_media or kind_of_extension(self.extension(hit.file)) not in _TEXTS

    def extension(self, file: int) -> str:
        return split_extension(self._files.names[file])[1]

    def exists(self, path: str) -> bool:
        return self._find(path) is not None or self._is_outside_file(path)

    def name(self, path: str) -> str:
        name = self._find(path)
        if name is not None and isinstance(self._tree, MemberTree):
            return name.partition(".tar")[2].partition("/")[2]  # its name in the tar
        return name or posixpath.normpath(posixpath.join(self._folder, path))

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:
        name = self._find(path)
        if name is None:
            if is_link(path) or self._is_outside_file(path):
                return super().ref(path, part, named_by_contents=named_by_contents)
            same = self._files.index.of_name(path.rpartition("/")[2])
            there = " or ".join(self._files.names[file] for file in same[:2])
            missing = f"there is no file {path!r} in {self._tree.path}{self._elsewhere}"
            return FaultRef(f"{path!r} may be {there}" if same[1:] else missing, code="F102")
        file = self._tree.ref(name, part)
        if not isinstance(file, FaultRef):  # it is not refused
            self.used.add(name)
            self.last = self.last or name
        return file

    _elsewhere = ""

    def _is_outside_file(self, path: str) -> bool:
        """Return True for an existing file that is not in the listing; its access is checked when it is taken."""
        return self._tree.unit == "files" and not is_url(self._tree.path) and super().exists(path)

    def _find(self, path: str) -> str | None:
        # A path is looked up for the key, the part and the file of a row.
        if self._asked[0] != path:
            self._asked = path, self._search(path)
        return self._asked[1]

    def _search(self, path: str) -> str | None:
        hit = self.find(path)
        if hit is not None:
            return self._files.names[hit.file]
        # Files that are left out by their names may be named by their paths.
        names = (posixpath.normpath(posixpath.join(folder, path)) for folder in (self._folder, ""))
        return next(filter(self._tree.has, names), None)


class _NearTree(FolderTree):
    def folders(self, account: Account) -> Iterator[tuple[str, list[str]]]:
        listed = [*islice(super().folders(account), _MAX_FOLDERS + 1)]
        yield from listed if len(listed) <= _MAX_FOLDERS else ()


class NearFiles(TableFiles):
    """The files that a table or document of no tree names: by their paths, or else by their names.

    The folder that it speaks for is listed when a path leads to no file.

    Args:
        path: The table or document, or a folder of tables.
        access: Decides which files may be named.
        root: Folder that paths start from, and whose files may be named; None for the folder of the table.
        weakest_form: What weaker names would find is not meant.
        is_of_media: Texts are not meant.
        notes: Gets a note if files are found by their names.
    """

    is_tree = False
    _elsewhere = "; --root names another folder"

    def __init__(
        self,
        path: str,
        access: FileAccess | None = None,
        root: str | None = None,
        *,
        weakest_form: int = NUMBER,
        is_of_media: bool = False,
        notes: list[str] | None = None,
    ) -> None:
        self._arguments = path if is_url(path) else os.path.abspath(path), access, root
        access = access or FileAccess()
        start = os.path.abspath(root or (path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))))
        base = start if root or os.path.isdir(path) else data_folder(path)
        # What the listing finds was not named, so that refused links of the folder are no findings.
        inner = FileAccess(allow_outside=access.allow_outside, follow_links=access.follow_links)
        full = os.path.abspath(path)
        name = os.path.relpath(full, base) if is_below(full, [base]) else os.path.basename(full)
        super().__init__(_NearTree(base, inner), name, access)
        self.root = start
        self._tried = "", False  # the last path, and whether it leads to a file
        self.weakest_form, self.is_of_media, self._notes = weakest_form, is_of_media, notes

    def _is_outside_file(self, path: str) -> bool:
        # A path is looked up for the key, the part and the file of a row.
        if self._tried[0] != path:
            self._tried = path, super()._is_outside_file(path)
        return self._tried[1]

    def __reduce__(self) -> tuple[object, ...]:
        # Workers list the folder themselves, if they need it.
        return partial(NearFiles, weakest_form=self.weakest_form, is_of_media=self.is_of_media), self._arguments

    def name(self, path: str) -> str:
        name = self._find(path)
        return path if name is None else shared_end(name, path)

    def _find(self, path: str) -> str | None:
        if is_link(path) or self._is_outside_file(path):
            return None
        hit = self.find(path)
        if hit is None:
            return None
        name = self._files.names[hit.file]
        if self._notes is not None:
            self._notes.append(f"paths such as {path!r} lead to no file: {name} in {self._tree.path} has this name")
            self._notes = None
        return name


def files_near(path: str, access: FileAccess, root: str | None, **which: Any) -> NamedFiles:
    """Return :class:`NearFiles`; at URLs, the files that are named by their paths."""
    return (
        NamedFiles(root or folder_of(path), access) if is_url(root or path) else NearFiles(path, access, root, **which)
    )
