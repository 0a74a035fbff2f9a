"""Choose the tables whose rows are the samples, among those that name files of the tree."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np

from ...arrays import IntArray, union
from ..tables.split_names import is_of_several_splits, name_without_split, split_of_folder, splits_of_files
from .references import Reference, Table, say_the_same

_MIN_SHARE = 0.9  # of the files that the largest tables name, so that the number of columns decides


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfTable:
    """A table whose rows name files.

    Attributes:
        inside: List in a document; see :func:`.lists_in`.
        places: The columns that name files.
        form: How they name most files: what weaker names would find are other files, instead of missing ones.
        is_of_media: They name pictures, sounds or videos, and no texts.
        kind: Kind of the annotations in a document that a source of its own reads.
        joins: The rows add parts to samples: of the ``"file"`` that they name, of a ``"folder"``, or of the row of
            another table with the same ``"key"``.
        key: Column with the key or the folder, and the column of the other table.
        others: Files that are read with the table.
        through: The other table, if that joins rows itself; else the tables that name files have the key.
        is_again: A row whose file another table names says the same again.
    """

    file: str
    inside: str = "data"
    places: tuple[str, ...] = ()
    form: int | None = None
    is_of_media: bool = False
    kind: str = ""
    joins: Literal["", "file", "folder", "key"] = ""
    key: tuple[str, str] = ("", "")
    through: str = ""
    others: tuple[str, ...] = ()
    is_again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRows:
    """The tables whose rows are samples, or parts of them, and the files that they name.

    Attributes:
        rows: Tables that are named after split parts come first, tables that join other rows last.
        named: Numbers of all files that are named, ascending.
        lists: Tables that only list names.
    """

    rows: tuple[RowsOfTable, ...] = ()
    named: IntArray = field(default_factory=lambda: union(()))
    lists: tuple[RowsOfTable, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the tables, those that only list names last."""
        tables = (*self.rows, *self.lists)
        return tuple(dict.fromkeys(file for table in tables for file in (table.file, *table.others)))

    @property
    def splits(self) -> dict[str, str]:
        """The split part that the name of each table gives; an empty text for none."""
        return splits_of_files(self.files)

    @property
    def split_lists(self) -> list[tuple[str, RowsOfTable]]:
        """Split parts and the lists that tell them, if these and the tables of samples are named after two or more."""
        splits = self.splits
        lists = [(split_of_folder(each.inside) or splits[each.file], each) for each in self.lists]
        named = {splits[table.file] for table in self.rows if not table.joins}.union(split for split, _ in lists)
        return [pair for pair in lists if pair[0] and len(named - {""}) > 1]


