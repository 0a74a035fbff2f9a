"""The parts that tables add to the samples of a tree, by files, folders or keys, and the splits that lists tell."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...engine import Account
from ...parts.kinds import kind_of_name
from ..layouts.grouping import folders_above
from ..layouts.rows import NamedRows, RowsOfTable
from ..layouts.tree_files import TreeFiles
from ..rows.row import AnnotationRef, PartRef, ValueRef, unique_part
from ..tables.named_files import part_name_of_column, split_name
from ..tables.part_values import encode_json, value_ref
from ..tables.records import INTEGER, NUMBER
from ..tables.source_options import SourceOptions
from ..tables.split_names import is_of_several_splits, subset_of_file
from .source import Listing
from .table_files import TableFiles
from .tree_tables import first_files, open_rows, open_table


class JoinedRows:
    """The parts that tables of a tree add to samples, and the split parts of the files that lists name."""

    def __init__(
        self,
        files: TreeFiles,
        rows: NamedRows,
        options: SourceOptions,
        listing: Listing,
        classes: Collection[str] = (),
    ) -> None:
        self._classes = classes  # which rows may name
        self.class_of: dict[str, str] = {}  # by the names of files
        self._files = files
        self._rows = rows
        self._options = options
        self._listing = listing
        self._parts: dict[str, dict[str, PartRef]] = {}  # by the names of files, and of folders with a slash
        self._splits: dict[str, str] = {}

    def collect(self) -> set[str]:
        """Read the tables that join samples, and the lists; return their names."""
        tables = [table for table in self._rows.rows if table.joins]
        for table in tables:
            self._join(table)
        # The first list that names a file counts.
        for split, each in sorted(self._rows.split_lists, key=lambda pair: is_of_several_splits(pair[1].file)):
            files, rows = open_table(self._files, each.file, self._options, self._listing.scratch, each.inside)
            for values in rows.records():
                for file in first_files(files, values, [*values]):
                    self._splits.setdefault(file, split)
        return {table.file for table in tables}

    def parts_of(self, name: str) -> dict[str, PartRef]:
        """Return the parts that tables add to the sample of a file."""
        parts = dict(self._parts.get(name, {}))
        for folder in folders_above(name) if self._parts else ():
            parts |= self._parts.get(f"{folder}/", {})
        return parts

    def split_of(self, names: Iterable[str]) -> str:
        """Return the split part in which a list has the files of a sample; an empty text for none."""
        return next((self._splits[name] for name in names if name in self._splits), "")

    def _join(self, rows: RowsOfTable) -> None:
        # The name of the table begins the names of its parts, without the folder and the split part that it names.
        files, source, table = open_rows(self._files, rows, self._options, self._listing.scratch)
        is_whole = bool(rows.kind) or rows.inside in ("", "data", "{}")
        folder, name, _ = split_name(rows.file)
        name = name.removeprefix(posixpath.basename(folder)).lstrip("_-.") or name  # sub-01/sub-01_sessions.tsv
        stem = name if is_whole else rows.inside
        plain = stem.replace(subset_of_file(rows.file), "")
        begin = part_name_of_column(stem if not plain or subset_of_file(plain) else plain)
        if rows.kind:
            for row in source.rows(replace(self._listing, shuffled=True, account=Account())):
                for name, part in row.parts.items():
                    if isinstance(part, ValueRef):
                        self._add(files.last, f"{begin}.{name}", part)
                files.last = ""
            return
        # Collect the records of each file or folder: a list, if any of them has several.
        records: dict[str, list[dict[str, object]]] = {}
        targets = self._targets(rows, files)
        for values in table.records():
            texts = (text for text in values.values() if self._classes and isinstance(text, str))
            known = next((text for text in texts if text in self._classes), "")
            for target in targets(values):
                records.setdefault(target, []).append(dict(values))
                self.class_of |= {target: known} if known else {}
        are_single = all(len(of_target) == 1 for of_target in records.values())
        # Annotations of pictures become objects; a reader converts the numbers of these.
        reader = table.reader_of_rows(self._listing.notes, f"{begin}.json") if are_single else ""
        if not reader:
            _convert_numbers([values for of_target in records.values() for values in of_target])
        for target, of_target in records.items():
            part = value_ref(encode_json(of_target[0] if are_single else of_target))
            is_read = reader and kind_of_name(target) == "image"
            self._add(target, f"{begin}.json", AnnotationRef(part, reader) if is_read else part)

    def _add(self, target: str, name: str, part: PartRef) -> None:
        parts = self._parts.setdefault(target, {})
        parts[unique_part(name, parts)] = part

    def _targets(self, rows: RowsOfTable, files: TableFiles) -> Callable[[Mapping[str, object]], Iterable[str]]:
        """Return the function that returns the files, or folders, which a row of a table joins."""
        if rows.joins == "folder":
            return lambda values: self._files.folders_of(str(values.get(rows.key[0])), rows.file)
        if rows.joins in ("", "file"):
            count = None if rows.joins and rows.places == ("value",) else 1  # all files of a group
            return lambda values: first_files(files, values, rows.places, count)
        # Find the files of each key in the tables that name them, or that join them.
        of_key: dict[str, list[str]] = {}
        are_samples = not all(main.joins for main in self._rows.rows)
        for main in self._rows.rows:
            is_main = main.joins == ("" if are_samples else "file") and not main.kind
            if main.file == rows.through if rows.through else is_main:
                named, _, table = open_rows(self._files, main, self._options, self._listing.scratch)
                targets = self._targets(main, named)
                for values in table.records():
                    of_key.setdefault(str(values.get(rows.key[1])), []).extend(targets(values))
        return lambda values: of_key.get(str(values.get(rows.key[0])), ())


def _convert_numbers(records: Sequence[dict[str, object]]) -> None:
    """Convert the texts of columns that have numbers only, as in the tables whose rows are samples."""
    for column in dict.fromkeys(name for values in records for name in values):
        texts = [text for values in records if (text := values.get(column)) is not None]
        for kind, pattern in ((int, INTEGER), (float, NUMBER)):
            if all(isinstance(text, str) and pattern.fullmatch(text) for text in texts):
                for values in records:
                    if isinstance(text := values.get(column), str):
                        values[column] = kind(text)
                break
