"""Sort the files of a tree by what their names say, and find which files their contents name; nothing is decided."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Protocol, get_args

from ...cached_property import cached_property
from ...errors import ConfigError
from ...parts.kinds import PartKind, kind_of_name
from ..annotations.json_elements import LINE_ENDINGS
from ..file_trees.file_names import (
    BARE,
    BINARY_TABLES,
    DOCUMENTS,
    Role,
    are_media,
    is_about,
    join_names,
    reason_of_name,
    role_of_name,
)
from ..tables.name_index import STEM
from ..tables.named_files import split_name
from ..tables.source_options import SourceOptions
from .alternatives import split_tables
from .associated import find_associated
from .joins import classes_of, may_say_more, with_joins
from .references import Reference, Table, find_references
from .rows import NamedRows, rows_of
from .tree_files import TreeFiles, kind_of_extension

_MAX_READ = 1000  # documents that are searched for references; of more, about as many are drawn
_MIN_READ = 10  # documents of a folder and extension, at least
_MAX_STRAYS = 0.1  # of the files, of a kind that nothing is known of
_SERIES = 3  # files whose names differ by a number


class Reader(Protocol):
    """Reads the tables and documents of a tree."""

    @property
    def faults(self) -> Mapping[str, str]:
        """Name of a damaged file → why it cannot be read."""

    def tables(self, files: TreeFiles, names: Iterable[str], *, are_whole: bool = False) -> Iterator[Table]:
        """Yield the tables and lists in some files, with the ones of ``files`` that their values name.

        Of files that are far away, the beginnings may be enough, unless ``are_whole``.
        """

    def fetch(self, names: Sequence[str]) -> None:
        """Copy files that are read soon, if they are far away."""

    def kind_of_list(self, name: str) -> str:
        """Return the kind of the objects that a document has several of; an empty text for other documents."""

    def mentions_files(self, name: str) -> bool:
        """Return True if half of the lines of a text have a word that names a file, in whatever form."""

    def members(self, tars: Sequence[str]) -> TreeFiles:
        """Return the members of tars."""

    def columns_of(self, name: str) -> frozenset[str]:
        """Return the columns of a table, or of its first row."""


class Survey:
    """The files of a tree by role, and the references among them.

    Args:
        reader: Reads the tables and documents.

    Attributes:
        roles: Role → names of files. A table or document that shares its name with data is data, too.
        associated: Path of a recording without its extension → name of a part → file; these files have no role.
    """

    def __init__(self, files: TreeFiles, options: SourceOptions, reader: Reader) -> None:
        self.files = files
        self.options = options
        self._reader = reader
        self._mentions_files = cache(reader.mentions_files)  # each hypothesis asks
        self.left = set[str]()
        self.roles: dict[Role, list[str]] = {role: [] for role in get_args(Role)}
        for folder, start, stop in files.folders:
            paths = files.names[start:stop]
            last = [path.rpartition("/")[2] for path in paths]
            if are_media(last):  # as in most folders
                self.roles["data"] += paths
                continue
            of_folder = {name: role_of_name(name) for name in last}
            stems = {split_name(name)[1] for name, role in of_folder.items() if role == "data"}
            stems.update(name for name, role in of_folder.items() if role == "data")
            begins = {name.partition(".")[0] for name, role in of_folder.items() if role == "data"}
            # b.json and b.seg.json belong to b.jpg, and b.jpg.json, too; others of their series have no data any more.
            texts = [name for name, role in of_folder.items() if role in ("table", "document")]
            texts = [name for name in texts if not name.lower().endswith(BINARY_TABLES)]
            parts = {
                name
                for name in texts
                if (stem := split_name(name)[1]) in stems or stem in begins or name.partition(".")[0] in stems
            }
            if others := [name for name in texts if name not in parts]:
                series = _series_of(parts)
                parts.update(name for name in others if _without_number(name) in series)
            for name, role in of_folder.items():
                self.roles["data" if name in parts else role].append(join_names(folder, name))
        self.roles["bare"] = [*_drawn(sorted(files.tree.bare))]
        self.associated: dict[str, dict[str, str]] = {}
        self._move_strays()

    def associate(self) -> None:
        """Remove the files about recordings, which are parts of samples, from the roles."""
        folders = [folder for folder, _, _ in self.files.folders]
        self.associated, alone = find_associated(folders, self.files.names)
        taken = {name for parts in self.associated.values() for name in parts.values()}
        if taken or alone:
            self.roles = {role: [n for n in names if n not in {*taken, *alone}] for role, names in self.roles.items()}
            self.roles["data"] = sorted([*self.roles["data"], *alone])

    @cached_property
    def _data(self) -> frozenset[str]:
        return frozenset(self.roles["data"])

    @cached_property
    def tables(self) -> list[Table]:
        """The tables, and the lists in documents, that may say something about other files, and that count."""
        pattern = self.options.split_lists
        if pattern is None:
            return self._all_tables
        of_splits = {table.file for table in split_tables(find_references(self._all_tables, self.files))}
        self.left.update(file for file in of_splits if not fnmatchcase(file, pattern))
        if len(self.left) == len(of_splits):
            raise ConfigError(
                f"--split-lists {pattern}: no table or list that is named after a split part has such a name",
                at=self.files.tree.path,
                hint="write it in quotes, as a path in the folder with * for any text: 'lists/*1.txt'",
            )
        return [table for table in self._all_tables if table.file not in self.left]

    @cached_property
    def _all_tables(self) -> list[Table]:
        if not (self.roles["data"] or self.roles["tar"] or self.roles["archive"]):
            return []
        documents = [n for n in self.roles["document"] if _is_searched(n) and not self.is_sidecar(n)]
        tars = {stem_of_tar(name) for name in self.roles["tar"]}
        tables = [name for name in self.roles["table"] if stem_of_tar(name) not in tars]
        # Of many documents, the drawn ones say whether the others are read.
        drawn = {*_drawn(documents)}
        read = self._tables_in(self.files, [*tables, *sorted(drawn), *self.roles["bare"]])
        if len(drawn) < len(documents) and any(
            column.names_files for table in read if table.file in drawn for column in table.columns
        ):
            read += self._tables_in(self.files, [name for name in documents if name not in drawn], read)
        return read

    def _tables_in(self, files: TreeFiles, names: Sequence[str], known: Sequence[Table] = ()) -> list[Table]:
        """Return the tables in some files; those are read whole whose beginnings may have to do with other tables."""
        read = [*self._reader.tables(files, names)]
        while more := {each.file for each in read if each.share < 1 and may_say_more(each, [*known, *read], files)}:
            whole = self._reader.tables(files, [name for name in names if name in more], are_whole=True)
            read = [*(each for each in read if each.file not in more), *whole]
            read.sort(key=lambda each: names.index(each.file))
        return read

    @cached_property
    def _tables_of(self) -> dict[str, list[Table]]:
        tables: dict[str, list[Table]] = {}
        for table in self.tables:
            tables.setdefault(table.file, []).append(table)
        return tables

    @cached_property
    def references(self) -> list[Reference]:
        return find_references(self.tables, self.files)

    @cached_property
    def rows(self) -> NamedRows:
        references = [each for each in self.references if each.tables[0].kind != "interleaved"]
        return with_joins(rows_of(references), self.tables, references, self.files)

    @cached_property
    def classes(self) -> frozenset[str]:
        """The folders that a table names as the classes of files elsewhere."""
        return classes_of(self.references, self.files)

    @cached_property
    def cut_tables(self) -> list[Table]:
        """The tables whose rows name parts of recordings."""
        return [table for each in self.all_references for table in each.tables if table.names_parts(each.places)]

    @property
    def all_references(self) -> list[Reference]:
        """The references to files of the tree, and to members of its tars."""
        return [*self.references, *self._member_references]

    @cached_property
    def members(self) -> TreeFiles | None:
        """The members of the tars, if tables that name no files may be manifests of them."""
        unresolved = [table.file for table in self.tables if not any(column.resolved for column in table.columns)]
        return self._reader.members(self.roles["tar"]) if self.roles["tar"] and unresolved else None

    @cached_property
    def _member_references(self) -> list[Reference]:
        if self.members is None:
            return []
        tables = self._tables_in(self.members, [*dict.fromkeys(table.file for table in self.tables)])
        return find_references(tables, self.members)

    @cached_property
    def member_rows(self) -> NamedRows:
        return rows_of(self._member_references)

    @property
    def damaged(self) -> Mapping[str, str]:
        """Name → why the file cannot be read, of the files that were searched for references."""
        return {name: fault for name, fault in self._reader.faults.items() if not is_about(name.rpartition("/")[2])}

    def is_list(self, name: str) -> bool:
        """Return True for a table, a document with a list of objects, or lines that each begin with another name."""
        if role_of_name(name) == "table":
            return True
        if reason_of_name(name) == BARE:
            names = (table.columns[0] for table in self._tables_of.get(name, ()))
            return any(len(column.unique_hashes()) == column.known > 1 for column in names)
        is_json = name.lower().endswith(".json")
        return is_json and any(table.inside in ("", "data") for table in self._tables_of.get(name, ()))

    def _move_strays(self) -> None:
        """Move few files of an unknown kind, which share their names with no others, to the documents."""
        data, most = self.roles["data"], _MAX_STRAYS * len(self.files.names)
        counts = self.files.counts.items()
        few = {kind for (folder, kind), count in counts if not folder and count <= most and not is_known(kind)}
        if not few:
            return
        known = {split_name(name)[:2] for name in data if kind_of_extension(split_name(name)[2]) not in few}
        strays = [
            name for name in data if kind_of_extension(split_name(name)[2]) in few and split_name(name)[:2] not in known
        ]
        self.roles["document"] += strays
        self.roles["data"] = [name for name in data if name not in {*strays}]

    def names_data(self, name: str) -> bool:
        """Return True if half of the values of a column, or of the lines of a text, have names of files."""
        columns = [column for table in self._tables_of.get(name, ()) for column in table.columns]
        resolved = (column for column in columns if column.names_files)
        if any(min(column.forms) < STEM or len(column.named) >= _SERIES for column in resolved):
            return True
        return bool(columns) and self._mentions_files(name)

    def says_nothing(self, name: str) -> bool:
        """Return True for a table of names with the same values next to each, such as an empty submission."""
        return any(table.says_nothing for table in self._tables_of.get(name, ()))

    def is_of_others(self, name: str) -> bool:
        """Return True for a table with the columns of a table that joins samples by keys, for keys of no sample."""
        joined = {each.file for each in self.rows.rows if each.joins == "key"}
        columns = [{column.name for column in table.columns} for table in self.tables if table.file in joined]
        tables = [{column.name for column in table.columns} for table in self._tables_of.get(name, ())]
        return name not in joined and any(len(each) > 1 and each <= other for each in tables for other in columns)

    def is_sidecar(self, name: str) -> bool:
        """Return True for a text or document whose name without the extension is a name of data of any folder.

        Or of a series with such names: its data may be missing.
        """
        return self.shares_stem(name) or _without_number(name) in self._sidecars

    @cached_property
    def _sidecars(self) -> frozenset[str]:
        return _series_of(filter(self.shares_stem, self.roles["document"]))

    def shares_stem(self, name: str) -> bool:
        """Return True for a file whose name without the extension is a name of data of any folder."""
        stem, index = split_name(name)[1], self.files.index
        names = (self.files.names[file_number] for file_number in (*index.of_stem(stem), *index.of_name(stem)))
        return any(other in self._data for other in names if other != name)

    @cached_property
    def lists(self) -> list[str]:
        """The documents with several objects, which may be samples without files; drawn ones say if any has."""
        searched = [name for name in self.roles["document"] if _is_searched(name)]
        drawn = {*_drawn(searched)}
        self._reader.fetch([*drawn])
        if any(map(self._reader.kind_of_list, drawn)):
            self._reader.fetch([name for name in searched if name not in drawn])
            return [*filter(self._reader.kind_of_list, searched)]
        return []

    def are_documents(self, tables: Sequence[str]) -> bool:
        """Return True for files of lines that are documents of texts and pictures."""
        return all(
            name.lower().endswith(LINE_ENDINGS) and self._reader.kind_of_list(name) == "interleaved" for name in tables
        )

    def alike(self, tables: Sequence[str]) -> list[list[str]]:
        """Group tables: at least half of the columns are in the first table of the group, too."""
        groups: list[tuple[frozenset[str], list[str]]] = []
        for name in tables:
            columns = self._columns_of(name)
            same = (group for of, group in groups if 2 * len(of & columns) >= min(len(of), len(columns)))
            group = next(same, None)
            if group is None:
                groups.append((columns, group := []))
            group.append(name)
        return [group for _, group in groups]

    def kind_of(self, name: str) -> str:
        """Return the kind of the annotations in a document that was read; an empty text for others."""
        return next((table.kind for table in self._tables_of.get(name, ()) if table.kind), "")

    def _columns_of(self, name: str) -> frozenset[str]:
        known = self._tables_of.get(name)
        return frozenset(column.name for column in known[0].columns) if known else self._reader.columns_of(name)

    def is_of_series(self, name: str) -> bool:
        """Return True for a document with others in its folder whose names differ by a number only."""
        return self._series[_without_number(name)] >= _SERIES

    @cached_property
    def _series(self) -> Counter[str]:
        return Counter(_without_number(name) for role in ("table", "document") for name in self.roles[role])

    def rows_in(self, name: str) -> int:
        """Return the number of rows of a table or document that was read; 0 for others."""
        return max((table.rows for table in self._tables_of.get(name, ())), default=0)


def is_known(kind: str) -> bool:
    """Return True for a kind of files that samples have, and not an extension that nothing is known of."""
    return kind in get_args(PartKind) or kind_of_name(kind) != "bytes" or role_of_name(f"x.{kind}") != "data"


def is_series(names: Iterable[str]) -> bool:
    """Return True if several names differ by a number only, as photographs do, and figures do not."""
    return max(Counter(map(_without_number, names)).values(), default=0) >= _SERIES


def _series_of(names: Iterable[str]) -> frozenset[str]:
    """Return what the names of two files or more have in common but for their numbers."""
    counts = Counter(map(_without_number, names))
    return frozenset(name for name, count in counts.items() if count > 1)


def _without_number(name: str) -> str:
    folder, stem, extension = split_name(name)
    return re.sub("[0-9]+", "0", f"{folder}/{stem}.{extension}") if re.search("[0-9]", stem) else name


def _is_searched(name: str) -> bool:
    return name.rpartition(".")[2].lower() in DOCUMENTS


def stem_of_tar(name: str) -> str:
    """Return the path of a file up to the first dot of its name, by which tables and statistics belong to tars."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def _drawn(names: Sequence[str]) -> Iterator[str]:
    """Yield documents; of many, evenly drawn ones of each folder and extension."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        folder, _, extension = split_name(name)
        groups.setdefault((folder, extension), []).append(name)
    for group in groups.values():
        yield from group[:: -(-len(group) // max(_MIN_READ, _MAX_READ * len(group) // len(names)))]
