"""Tables as sources: what becomes of the columns is decided once, from all rows; text, Parquet and Arrow tables."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import msgspec

from ...engine import Account
from ...errors import ConfigError, FormatError, SampleError, plural
from ...parts.kinds import kind_of_name
from ...storage import is_url
from ..annotations.json_elements import Element, has_list, read_elements
from ..annotations.views import shared_members
from ..annotations.xml_elements import read_xml
from ..file_trees.file_names import join_names
from ..file_trees.tree import FolderTree
from ..readers.registry import reader_of, reader_of_rows, readers
from ..rows.row import AnnotationRef, Row, ValueRef
from ..tables.arrow_files import ArrowTable, open_table, readable_batches
from ..tables.arrow_rows import ArrowCells, list_table, survey_columns
from ..tables.columns import FoundColumn, TableColumn, TableLayout, segment_columns
from ..tables.delimited import DelimitedReader
from ..tables.detect import find_layout
from ..tables.kaldi import read_kaldi
from ..tables.name_index import BASE_NAME, NUMBER
from ..tables.named_files import NamedFiles
from ..tables.part_values import RowMaker, encode_json
from ..tables.records import Record, open_text_table, parse_record, read_json_lines, read_words
from ..tables.source_options import SourceOptions
from ..tables.table_files import TableFile, list_table_files
from .source import ImportSource, Listing
from .table_files import TableFiles, files_near


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(ImportSource):
    """The rows of a table.

    Attributes:
        columns: The columns that the user names.
        known: The layout, once it was found; workers get it with the source, so that they need not read all rows.
    """

    path: str
    columns: SourceOptions = field(default_factory=SourceOptions)
    known: dict[str, TableLayout] = field(default_factory=dict, repr=False, compare=False)

    @property
    def shown(self) -> str:
        """The path for messages: of a table that was copied from a tree, the one there."""
        return self.columns.files.table_path if isinstance(self.columns.files, TableFiles) else self.path

    @abstractmethod
    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        """Return the columns, to which the values of all rows were added."""

    def column_names(self) -> list[str]:
        """Return the columns of the first row, without a look at the others."""
        return [*next(iter(self.records()), {})]

    @abstractmethod
    def records(self) -> Iterator[Mapping[str, object]]:
        """Yield the values of each valid row by column."""

    def reader_of_rows(self, notes: list[str], part: str = "json") -> str:  # noqa: ARG002 - others have no annotations
        """Return the reader of rows that are annotations of pictures, which a note names; an empty text for others.

        Args:
            part: The part that has the objects.
        """
        return ""

    def describe(self) -> tuple[FoundColumn, ...]:
        return self.layout().found

    def layout(self, listing: Listing | None = None) -> TableLayout:
        """Return what becomes of the columns; for a listing, decide it again and note what users should know."""
        if listing is not None or not self.known:
            # Survey all rows, and decide what becomes of the columns.
            notes = None if listing is None else listing.notes
            # Of a column that the user names, any value is a name.
            form = NUMBER if self.columns.parts else BASE_NAME
            near = files_near(self.path, self.columns.access, self.columns.root, weakest_form=form, notes=notes)
            files = self.columns.files or near
            table = self.survey(files)
            group, reader = self._group_of_files(table)
            columns = replace(self.columns, group_column=group) if reader is not None else self.columns
            layout = find_layout(table, columns, files=files, at=self.shown, group_reader=reader)
            self.known["layout"] = layout
            if self.columns.files is None:  # else the tree was asked
                self._check_segments(table, [part.columns[0] for part in layout.parts if part.role == "path"])
        if listing is not None:
            listing.notes.extend(self.known["layout"].notes)
        return self.known["layout"]

    def _group_of_files(self, table: Sequence[TableColumn]) -> tuple[str, str | None]:
        """Return the column whose files have several rows that are one sample, and their reader, which may be none.

        None instead of a reader if each row is a sample.
        """
        pictures = next((column for column in table if column.name in self.columns.places or column.has_files), None)
        if pictures is None or not pictures.has_repeats or self.columns.parts or self.columns.group_column:
            return "", None
        # Numbers without names, as trackers write them, are a list for each picture.
        others = [column for column in table if column is not pictures]
        are_numbers = len(others) >= _MIN_NUMBERS and all(
            column.type in _NUMBERS and re.fullmatch(r"column_\d+", column.name) for column in others
        )
        reader = reader_of_rows(table, pictures.name)
        return pictures.name, reader if reader or are_numbers else None

    def _check_segments(self, table: Sequence[TableColumn], places: Sequence[str]) -> None:
        """Raise a ``ConfigError`` if rows name segments of recordings, and no option says what becomes of them."""
        segment = segment_columns(table)
        if segment is None or not places or self.columns.segments:
            return
        begins: dict[int, object] = {}
        pairs = ((hash(str([values.get(p) for p in places])), values.get(segment.begin)) for values in self.records())
        if any(begins.setdefault(name, begin) != begin for name, begin in pairs):
            raise ConfigError(
                f"rows name segments of recordings by {segment.begin}",
                at=self.shown,
                hint="--segments cut cuts these out of WAV and FLAC; --segments whole takes the whole recordings",
            )


TextKind = Literal["csv", "tsv", "jsonl", "words", "colons", "xml", "kaldi"]
_MAX_DRAWN = 1000  # elements of a document that show its format
_ROWS_OF_STEP = 1024
_BYTES_OF_STEP = 4 << 20
_MAX_COLUMNS = 1000  # lines of JSON may each have their own; the others are in the object of JSON, too
_MIN_NUMBERS = 5  # columns: an object, its box
_NUMBERS: Mapping[str, type] = {"integer": int, "number": float}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTableSource(TableSource):
    """The rows of a CSV, TSV or JSONL file, which may be compressed by gzip; or the objects of a list in a JSON file.

    Rows that are no valid record fail alone: with another number of fields, or invalid JSON.

    Attributes:
        kind: ``"words"`` are lines of a name and a text behind it, ``"colons"`` such lines with a colon between both;
            ``"kaldi"`` is ``wav.scp`` and the lists next to it.
        inside: The list in an object of JSON.
    """

    kind: TextKind
    inside: str = "data"

    def rows(self, listing: Listing) -> Iterator[Row]:
        layout = self.layout(listing)
        maker = RowMaker(layout)
        name = os.path.basename(self.path)
        with self._read(layout, listing) as (_, records):
            listing.account.take("files")
            reader = self.reader_of_rows(listing.notes)
            unit = "element" if self._is_list else "line"
            for row_index, record in enumerate(records):
                origin = f"{name}, {unit} {record.line}"
                # A row that is no record fails, and is counted with its reason.
                if record.fault:
                    yield maker.fault(row_index, origin, record.fault, record.hint)
                    continue
                row = maker.make(record.values, row=row_index, origin=origin)
                if row is None:
                    listing.account.lose("rows", "L120", origin)
                else:
                    yield _with_reader(row, reader)

    def reader_of_rows(self, notes: list[str], part: str = "json") -> str:
        layout = self.known.get("layout")
        reader = "" if layout is None else layout.group_reader or ""
        if not reader and self.kind in ("jsonl", "xml"):
            with suppress(SampleError):
                reader = reader_of(encode_json(values) for values in islice(self.records(), _MAX_DRAWN))
        if reader:
            title, name = readers()[reader].title, os.path.basename(self.path)
            notes.append(f"annotations of {title} in {name} are read: objects are in {part}")
        return reader

    def records(self) -> Iterator[Mapping[str, object]]:
        with self._read() as (_, records):
            yield from (record.values for record in records if not record.fault)

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        columns: dict[str, TableColumn] = {}
        rows, fault = 0, None
        with self._read() as (names, records):
            while step := [*_step(records)]:
                # Note the first fault, for a table without any valid row.
                rows += len(step)
                fault = fault or next((record for record in step if record.fault), None)
                valid = [record.values for record in step if not record.fault]
                # Lines of JSON may have new columns, which the rows before lack.
                for column in names or dict.fromkeys(name for values in valid for name in values):
                    if column not in columns and len(columns) < _MAX_COLUMNS:
                        columns[column] = TableColumn(column, files, is_text=self.kind not in ("jsonl", "xml", "kaldi"))
                        columns[column].rows = rows - len(step)
                # Records of delimited text all have the same columns, in order.
                cells: Iterable[Sequence[Any]] = zip(*(values.values() for values in valid), strict=True)
                if not names:
                    cells = ([values.get(column) for values in valid] for column in columns)
                for table_column, of_column in zip(columns.values(), cells, strict=False):
                    table_column.add(of_column)
        if not rows:
            raise ConfigError("this table has no rows", at=self.shown, hint="name a file with rows")
        if fault is not None and not any(column.rows for column in columns.values()):
            raise ConfigError(
                f"none of {plural(rows, 'row')} is valid; line {fault.line:,}: {fault.fault}",
                at=self.shown,
                hint=fault.hint or None,
            )
        return list(columns.values())

    @property
    def _is_list(self) -> bool:
        return self.kind == "jsonl" and (self.path.lower().endswith((".json", ".json.gz")) or has_list(self.path))

    def _object(self, element: Element, shared: bytes) -> bytes:
        """Return an element of a list; a text in one of several lists is an object with this ``value``.

        Args:
            shared: Members that each object gets, if it has none of their names.
        """
        if shared and element.data[:1] == b"{":
            return b"{" + shared + element.data[1:]
        is_text = self.inside != "data" and element.data[:1] == b'"'
        return b'{"value":' + element.data + b"}" if is_text else element.data

    @contextmanager
    def _read(
        self, layout: TableLayout | None = None, listing: Listing | None = None
    ) -> Iterator[tuple[list[str], Iterator[Record]]]:
        notes = listing.notes if listing is not None else []
        if self.kind == "xml":
            yield [], read_xml(self.path, self.inside)
            return
        if self.kind == "kaldi":
            yield [], read_kaldi(self.path)
            return
        if self._is_list:
            # A list in a JSON file has elements instead of lines.
            elements = enumerate(read_elements(self.path, inside=(self.inside,)))
            shared = shared_members(self.path, self.inside)
            texts = ((at, None if element.fault else self._object(element, shared)) for at, element in elements)
            yield [], (parse_record(row_index, text) for row_index, text in texts)
            return
        with open_text_table(self.path, notes, shown=self.shown) as file:
            if self.kind == "jsonl":
                yield [], read_json_lines(file)
                return
            if self.kind in ("words", "colons"):
                yield [], read_words(file, ":" if self.kind == "colons" else None)
                return
            files = self.columns.files
            reader = DelimitedReader(
                file, kind=self.kind, path=self.path, is_name=None if files is None else files.is_name
            )
            # Users should know that the first line is taken for data.
            if not reader.has_header:
                notes.append(
                    f"the first line of {self.shown} is data and names no columns: they are {', '.join(reader.names)}"
                )
            if reader.dialect.comments:
                notes.append(
                    f"comments of {self.shown} were left out: {plural(reader.dialect.comments, 'line')} before the"
                    " first record that begin with #"
                )
            # Numbers in the object of JSON are numbers, and other cells texts.
            names = layout.object_part.columns if layout is not None and layout.object_part is not None else ()
            types = {column.name: column.type for column in layout.found} if layout is not None else {}
            yield reader.names, reader.records({n: _NUMBERS[types[n]] for n in names if types[n] in _NUMBERS})
            if reader.open_quotes:
                notes.append(
                    f"lines of {self.shown} with a quote that is not closed were read as they are:"
                    f" {len(reader.open_quotes):,}, the first is line {reader.open_quotes[0]:,}"
                )


def _with_reader(row: Row, reader: str) -> Row:
    """Return a row whose ``json`` has annotations of its picture, if a reader is named."""
    document = row.parts.get("json") if reader else None
    if type(document) is not ValueRef or not any(kind_of_name(part) == "image" for part in row.parts):
        return row
    return msgspec.structs.replace(row, parts={**row.parts, "json": AnnotationRef(document, reader)})


def _step(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the next records, as many as fit into memory together."""
    size_bytes = 0
    for record in islice(records, _ROWS_OF_STEP):
        yield record
        size_bytes += record.size_bytes
        if size_bytes > _BYTES_OF_STEP:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTableSource(TableSource):
    """The rows of Parquet or Arrow files.

    Attributes:
        kind: ``"parquet"`` or ``"arrow"``; a subclass may have others.
    """

    kind: str

    def rows(self, listing: Listing) -> Iterator[Row]:
        files = self.table_files()
        layout = self.layout(listing)
        names = {file.name for file in files if os.path.isfile(file.path)}
        if names and os.path.isdir(self.path):
            FolderTree(self.path, self.columns.access).leave_others(listing.account, names)
        else:
            listing.account.take("files", len(files))
        for file in files:
            with closing(self.open_file(file.path)) as table:
                self._check_columns(file, table.schema.names, layout)
                # Shuffled rows are values, not cells: decoding a batch of rows for each row would take thousands of
                # times as long as reading all rows once.
                with_values = listing.shuffled and not table.is_fast_in_any_order
                yield from list_table(table, layout, file, with_values=with_values, account=listing.account)

    def records(self) -> Iterator[Mapping[str, object]]:
        for file in self.table_files():
            with closing(self.open_file(file.path)) as table:
                for _, batch in readable_batches(table, table.schema.names):
                    if not isinstance(batch, FormatError):
                        yield from batch.to_pylist()

    def survey(self, files: NamedFiles) -> Sequence[TableColumn]:
        paths = [file.path for file in self.table_files()]
        columns = survey_columns(map(self.open_file, paths), files)
        if not columns:
            raise ConfigError("this table has no rows", at=self.shown, hint="name a file with rows")
        return columns

    def column_names(self) -> list[str]:
        with closing(self.open_file(self.table_files()[0].path)) as table:
            return list(table.schema.names)

    def table_files(self) -> list[TableFile]:
        """Return the files in the order of their rows; their names tell no split parts."""
        return [replace(file, split="") for file in self.files_of(self.kind)]

    def files_of(self, kind: str) -> list[TableFile]:
        """Return the files of the kind ``"parquet"`` or ``"arrow"``."""
        names = None
        if not is_url(self.path) and os.path.isdir(self.path):
            folders = FolderTree(self.path, self.columns.access).folders(Account())
            names = [join_names(folder, name) for folder, files in folders for name in files]
        return list_table_files(self.path, kind, names)

    def open_file(self, path: str) -> ArrowTable:
        return open_table(path, self.kind)

    def open_cells(self) -> ArrowCells:
        return ArrowCells(self.layout(), self.open_file)

    def _check_columns(self, file: TableFile, names: list[str], layout: TableLayout) -> None:
        # Layouts hold for all files, so each needs the columns that are written.
        missing = [column.name for column in layout.found if column.role != "not written" and column.name not in names]
        if missing:
            raise ConfigError(
                f"the column {missing[0]!r}, which another file has, is missing; found {', '.join(names)}",
                at=file.path,
                hint="import files with other columns one by one, then: energon merge",
            )
