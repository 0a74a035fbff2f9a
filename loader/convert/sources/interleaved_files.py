"""Documents of texts and pictures in reading order, from one file, or the files of a folder, a zip or a tar."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

import msgspec

from ...errors import ConfigError, SampleError, plural
from ...format.tar.names import marked
from ...parts.kinds import kind_of_name, usual_extension
from ..annotations.json_elements import LINE_ENDINGS, Element, decode, document_key, fault_row, read_elements
from ..file_trees.file_names import is_about
from ..file_trees.tree import FileTree, FolderTree
from ..layouts.tree_files import TreeFiles
from ..rows.documents import take_items, with_items
from ..rows.key_names import key_of_path
from ..rows.row import CellReader, PartRef, Row, ValueRef
from ..tables.inline_data import is_inline
from ..tables.named_files import NamedFiles, is_link
from ..tables.source_options import SourceOptions
from ..tables.split_names import split_of_folder
from .archives import tar_files
from .files import ZipCells, open_trees
from .source import AnnotationSource, Listing, picture_extension, picture_ref
from .table_files import TableFiles

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
        yield from self.element_rows(lambda index, element: document_row(element, index, files))


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedFilesSource(InterleavedSource):
    """The documents in the JSON files of a folder or archive: one in a file, or a list or line each.

    Documents have the layouts of :class:`InterleavedSource`. Their pictures are found as by a table in the
    folder or archive. If none is, they are the numbered pictures of
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
            files = TreeFiles(tree)
            documents = (name for name in files.names if name.lower().endswith(_DOCUMENTS))
            names = [name for name in documents if not is_about(posixpath.basename(name))]
            has_documents |= bool(names)
            numbered = {} if self.root else _numbered_pictures(files.names, names)
            has_splits = all(split_of_folder(_outer_folder(name)) for name in names)
            used = {*names}
            for name in names:
                near = self.named_files(listing) if self.root else TableFiles.of(files, name, self.access)
                split = split_of_folder(_outer_folder(name)) if has_splits else ""
                for row in _rows_of_file(tree, name, near, numbered.get(name.rpartition(".")[0], []), listing):
                    yield msgspec.structs.replace(row, split=split)
                used |= near.used if isinstance(near, TableFiles) else set()
            tree.leave_others(listing.account, used, pictures="L111")
        # Account for the files next to the tars.
        if self._form() == "tar" and os.path.isdir(self.path):
            tars = {os.path.relpath(path, self.path) for path in tar_files(self.path)}
            FolderTree(self.path, self.access).leave_others(listing.account, tars)
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


def _outer_folder(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _numbered_pictures(names: Sequence[str], documents: Sequence[str]) -> dict[str, list[str]]:
    """Return the pictures of documents, by the names of these without the extension, in the order of numbers."""
    folders = Counter(map(posixpath.dirname, documents))
    alone = {posixpath.dirname(name): name.rpartition(".")[0] for name in documents}  # a folder for each document
    pictures: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        folder = posixpath.dirname(name)
        if kind_of_name(name.rpartition(".")[2]) == "image" and (match := _NUMBERED.fullmatch(name)):
            document = alone[folder] if folder and folders[folder] == 1 else match[1]
            pictures.setdefault(document, []).append((int(match[2]), name))
    return {document: [name for _, name in sorted(of_it, key=itemgetter(0))] for document, of_it in pictures.items()}


def _rows_of_file(
    tree: FileTree, name: str, files: NamedFiles, numbered: Sequence[str], listing: Listing
) -> Iterator[Row]:
    stem = key_of_path(name.rpartition(".")[0])
    is_alone, elements = _elements(tree, name, listing.scratch)
    for index, element in enumerate(elements):
        try:
            row = document_row(element, index, files, numbered)
        except SampleError as error:
            yield fault_row(element, error)
            continue
        yield msgspec.structs.replace(row, key=stem if is_alone else f"{stem}/{row.key}")


def _elements(tree: FileTree, name: str, scratch: str) -> tuple[bool, Iterator[Element]]:
    """Return the documents of a file, and True if it is one document."""
    origin = marked(tree.example(name))
    if not name.lower().endswith(LINE_ENDINGS):
        # Read the file as one document.
        with tree.open(name) as file:
            whole = Element(origin, file.read())
        try:
            take_items(decode(whole, list[dict[str, Any]])[0])
        except (SampleError, IndexError):
            return True, iter([whole])  # a list of texts and pictures is one document, too
    # Else it is a list of documents, or a document in each line.
    path = tree.local_path(name, os.path.join(scratch, "documents"))
    return False, (
        element._replace(place=f"{origin},{element.place.rpartition(',')[2]}") for element in read_elements(path)
    )


def document_row(element: Element, index: int, files: NamedFiles, numbered: Sequence[str] | None = None) -> Row:
    """Return the row of a document: numbered pictures, and the part ``json``.

    Args:
        index: Number of the document, which is its key if it has no id.
        numbered: Pictures that belong to it if it names none of the files; see :func:`.take_items`.
    """
    kind: Any = dict[str, Any] | list[Any]
    value: Any = decode(element, kind)
    document: dict[str, Any] = value if isinstance(value, dict) else {"items": value}
    items = take_items(document, numbered)
    key = document_key(document, index)
    paths = {item.picture for item in items if isinstance(item.picture, str) and not is_inline(item.picture)}
    # Find the pictures by name, or else by number.
    if paths and numbered and not any(files.find(path) for path in paths if not is_link(path)):
        places = [item.picture in paths for item in items]
        if sum(places) != len(numbered):
            raise SampleError(
                f"the document has {plural(sum(places), 'picture')},"
                f" and {plural(len(numbered), 'file has', 'files have')} its name and a number"
            )
        following = iter(numbered)
        items = [
            item._replace(picture=next(following)) if is_place else item
            for item, is_place in zip(items, places, strict=True)
        ]
    parts: dict[str, PartRef] = {}
    for item in items:
        if isinstance(item.picture, bytes):
            parts[f"{len(parts)}.{usual_extension(item.picture) or 'jpg'}"] = ValueRef(item.picture)
        elif item.picture is not None:
            parts[f"{len(parts)}.{picture_extension(item.picture)}"] = picture_ref(files, item.picture)
    data = msgspec.json.encode(with_items(document, items, [*parts]))
    parts["json"] = ValueRef(data, is_lossy=element.is_lossy)
    return Row(key=key, parts=parts, origin=element.place)
