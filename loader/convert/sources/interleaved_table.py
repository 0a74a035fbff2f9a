"""Documents of texts and pictures in reading order, from two columns of a table that line up: OBELICS."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from ...accounting.kinds import with_extension
from ...errors import ConfigError, EnergonError, SampleError, StorageError
from ...storage import is_url
from ..annotations.element_rows import DOCUMENT_KEYS, document_key
from ..annotations.interleaved import NO_ITEMS, document_json, lined_up_items
from ..annotations.picture_files import find_picture_folder, picture_extension, picture_ref
from ..file_trees.leftovers import leave_others
from ..file_trees.tree import FolderTree
from ..rows.file_ref import file_version
from ..rows.row import CellRef, FaultRef, PartRef, Row, ValueRef
from ..tables.arrow_cells import RowBatches
from ..tables.arrow_files import ArrowTable, open_table
from ..tables.arrow_rows import TableCells
from ..tables.columns import Columns, PartColumns
from ..tables.document_columns import DocumentColumns, do_line_up, document_columns, present_elements
from ..tables.hugging_face import is_saved_dataset, load_saved
from ..tables.names import split_part
from ..tables.part_values import media_bytes
from ..tables.records import folder_of
from ..tables.table_files import TableFile, kind_of_tables, list_table_files
from .hugging_face import HuggingFaceSource
from .source import Listing, SampleProposal, Source

__all__ = ["DocumentCells", "InterleavedTableSource", "open_tables"]

_STATE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedTableSource(Source):
    """The rows of Parquet or Arrow files, or of a dataset that ``save_to_disk`` has written, as documents.

    The columns ``texts`` and ``images`` line up; either is null in a place. Pictures are bytes, structs of bytes and a
    path, paths or URLs. Samples are those of :class:`InterleavedSource`; the other columns stay in ``json``.

    Attributes:
        path: A file, or a folder of files with the same columns; or its URL.
        root: Folder of the pictures; None finds it near the file.
    """

    path: str
    root: str | None = None
    kind: str = "interleaved"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the documents: file by file, in their order.

        Raises:
            ConfigError: A file has no two such columns, or the pictures cannot be found.
            FormatError: A file is damaged.
            StorageError: It cannot be read.
        """
        files, open_file = self._files()
        folder = self._folder(files, open_file)
        if self._is_folder and not is_saved_dataset(self.path):
            leave_others(FolderTree(self.path), {file.name for file in files}, listing.account)
        for file in files:
            prefix = f"{file.name.rpartition('.')[0] or file.name}/" if len(files) > 1 else ""
            with closing(open_file(file.path)) as table:
                rows = _TableRows(table, file, folder)
                if not listing.shuffled:
                    yield from rows.rows(prefix)
                    continue
                with closing(self.open_cells()) as cells:  # read in order, as rows will be read in any order
                    yield from (_with_values(row, cells) for row in rows.rows(prefix))

    def proposal(self) -> SampleProposal:
        """Return the type for documents, which code builds."""
        return SampleProposal(sample_type="InterleavedSample")

    def lines_up(self) -> bool:
        """Return True if the first table has two such columns, whose lists are equally long in most of the first rows.

        Raises:
            EnergonError: The table cannot be read.
        """
        files, open_file = self._files()
        with closing(open_file(files[0].path)) as table:
            columns = document_columns(table.schema)
            return columns is not None and do_line_up(table, columns)

    def open_cells(self) -> DocumentCells:
        """Open the files for the worker that calls."""
        return DocumentCells(self._files()[1], self.root or (self.path if self._is_folder else folder_of(self.path)))

    @property
    def _is_folder(self) -> bool:
        return not is_url(self.path) and os.path.isdir(self.path)

    def _files(self) -> tuple[list[TableFile], Callable[[str], ArrowTable]]:
        """Return the tables, and a function that opens one of them by its path."""
        if is_saved_dataset(self.path):
            tables = load_saved(self.path)
            versions = {name: file_version(os.path.join(self.path, name, _STATE)) for name in tables}
            saved = [
                TableFile(
                    path=name,
                    name=name or os.path.basename(os.path.abspath(self.path)),
                    version=v,
                    split=split_part(name),
                )
                for name, v in versions.items()
            ]
            return saved, tables.__getitem__
        kind = kind_of_tables(self.path)
        if kind is None:
            raise ConfigError("there are no Parquet or Arrow files", at=self.path, hint="check the path")
        return list_table_files(self.path, kind), lambda path: open_table(path, kind)

    def _folder(self, files: Sequence[TableFile], open_file: Callable[[str], ArrowTable]) -> str:
        """Return the folder that paths of pictures start from."""

        def paths() -> Iterator[list[str]]:
            for file in files:
                with closing(open_file(file.path)) as table:
                    columns = _columns(table, file)
                    for _, batch in () if columns.has_contents else table.batches(0, [columns.images]):
                        for pictures in batch.column(columns.images).to_pylist():
                            yield from ([path] for path in pictures or () if path)

        near = os.path.join(self.path, _STATE) if self._is_folder else self.path
        return find_picture_folder(near, self.root, paths())[0]


def open_tables(path: str, columns: Columns, *, otherwise: Callable[[], Source] | None = None) -> Source:
    """Return the source of documents if that is what tables hold, else that of tables.

    Args:
        path: Parquet or Arrow files, or a dataset that ``save_to_disk`` has written.
        columns: The columns that the user names.
        otherwise: Opens other tables; None takes them for a Hugging Face dataset.
    """
    documents = InterleavedTableSource(path=path, root=columns.root)
    with suppress(EnergonError):  # the source of tables says what is wrong
        if not columns.parts and documents.lines_up():
            return documents
    return HuggingFaceSource(path=path, columns=columns) if otherwise is None else otherwise()


