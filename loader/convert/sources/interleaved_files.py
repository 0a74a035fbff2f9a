"""Documents of texts and pictures in reading order, from one file, or the files of a folder, a zip or a tar."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ...accounting.kinds import kind_of_name, usual_extension
from ...errors import ConfigError, SampleError, plural
from ...storage import is_url
from ..annotations.json_elements import (
    LINE_ENDINGS,
    Element,
    decode,
    document_key,
    fault_row,
    read_elements,
)
from ..file_trees.file_names import is_about, join_names, role_of_name
from ..file_trees.tree import FileTree, FolderTree
from ..rows.documents import Item, take_items, with_items
from ..rows.row import CellReader, FaultRef, PartRef, Row, ValueRef, key_of_path
from ..tables.columns import SourceOptions
from ..tables.named_files import NamedFiles, is_inline, join_root, split_of_folder
from .archives import tar_files
from .files import ZipCells, open_trees
from .source import AnnotationSource, Listing, picture_extension, picture_ref

_DOCUMENTS = (".json", *LINE_ENDINGS)
_NUMBERED = re.compile(r"(.*?)[/_.-]?(\d+)\.[^.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedSource(AnnotationSource):
    """The documents of a JSON list or JSONL file, each with its pictures.

    The part ``json`` has ``texts`` and ``images``, lists that line up: in each place is either a text or the name of a
    part. The other values of the document stay. Layouts of documents:

    - ``text_list`` and ``image_info`` with ``matched_text_index`` and ``image_name``, or the picture in base64 as
      ``image_base64``: the picture precedes that text;
    - ``texts`` and ``images``, which line up; at the same place, the picture comes first;
    - ``text`` with ``<image>`` at the places of ``images``;
    - a list of items, or one as ``sequence``, ``content`` …: texts, and paths of pictures, or objects with either.
    """

    kind: str = "interleaved"

    def rows(self, listing: Listing) -> Iterator[Row]:
        files = self.named_files(listing)

        def make(index: int, element: Element) -> Row:
            document, items = read_document(element)
            key = document_key(document, index)
            return document_row(key, document, items, ref=lambda path: picture_ref(files, path), element=element)

        yield from self.element_rows(make)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedFilesSource(InterleavedSource):
    """The documents in the JSON files of a folder or archive: one in a file, or a list or line each.

    Documents have the layouts of :class:`InterleavedSource`. Their pictures are found by name: from the folder
    of the document, from the outer folder, or from ``images`` in either. If none is, they are the numbered pictures of
    the document in their order: ``doc_0.jpg``, ``doc/0.jpg``, or ``0.jpg`` where a folder has one document.

    Attributes:
        path: A folder, a zip, a tar, or a folder of tars.
        root: Folder or URL of the pictures; None if they are in the folder or archive.
    """

    def rows(self, listing: Listing) -> Iterator[Row]:
        has_documents = False
        columns = SourceOptions(root=self.root, access=self.access)
        # Read the documents of each folder or archive.
        for tree in open_trees(self.path, self._form(), listing.scratch, columns):
            documents = _Documents(tree, columns, listing)
            has_documents |= bool(documents.names)
            yield from documents.rows()
        # Account for the files next to the tars.
        if self._form() == "tar" and os.path.isdir(self.path):
            used = {os.path.relpath(path, self.path) for path in tar_files(self.path)}
            FolderTree(self.path, self.access).leave_others(listing.account, used)
        if not has_documents:
            raise ConfigError("there are no JSON files in it", at=self.path, hint="name the files of the documents")

    def open_cells(self) -> CellReader:
        return ZipCells(self.path) if self._form() == "zip" else CellReader()

    def _form(self) -> Literal["folder", "zip", "tar"]:
        if self.path.lower().endswith(".zip"):
            return "zip"
        if not os.path.isdir(self.path):
            return "tar"
        return "tar" if tar_files(self.path) else "folder"


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[2]) if match else 0


class _Documents:
    """The documents of a tree, and the fate of each of its files."""

    def __init__(self, tree: FileTree, columns: SourceOptions, listing: Listing) -> None:
        self._tree = tree
        self._root = columns.root
        self._files = NamedFiles(columns.root or tree.path, columns.access)
        self._listing = listing
        self._used: set[str] = set()
        self.names: list[str] = []
        self._pictures: dict[str, list[str]] = {}  # by the name of a document or folder, in the order of numbers
        self._others: list[tuple[str, str]] = []  # files and the reasons why they are left out, unless they are used
        # Sort all files before the first row: pictures may be in later folders.
        for folder, names in tree.folders(listing.account):
            self._sort(folder, names)
        for pictures in self._pictures.values():
            pictures.sort(key=_number)
        folders = [name.partition("/")[0] if "/" in name else "" for name in self.names]
        self._has_splits = all(map(split_of_folder, folders))

    def _sort(self, folder: str, names: Sequence[str]) -> None:
        documents = [name for name in names if name.lower().endswith(_DOCUMENTS) and not is_about(name)]
        self.names += [join_names(folder, name) for name in documents]
        is_alone = len(documents) == 1 and bool(folder)  # a folder for each document
        # Sort pictures by the documents that they may belong to.
        for name in names:
            full = join_names(folder, name)
            is_picture = kind_of_name(name.rpartition(".")[2]) == "image"
            if name not in documents:
                is_data = role_of_name(name) in ("data", "document")
                self._others.append((full, "L111" if is_picture else "L102" if is_data else "L103"))
            if is_picture and (match := _NUMBERED.fullmatch(full)):
                document = join_names(folder, documents[0]).rpartition(".")[0] if is_alone else match[1]
                self._pictures.setdefault(document, []).append(full)

    def rows(self) -> Iterator[Row]:
        account, tree = self._listing.account, self._tree
        # Yield the documents of each file.
        for name in self.names:
            account.use(tree.unit)
            split = split_of_folder(name.partition("/")[0]) if self._has_splits else ""
            is_alone, elements = self._elements(name)
            for index, element in enumerate(elements):
                try:
                    row = self._row(name, element, None if is_alone else index)
                    yield msgspec.structs.replace(row, split=split)
                except SampleError as error:
                    yield fault_row(element, error, split=split)
        # Now it is known which files the documents use.
        for name, reason in self._others:
            if name in self._used:
                account.use(tree.unit)
            else:
                tree.leave(account, name, reason)

    def _elements(self, name: str) -> tuple[bool, Iterator[Element]]:
        origin = os.fsencode(self._tree.example(name)).decode("utf-8", "replace")
        if not name.lower().endswith(LINE_ENDINGS):
            # Read the file as one document.
            with self._tree.open(name) as file:
                whole = Element(origin, file.read())
            try:
                take_items(decode(whole, list[dict[str, Any]])[0])
            except (SampleError, IndexError):
                return True, iter([whole])  # a list of texts and pictures is one document, too
        # Else it is a list of documents, or a document in each line.
        path = self._tree.local_path(name, os.path.join(self._listing.scratch, "documents"))
        return False, (
            element._replace(place=f"{origin},{element.place.rpartition(',')[2]}") for element in read_elements(path)
        )

    def _row(self, name: str, element: Element, index: int | None) -> Row:
        stem = name.rpartition(".")[0]
        numbered = self._pictures.get(stem, [])
        document, items = read_document(element, numbered)
        key = key_of_path(stem) + ("" if index is None else f"/{document_key(document, index)}")
        # Find the pictures by name, or else by number.
        paths = [item.picture for item in items if isinstance(item.picture, str) and not is_inline(item.picture)]
        files = {path: self._find(path, posixpath.dirname(name)) for path in paths}
        if paths and numbered and not any(files.values()):
            if len(paths) != len(numbered):
                raise SampleError(
                    f"the document has {plural(len(paths), 'picture')},"
                    f" and {plural(len(numbered), 'file has', 'files have')} its name and a number"
                )
            following = iter(numbered)
            items = [item._replace(picture=next(following)) if item.picture in files else item for item in items]
            files = {path: path for path in numbered}

        # Files of the tree are noted as used; others may be at URLs or below another root.
        def ref(path: str) -> PartRef:
            file = files.get(path)
            if file:
                self._used.add(file)
                return self._tree.ref(file, path)
            is_elsewhere = is_url(path) or posixpath.normpath(path).startswith(("/", "file:/", ".."))
            if self._root is not None or is_elsewhere or is_inline(path):
                return picture_ref(self._files, path)
            return FaultRef(f"there is no file {path}", code="F102")

        return document_row(key, document, items, ref=ref, element=element)

    def _find(self, path: str, folder: str) -> str:
        if self._root is not None or is_url(path):
            return ""
        inner = path.removeprefix("./").replace("\\", "/")
        names = [
            posixpath.normpath(join_root(base, inner)) for base in (folder, "", join_names(folder, "images"), "images")
        ]
        return next((name for name in names if not name.startswith(("/", "..")) and self._tree.has(name)), "")


def read_document(element: Element, pictures: Sequence[str] | None = None) -> tuple[dict[str, Any], list[Item]]:
    """Return the other values of a document, and its items; for ``pictures`` see :func:`.take_items`."""
    kind: Any = dict[str, Any] | list[Any]
    value: Any = decode(element, kind)
    document: dict[str, Any] = value if isinstance(value, dict) else {"items": value}
    return document, take_items(document, pictures)


def document_row(
    key: str,
    document: dict[str, Any],
    items: Sequence[Item],
    *,
    ref: Callable[[str], PartRef],
    element: Element,
) -> Row:
    """Return the row of a document: numbered pictures, and the part ``json``; ``element`` is where it was read."""
    parts: dict[str, PartRef] = {}
    for item in items:
        if isinstance(item.picture, bytes):
            parts[f"{len(parts)}.{usual_extension(item.picture) or 'jpg'}"] = ValueRef(item.picture)
        elif item.picture is not None:
            parts[f"{len(parts)}.{picture_extension(item.picture)}"] = ref(item.picture)
    data = msgspec.json.encode(with_items(document, items, [*parts]))
    parts["json"] = ValueRef(data, is_lossy=element.is_lossy)
    return Row(key=key, parts=parts, origin=element.place)
