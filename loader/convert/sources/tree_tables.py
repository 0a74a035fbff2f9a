"""The tables and documents in a tree: how they are opened, and the files of the tree that they name."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal

from ...errors import EnergonError
from ...storage import is_url
from ..annotations.json_elements import LINE_ENDINGS, lists_in, read_elements
from ..annotations.kinds import annotation_kind
from ..annotations.xml_elements import tags_in
from ..file_trees.file_names import BARE, BINARY_TABLES, reason_of_name
from ..file_trees.member_tree import MemberTree
from ..file_trees.tree import FileTree
from ..layouts.references import Table
from ..layouts.rows import RowsOfTable
from ..layouts.tree_files import TreeFiles, kind_of_extension
from ..rows.file_access import FileAccess
from ..rows.row import FaultRef, PartRef
from ..tables.columns import SourceOptions
from ..tables.name_index import NUMBER, STEM
from ..tables.named_files import EXTENSIONS, Hit, NamedFiles, is_link, split_extension
from ..tables.part_values import texts_in
from ..tables.records import delimiter_of
from .archives import plain_tar
from .coco import CocoSource
from .conversations import ConversationsSource, VqaSource
from .source import AnnotationSource, Source
from .table_source import ArrowTableSource, TextKind, TextTableSource

_TEXTS = frozenset({"text", "tree"})
_HEAD_BYTES = 1 << 16  # of a text that may be a table


class TableFiles(NamedFiles):
    """Files of a tree by the names that a table has for them; it records which were requested.

    Args:
        table: Name of the table: of several files of one name, the nearest one to it is meant.
        access: Decides which files outside of the tree may be named.
        root: Another folder whose files may be named.
    """

    is_tree = True

    def __init__(self, files: TreeFiles, table: str, access: FileAccess | None = None, root: str | None = None) -> None:
        tree = files.tree
        roots = [tree.path] if root is None else [tree.path, root if is_url(root) else os.path.abspath(root)]
        super().__init__(tree.path, access, roots)
        self._tree = tree
        self._index = files.index
        self._name = table
        self._folder, last = posixpath.split(table)
        self._owner = last.partition(".")[0]
        self.weakest_form, self.is_of_media = NUMBER, False
        self.used: set[str] = set()
        self.last = ""  # name of the first file since it was reset

    def find(self, text: str) -> Hit | None:
        hit = self._index.find(text, self._folder, self._owner)
        return hit if hit is not None and self._is_meant(hit) else None

    def find_all(self, texts: Sequence[str]) -> list[Hit | None]:
        hits = self._index.find_all(texts, self._folder, self._owner)
        return [hit if hit is not None and self._is_meant(hit) else None for hit in hits]

    def _is_meant(self, hit: Hit) -> bool:
        name = self._index.names[hit.file]
        # Without its extension, a file next to the table or in the outer folder is named by its path.
        is_path = hit.form == STEM and posixpath.dirname(name) in ("", self._folder)
        if name == self._name or (hit.form > self.weakest_form and not is_path):
            return False
        return not self.is_of_media or kind_of_extension(self.extension(hit.file)) not in _TEXTS

    def extension(self, file: int) -> str:
        return split_extension(self._index.names[file])[1]

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
            return FaultRef(f"there is no file {path!r} in {self._tree.path}", code="F102")
        file = self._tree.ref(name, part)
        if not isinstance(file, FaultRef):  # it is not refused
            self.used.add(name)
            self.last = self.last or name
        return file

    def _is_outside_file(self, path: str) -> bool:
        """Return True for an existing file that is not in the listing; its access is checked when it is taken."""
        return self._tree.unit == "files" and not is_url(self._tree.path) and super().exists(path)

    def _find(self, path: str) -> str | None:
        hit = self.find(path)
        if hit is not None:
            return self._index.names[hit.file]
        # Files that are left out by their names may be named by their paths.
        names = (posixpath.normpath(posixpath.join(folder, path)) for folder in (self._folder, ""))
        return next(filter(self._tree.has, names), None)


def open_table(
    tree: TreeFiles, table: str, columns: SourceOptions, scratch: str, inside: str = "data"
) -> tuple[TableFiles, TextTableSource | ArrowTableSource]:
    """Return the files that a table in a tree names, and the table."""
    files = TableFiles(tree, table, columns.access, columns.root)
    path, named = tree.tree.local_path(table, scratch), replace(columns, files=files)
    # The ending shows the format; other texts may be tables, too.
    lower = table.lower().removesuffix(".gz")
    if lower.endswith(BINARY_TABLES):
        kind: Literal["arrow", "parquet"] = "arrow" if lower.endswith(EXTENSIONS["arrow"]) else "parquet"
        return files, ArrowTableSource(path=path, kind=kind, columns=named)
    text: TextKind = "jsonl"
    if lower.endswith((".csv", ".tsv")):
        text = "tsv" if lower.endswith(".tsv") else "csv"
    elif lower.endswith(".xml"):
        text = "xml"
    elif not lower.endswith((".json", *LINE_ENDINGS)):
        with open(path, "rb") as file:
            delimiter = delimiter_of(file.read(_HEAD_BYTES), "", files.is_name)
        text = "words" if not delimiter else "tsv" if delimiter == "\t" else "csv"
    return files, TextTableSource(path=path, kind=text, columns=named, inside=inside)


def open_rows(
    tree: TreeFiles, rows: RowsOfTable, options: SourceOptions, scratch: str
) -> tuple[TableFiles, Source, TextTableSource | ArrowTableSource]:
    """Return the files that rows name, the source of the rows, and the table itself."""
    files, table = open_table(tree, rows.file, replace(options, places=rows.places), scratch, rows.inside)
    files.weakest_form = NUMBER if rows.form is None else rows.form
    files.is_of_media = rows.is_of_media
    kinds: dict[str, type[AnnotationSource]] = {
        "coco": CocoSource,
        "conversations": ConversationsSource,
        "vqa": VqaSource,
    }
    return files, kinds[rows.kind](path=table.path, files=files) if rows.kind else table, table


@dataclass(frozen=True, slots=True)
class TreeReader:
    """Reads the tables and documents of a tree, whose copies go to a folder if the tree is an archive."""

    files: TreeFiles
    options: SourceOptions
    scratch: str

    def tables(self, files: TreeFiles, names: Iterable[str]) -> Iterator[Table]:
        options = replace(self.options, parts={})
        for name in names:
            with suppress(EnergonError):  # of a damaged file, which fails where it is a part
                if reason_of_name(name) == BARE and not _is_text(files.tree, name):
                    continue
                path = files.tree.local_path(name, self.scratch)
                insides = {"json": lists_in, "xml": tags_in}.get(split_extension(name.lower())[1], lambda _: ["data"])
                for inside in insides(path):
                    named, table = open_table(files, name, options, self.scratch, inside)
                    columns, kind = table.survey(named), annotation_kind(path) or ""
                    yield Table(name, columns, inside, kind, partial(_files_of_rows, named, table))

    def kind_of_list(self, name: str) -> str:
        with suppress(EnergonError):
            path = self.files.tree.local_path(name, self.scratch)
            has_lines = path.lower().endswith(LINE_ENDINGS)
            if has_lines or (path.lower().endswith(".json") and len([*islice(read_elements(path), 2)]) > 1):
                return annotation_kind(path) or "objects"
        return ""

    def mentions_files(self, name: str) -> bool:
        if split_extension(name.lower())[1] not in ("txt", "lst", "scp", "log", ""):
            return False
        files = TableFiles(self.files, name)
        with self.files.tree.open(name) as file:
            lines = file.read(_HEAD_BYTES).decode("utf-8", "replace").splitlines()
        count = sum(any(map(files.is_name, re.split(r"[\s,;|]+", line))) for line in lines)
        return count > 1 and 2 * count >= len(lines)

    def members(self, tars: Sequence[str]) -> TreeFiles:
        return list_members(self.files.tree, tars, self.scratch)

    def columns_of(self, name: str) -> frozenset[str]:
        with suppress(EnergonError):
            return frozenset(open_table(self.files, name, self.options, self.scratch)[1].column_names())
        return frozenset()


def _is_text(tree: FileTree, name: str) -> bool:
    with tree.open(name) as file:
        return b"\0" not in file.read(_HEAD_BYTES)


def _files_of_rows(
    files: TableFiles, table: TextTableSource | ArrowTableSource, places: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    return ((file, values) for values in table.records() for file in first_file(files, values, places))


def list_members(tree: FileTree, tars: Sequence[str], scratch: str) -> TreeFiles:
    """Return the members of tars of a tree."""
    paths = ((tar, tree.local_path(tar, scratch)) for tar in tars)
    return TreeFiles(MemberTree(tree, [(tar, path, plain_tar(path, scratch)) for tar, path in paths]))


def first_file(files: TableFiles, values: Mapping[str, object], places: Sequence[str]) -> list[str]:
    """Return the name of the file that a row names first; nothing if it names none."""
    texts = (text for column in places for text in texts_in(values.get(column)))
    return list(islice((files.name(text) for text in texts if files.exists(text)), 1))