def _columns(table: ArrowTable, file: TableFile) -> DocumentColumns:
    columns = document_columns(table.schema)
    if columns is None:
        raise ConfigError(
            f"expected columns texts and images, lists of texts and of pictures; found {', '.join(table.schema.names)}",
            at=file.name,
            hint="import other tables without --from interleaved",
        )
    return columns


class _TableRows:
    """The rows of one table."""

    def __init__(self, table: ArrowTable, file: TableFile, folder: str) -> None:
        names = table.schema.names
        self._table = table
        self._columns = columns = _columns(table, file)
        self._file = file
        self._folder = folder
        self._keys = [name for name in DOCUMENT_KEYS if name in names]
        self._images = PartColumns(
            name="jpg", role="bytes", columns=(columns.images,), is_list=True, named_by_contents=True
        )
        others = tuple(name for name in names if name != columns.images)
        self._document = PartColumns(name="json", role="json", columns=others, is_object=True)
        self._cells = TableCells(table, (self._images, self._document), file.path, file.version)

    def rows(self, prefix: str) -> Iterator[Row]:
        """Yield the rows; of pictures that are bytes, only their presence is read."""
        column, has_contents = self._columns.images, self._columns.has_contents
        listed = self._table.lengths_column(column) if has_contents else column
        for first, batch in self._table.batches(0, [listed, *self._keys]):
            array = batch.column(column)
            pictures = present_elements(array) if has_contents else array.to_pylist()
            keys = {name: batch.column(name).to_pylist() for name in self._keys}
            for row in range(batch.num_rows):
                number = first + row
                yield Row(
                    key=prefix + document_key({name: values[row] for name, values in keys.items()}, number),
                    parts=self._parts(number, pictures[row] or []),
                    origin=f"{self._file.name}, row {number}",
                    split=self._file.split,
                )

    def _parts(self, number: int, pictures: Sequence[Any]) -> dict[str, PartRef]:
        """Return the parts of a row; ``True`` is a picture that the workers read."""
        self._cells.move_to(number)
        cell = self._cells.cell_of({self._columns.images: pictures})
        parts: dict[str, PartRef] = {}
        try:
            for place, picture in enumerate(pictures):
                if picture is True:
                    parts[f"{len(parts)}.jpg"] = cell(self._images, place)
                elif picture:
                    parts[f"{len(parts)}.{picture_extension(picture)}"] = picture_ref(self._folder, picture)
        except SampleError as error:
            return {"json": FaultRef(error.message)}
        return {**parts, "json": cell(self._document, None)}


class DocumentCells:
    """Reads the pictures of documents that are bytes, and writes the parts ``json``.

    Args:
        open_file: Opens a file of the table by its name.
        root: Folder or URL that relative paths start from.
    """

    def __init__(self, open_file: Callable[[str], ArrowTable], root: str) -> None:
        self._batches = RowBatches(open_file)
        self._root = root
        self._row = "", -1
        self._pictures: list[Any] = []  # of this row

    def read(self, cell: CellRef) -> bytes:
        """Return the contents of a part.

        Raises:
            SampleError: The lists do not line up, or a value is neither text nor picture.
            FormatError: The file is damaged.
            StorageError: It cannot be read.
        """
        batch, row = self._batches.at(cell.file, cell.row)
        columns = document_columns(batch.schema)
        if columns is None:
            raise SampleError("the file has no texts and images any more", hint="do not change it meanwhile")
        if self._row != (cell.file, cell.row):
            self._pictures = batch.value(columns.images, row) or []
            self._row = cell.file, cell.row
        _, is_picture, place = cell.column.partition("#")
        if is_picture:
            return media_bytes(self._pictures[int(place)], f"{columns.images}[{place}]", self._root)
        values = {name: batch.value(name, row) for name in batch.schema.names if name != columns.images}
        items = lined_up_items(values.pop(columns.texts) or [], self._pictures)
        if not items:
            raise SampleError(NO_ITEMS)
        pictures = [item.picture for item in items if item.picture is not None]
        return document_json(values, items, [self._name(*each, columns) for each in enumerate(pictures)])

    def _name(self, number: int, picture: str | bytes, columns: DocumentColumns) -> str:
        """Return the name that the part of a picture gets by the same rules."""
        if not columns.has_contents:
            return f"{number}.{picture_extension(str(picture))}"
        value = picture if isinstance(picture, bytes) else {"path": picture}
        return with_extension(f"{number}.jpg", media_bytes(value, columns.images, self._root))

    def close(self) -> None:
        """Close the file."""
        self._batches.close()


def _with_values(row: Row, cells: DocumentCells) -> Row:
    """Return a row with the contents of its cells."""
    parts: dict[str, PartRef] = {}
    for name, part in row.parts.items():
        parts[name] = part
        if isinstance(part, CellRef):
            try:
                data = cells.read(part)
            except (SampleError, StorageError) as error:
                code = "F102" if isinstance(error.__cause__, FileNotFoundError) else "F101"
                parts[name] = FaultRef(error.message, code=code)
            else:
                del parts[name]
                parts[with_extension(name, data) if part.named_by_contents else name] = ValueRef(data)
    return msgspec.structs.replace(row, parts=parts)