def rows_of(references: Sequence[Reference]) -> NamedRows:
    """Return what becomes of the tables of references."""
    # A mere list in a document of rows has rows, too: the pictures without labels of a test.
    documents = {table.file for each in references if not each.is_list for table in each.tables}
    lists = [each for each in references if each.is_list and documents.isdisjoint(table.file for table in each.tables)]
    # Tables with the same columns may say other things of the same files, each of an annotator or a class.
    again = set[int]()
    alike = [_clusters(each, again) for each in references if each not in lists]
    apart = {each for _, *others in alike for each in others}
    # The tables that name most files have the samples; of equal ones, those whose values are stronger names.
    tables = [each for clusters in alike for each in clusters]
    most = max((len(each.named) for each in tables), default=0)
    ranked = sorted(
        tables,
        key=lambda each: (
            each.has_groups,
            len(each.named) < _MIN_SHARE * most,
            not each.tables[0].kind,
            each.has_repeats,  # such as a row for each box
            -len(each.named) // 10 if len(each.named) < _MIN_SHARE * most else 0,
            not each.has_texts,
            -len(each.columns),
            each.form,
        ),
    )
    others = next((clusters for clusters in alike if ranked[0] in clusters), ())
    rows: dict[tuple[str, str], RowsOfTable] = {}
    named_after = list[RowsOfTable]()
    before = list[IntArray]()
    read = [each.named for each in lists]
    for position, reference in enumerate(ranked):
        # Tables that name the same files join the samples; those that add no column are a part of the first one.
        first = ranked[0]
        # Each document of chats or questions has samples of its own.
        are_chats = bool(first.tables[0].kind) and reference.tables[0].kind in ("conversations", "vqa")
        shared = np.isin(reference.named, first.named).sum()
        joins = reference.has_groups or (position > 0 and not are_chats and 2 * shared >= len(reference.named))
        is_known = reference.has_header and reference.columns <= first.columns
        is_answers = first.tables[0].kind == "vqa" and "question_id" in reference.columns
        if joins and (is_answers or (is_known and not reference.tables[0].kind and reference not in apart)):
            lists.append(reference)
            read.append(reference.named)
            continue
        said = list[IntArray]()
        for table in sorted(reference.tables, key=lambda table: is_of_several_splits(table.file)):
            # Of several documents that name the same files, the first one has the samples.
            of_table = table.named(reference.places, reference.weakest_form)
            is_again = table.kind == "coco" and 2 * np.isin(of_table, union(before)).sum() >= len(of_table)
            before.append(of_table)
            # A document of annotations is read once: what its other lists name is not read.
            known = (table.file, "" if table.kind else table.inside)
            if known in rows:
                continue
            places = (*reference.places,)
            read.append(of_table)
            is_said = is_of_several_splits(table.file) and bool(np.isin(of_table, union(said)).all())
            said.append(of_table)
            larger = [each for each in reference.tables if each.rows > table.rows] if are_chats else ()
            if (joins and is_said) or any(_repeats(table, each, places) for each in larger):  # such as one of each part
                lists.append(replace(reference, tables=[table]))
                continue
            rows[known] = RowsOfTable(
                file=table.file,
                inside=table.inside,
                places=places,
                form=reference.weakest_form,
                is_of_media=reference.is_of_media,
                kind=table.kind,
                joins="file" if joins or is_again else "",
                others=table.others,
                is_again=id(table) in again,
            )
            # Of several that are alike, no one has the values of the samples: these are named after the table, too.
            if reference is first and not is_said and not _is_plain(first, others):
                named_after.append(replace(rows[known], joins="file"))
    splits = splits_of_files({table.file for table in rows.values()})
    return NamedRows(
        rows=tuple(
            sorted(
                [*rows.values(), *named_after],
                key=lambda table: (
                    bool(table.joins),
                    not splits[table.file],
                    table.is_again,
                    is_of_several_splits(table.file),
                ),
            )
        ),
        named=union(read),
        lists=tuple(RowsOfTable(file=table.file, inside=table.inside) for each in lists for table in each.tables),
    )


def _clusters(reference: Reference, again: set[int]) -> list[Reference]:
    """Return the tables of a reference apart that say other things of the same files; names of split parts count not.

    The first ones also have the tables that name other files, or say the same again.

    Args:
        again: Gets the identities of tables that say the same again.
    """
    # Tables that differ in the split part of their names belong together.
    groups: dict[str, list[Table]] = {}
    for table in reference.tables:
        groups.setdefault(name_without_split(table.file), []).append(table)
    if len(groups) < 2 or reference.tables[0].kind or reference.has_groups:
        return [reference]
    splits = splits_of_files({table.file for table in reference.tables})
    made = [*map(reference.of_tables, groups.values())]
    most = max(len(each.named) for each in made)
    made.sort(
        key=lambda each: (
            -len({splits[table.file] for table in each.tables}),
            len(each.named) < _MIN_SHARE * most,
            len(_name(each)),
            _name(each),
        )
    )
    # Compare those that name the same files.
    first, apart = [*made[0].tables], list[Reference]()
    is_named = np.zeros(1 + int(reference.named.max(initial=0)), bool)
    is_named[made[0].named] = True
    for each in made[1:]:
        is_again = 0 < len(each.named) <= 2 * is_named[each.named].sum()
        if is_again and not say_the_same(first, each.tables, reference.places):
            apart.append(each)
            continue
        first += each.tables
        is_named[each.named] = True
        again.update(map(id, each.tables if is_again else ()))
    return [reference.of_tables(first), *apart]


def _repeats(table: Table, other: Table, places: Sequence[str]) -> bool:
    """Return True if all rows of a table of chats are rows of another one."""
    is_inside = bool(np.isin(table.named(places), other.named(places)).all())
    if not is_inside or table.files_of_rows is None or other.files_of_rows is None:
        return False
    rows = {msgspec.json.encode(values) for _, values in table.files_of_rows(places)}
    return bool(rows) and not rows.difference(msgspec.json.encode(values) for _, values in other.files_of_rows(places))


def _name(reference: Reference) -> str:
    """Return what precedes the extension in the name of the first table, without its split part."""
    return posixpath.splitext(name_without_split(reference.tables[0].file))[0].rstrip("-_.")


def _is_plain(first: Reference, others: Sequence[Reference]) -> bool:
    """Return True unless others, whose names do not begin with the name of the first one, name as many files."""
    peers = [each for each in others if each is not first and len(each.named) >= _MIN_SHARE * len(first.named)]
    return all(_name(each).startswith(_name(first)) for each in peers)
