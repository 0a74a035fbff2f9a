"""Find the tables that say more about samples: by the keys of a table that names files, or by the names of folders."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ...arrays import IntArray
from ..tables.columns import TableColumn
from ..tables.name_index import STEM
from ..tables.split_names import is_split_name
from .references import Reference, Table
from .rows import NamedRows, RowsOfTable
from .tree_files import TreeFiles

_MAX_COMPARED = 1000  # files whose folders are compared with classes
_MIN_CLASSES = 0.98  # of the values of a column, that are names of folders
_MIN_SHARE = 0.5  # of the values of a column that are keys of the other table, and of its keys


def with_joins(
    rows: NamedRows, tables: Iterable[Table], references: Sequence[Reference], files: TreeFiles
) -> NamedRows:
    """Add the tables that join the samples by keys or folders."""
    used = {(table.file, table.inside) for reference in references for table in reference.tables}
    others = [table for table in tables if (table.file, table.inside) not in used and not table.kind]
    others = [table for table in others if len(table.columns) > 1]  # a mere list adds nothing
    joins = list[RowsOfTable]()
    # Tables may join by the keys of those that join before: genders of speakers, and speakers of recordings.
    keyed = list[Reference]()
    waiting = []
    for table in others:
        # It may name a few of the files that the rows have, or their keys, or folders.
        # Numbers and ids that are names of a few files may be those of other things.
        places = [
            column.name
            for column in table.columns
            if column.names_files
            and (min(column.forms) < STEM or any(column.name in each.places for each in references))
        ]
        if places and np.isin(table.named(places[:1]), rows.named).all() and not table.says_nothing:
            joins.append(RowsOfTable(file=table.file, inside=table.inside, places=(places[0],), joins="file"))
        elif table.says_nothing or table.inside.endswith("{}"):
            continue  # an empty submission; or names of classes, and their numbers
        elif (join := join_of(table, references, files)) is not None:
            joins.append(join)
            keyed.append(Reference([table], (), 0, 0, table.named(())))
        else:
            waiting.append(table)
    # A table of a split part may have too few rows to show that it joins as the one of another part.
    known = {posixpath.basename(join.file): join for join in joins if join.key[0]}
    for table in waiting:
        twin = known.get(posixpath.basename(table.file))
        chained = replace(twin, file=table.file) if twin else join_of(table, keyed, files, is_chained=True)
        joins += [] if chained is None else [chained]
    return replace(rows, rows=(*rows.rows, *joins))


def join_of(
    table: Table, references: Iterable[Reference], files: TreeFiles, *, is_chained: bool = False
) -> RowsOfTable | None:
    """Return how the rows of a table join samples; None if they do not.

    A column has keys if half of its values are in a column of a table that names files, and half of the values there
    are among them, or one of both for texts in columns of one name; in one of the two columns, each value comes once. A
    column has names of folders if each comes once, and half of them are, or if texts name all folders in one folder.
    """
    of_folders = files.folder_hashes
    for column in table.columns:
        hashes = column.unique_hashes()
        if not len(hashes):
            continue
        # Compare the values with the keys of tables that name files.
        is_key = len(hashes) == column.known  # each value comes once
        for reference in references:
            for key in reference.tables[0].columns:
                same = column.type == "text" and reference.has_header and column.name == key.name
                if key.name not in reference.places and _matches(
                    hashes, reference.tables, key, is_key=is_key, has_same_name=same
                ):
                    through = reference.tables[0].file if is_chained else ""
                    return RowsOfTable(
                        file=table.file,
                        inside=table.inside,
                        joins="key",
                        key=(column.name, key.name),
                        through=through,
                    )
        # Else they may be names of folders.
        is_split = all(map(is_split_name, column.texts.values or ["-"]))  # whose rows are about files of a part
        if len(hashes) < 2 or not is_key or is_split:
            continue
        if np.isin(hashes, of_folders).mean() >= _MIN_SHARE or (column.type == "text" and files.are_in(hashes)):
            return RowsOfTable(file=table.file, inside=table.inside, joins="folder", key=(column.name, ""))
    return None


def classes_of(references: Iterable[Reference], files: TreeFiles) -> frozenset[str]:
    """Return the names of folders that a column has as the classes of files elsewhere; none without such a column."""
    of_folders = {hash(name): name for folder, _ in files.counts if (name := posixpath.basename(folder))}
    for reference in references:
        for column in (each for each in reference.tables[0].columns if each.name not in reference.places):
            hashes = column.unique_hashes()
            if 1 < len(hashes) < column.known and np.isin(hashes, files.folder_hashes).mean() >= _MIN_CLASSES:
                named = of_folders.keys() & {*hashes.tolist()}
                classes = {of_folders[each] for each in named}
                paths = (files.names[file_number] for file_number in reference.named[:_MAX_COMPARED])
                if not any(classes.intersection(path.split("/")) for path in paths):
                    return frozenset(classes)
    return frozenset()


def may_say_more(table: Table, others: Iterable[Table], files: TreeFiles) -> bool:
    """Return True for a table whose beginning was read, if its other rows may name files, or keys of other tables."""
    if table.kind or any(
        column.resolved or column.is_named_media or not column.known or 2 * column.paths >= column.known
        for column in table.columns
    ):
        return True
    names = [column.name for column in table.columns]
    hashes = {column.name: column.unique_hashes() for column in table.columns}
    if any(np.isin(of_column, files.folder_hashes).any() for of_column in hashes.values()):
        return True
    # Others may have the same columns, or keys: of one name, or so many that half of the values may be among them.
    for other in (each for each in others if each.share == 1):
        if names == [column.name for column in other.columns]:
            return True
        for key in other.columns:
            keys = key.unique_hashes()
            if any(
                (name == key.name or len(keys) >= _MIN_SHARE * len(of_column)) and np.isin(of_column, keys).any()
                for name, of_column in hashes.items()
            ):
                return True
    return False


def _matches(hashes: IntArray, tables: Iterable[Table], key: TableColumn, *, is_key: bool, has_same_name: bool) -> bool:
    columns = [table.column(key.name) for table in tables]
    keys = np.unique(np.concatenate([column.unique_hashes() for column in columns]))
    is_unique = is_key or len(keys) == sum(column.known for column in columns)
    if not is_unique or len(keys) < 2:
        return False
    shared = len(np.intersect1d(hashes, keys, assume_unique=True))
    enough = shared >= _MIN_SHARE * len(hashes), shared >= _MIN_SHARE * len(keys)
    return all(enough) or (has_same_name and any(enough))
