"""Find the references of a tree: the columns of tables and the values of documents that name its files."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...arrays import IntArray, union
from ..tables.columns import BEGIN_NAMES, TableColumn
from ..tables.name_index import NUMBER, STEM
from ..tables.split_names import splits_of_files
from .tree_files import TreeFiles

_NEAR = 0.9  # of the score of the best column, so that another one is as good
_MIN_FILES, _MIN_SHARE = 2, 0.1  # that are named in a weaker form, which is no accident
_MIN_EQUAL = 0.98  # of the rows, so that a table says nothing else than another one
_ODD = 0x9E3779B1  # a factor that mixes two hashes
_MIN_CONSTANT = 3  # rows with the same values that describe nothing, as those of an empty submission


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table, or a list of objects in a document, whose values were compared with the names of the tree.

    Attributes:
        file: Name of the file in the tree.
        inside: List in a document; see :func:`.lists_in`.
        kind: Kind of the annotations in a file of JSON that a source of its own reads; empty for others.
        files_of_rows: Yields the first file that each row names, and the values of the row.
        others: Files that are read with it.
        share: Share of its bytes that was read: 1, unless it is far away and its beginning names nothing.
    """

    file: str
    columns: Sequence[TableColumn]
    inside: str = "data"
    kind: str = ""
    files_of_rows: Callable[[Sequence[str]], Iterator[tuple[str, Mapping[str, object]]]] | None = None
    others: tuple[str, ...] = ()
    share: float = 1.0

    @property
    def part_columns(self) -> list[str]:
        """Names of the columns that say where in a file a part of it begins."""
        return [column.name for column in self.columns if column.plain_name in BEGIN_NAMES and column.type != "text"]

    def names_parts(self, places: Sequence[str]) -> bool:
        """Return True if several rows name parts of one file: their columns tell different begins."""
        columns = self.part_columns
        if not columns or self.files_of_rows is None or self.rows <= len(self.named(places)):
            return False
        begins: dict[str, object] = {}
        pairs = ((file, [values.get(name) for name in columns]) for file, values in self.files_of_rows(places))
        return any(begins.setdefault(file, begin) != begin for file, begin in pairs)

    @property
    def rows(self) -> int:
        """Number of rows; as many as there may be, if a part of them was read."""
        return round(max((column.rows for column in self.columns), default=0) / self.share)

    @property
    def says_nothing(self) -> bool:
        """True for a table of names whose other columns never vary, such as an empty submission."""
        rest = [column for column in self.columns if not column.resolved]
        return len(rest) < len(self.columns) and _say_nothing(rest)

    def named(self, places: Iterable[str], weakest_form: int = NUMBER) -> IntArray:
        """Return the numbers of the files that columns name, ascending.

        Args:
            weakest_form: What weaker names would find are other files; but those without a path and an extension.
        """
        return union(self.column(name).named_by(weakest_form) for name in places)

    def column(self, name: str) -> TableColumn:
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Tables with the same columns, which name files of the tree.

    Attributes:
        places: The columns that name files; the first one names the samples.
        form: How most values name them, one of :data:`.FORMS`.
        weakest_form: The weakest form that counts; weaker names would find other files.
        named: Numbers of the files, ascending.
        unclear: Another column that names files as well, but other ones for the rows.
    """

    tables: Sequence[Table]
    places: Sequence[str]
    form: int
    weakest_form: int
    named: IntArray
    unclear: str = ""
    is_of_media: bool = False

    @property
    def is_list(self) -> bool:
        """True for mere lists of names, which say nothing about the files but that they belong together."""
        columns = self.tables[0].columns
        return len(columns) == 1 and columns[0].type != "nested"

    @property
    def has_groups(self) -> bool:
        """True if fields of an object, such as the names of classes, have lists of files and nothing else."""
        table = self.tables[0]
        is_field = table.inside.endswith("{}") and self.columns <= {"key", "value"}
        return is_field and self.places == ["value"] and table.column("value").most_files > 1

    @property
    def has_repeats(self) -> bool:
        """True if a table has several rows for a file."""
        columns = [table.column(self.places[0]) for table in self.tables]
        return any(len(column.order) > len(column.named) for column in columns)

    @property
    def has_texts(self) -> bool:
        """True if there is a column of texts that vary, besides those that name files and URLs."""
        others = (column for column in self.tables[0].columns if column.name not in self.places)
        return any(column.type == "text" and not column.is_constant and not column.links for column in others)

    @property
    def has_header(self) -> bool:
        """True if the columns have names, and not only numbers."""
        return not any(re.fullmatch("column_[0-9]+", column.name) for column in self.tables[0].columns)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(column.name for column in self.tables[0].columns)

    def of_tables(self, tables: Sequence[Table]) -> Reference:
        """Return the reference of some of the tables, with the files that these name."""
        named = union(table.named(self.places, self.weakest_form) for table in tables)
        return replace(self, tables=tables, named=named)


def find_references(tables: Iterable[Table], files: TreeFiles) -> list[Reference]:
    """Return the references of tables; tables with the same columns count together."""
    groups: dict[tuple[str, ...], list[Table]] = {}
    tables = [*tables]
    resolved = [table for table in tables if any(column.resolved for column in table.columns)]
    splits = splits_of_files({table.file for table in resolved})
    for table in resolved:
        groups.setdefault(_group_of(table), []).append(table)
    # A table with the name and columns of others has lost its files, instead of being about the data.
    names = {(posixpath.basename(table.file), _group_of(table)) for table in resolved}
    known = {*map(id, resolved)}
    for table in tables:
        if id(table) not in known and (posixpath.basename(table.file), _group_of(table)) in names:
            groups[_group_of(table)].append(table)
    references = list[Reference]()
    for (kind, *columns), group in groups.items():
        # The tables of a test part may lack the column of labels.
        wider = [key for key in groups if key[0] == kind and {*columns} < {*key[1:]}]
        reference = _reference(group, [table for key in wider for table in groups[key]], files, splits)
        references += [] if reference is None else [reference]
    # A table whose other columns never vary says nothing, if another one of the same candidate does.
    void = {
        id(table) for each in references for table in each.tables if any(_is_void(table, each, o) for o in references)
    }
    kept = [[table for table in each.tables if id(table) not in void] for each in references]
    return [each.of_tables(tables) for each, tables in zip(references, kept, strict=True) if tables]


def _group_of(table: Table) -> tuple[str, ...]:
    return (table.kind, *(column.name for column in table.columns))


def say_the_same(tables: Sequence[Table], others: Sequence[Table], places: Sequence[str]) -> bool:
    """Return True if nearly all rows of other tables repeat the values that rows with the same names have."""
    shares = list[float]()
    for column in (column.name for column in others[0].columns if column.name not in places):
        (names, pairs), (other_names, other_pairs) = (
            _named_values(each, places[0], column) for each in (tables, others)
        )
        shared = np.isin(other_names, names)
        shares += [float(np.isin(other_pairs[shared], pairs).mean())] if shared.any() else []
    return bool(shares) and min(shares) >= _MIN_EQUAL


def _named_values(tables: Sequence[Table], key: str, column: str) -> tuple[IntArray, IntArray]:
    """Return the hashes of the names of the rows, and of these with the values of a column, where each row has both."""
    both = [(table.column(key).row_hashes, table.column(column).row_hashes) for table in tables]
    both = [(names, values) for names, values in both if len(names) == len(values)]
    names, values = (
        np.concatenate([np.zeros(0, np.int64), *each]) for each in (zip(*both, strict=True) if both else ((), ()))
    )
    return names, names * _ODD + values


@dataclass(slots=True)
class _Place:
    name: str
    form: int
    score: float
    named: IntArray


def _reference(
    tables: Sequence[Table], wider: Sequence[Table], files: TreeFiles, splits: Mapping[str, str]
) -> Reference | None:
    places = [
        candidate
        for column in tables[0].columns
        if (candidate := _place(column.name, tables, wider, files, splits)) is not None
    ]
    # The strongest form decides, then the share of values that are names, and of files that are named.
    places.sort(key=lambda candidate: (candidate.form, -candidate.score))
    if not places:
        return None
    main, named = places[0], places[0].named
    chosen = [main.name]
    # Others that name files of their own are further parts of the row; two that name the same differently are unclear.
    unclear = ""
    for candidate in places[1:]:
        if candidate.form < STEM and not np.isin(candidate.named, named).any():
            chosen.append(candidate.name)
            named = union((named, candidate.named))
        elif (
            candidate.form == main.form
            and candidate.score >= _NEAR * main.score
            and _order(candidate, tables) != _order(main, tables)
        ):
            unclear = candidate.name
    is_of_media = 2 * files.media_in(named) > len(named)
    weakest = max(main.form, *(_weakest_form([table.column(name) for table in tables]) for name in chosen))
    return Reference(tables, chosen, main.form, weakest, named, unclear, is_of_media)


def _weakest_form(columns: Sequence[TableColumn]) -> int:
    """Return the weakest form that names two files or more, and a tenth of all, that no value names in a stronger one.

    What weaker names would find are other files, which have the same last name.
    """
    files = np.concatenate([np.array(column.order, np.int64) for column in columns])
    forms = np.concatenate([np.array(column.order_forms, np.int64) for column in columns])
    order = np.lexsort((forms, files))
    _, firsts = np.unique(files[order], return_index=True)
    counts = np.bincount(forms[order][firsts])
    enough = np.flatnonzero(counts >= max(_MIN_FILES, _MIN_SHARE * len(firsts)))
    return int(enough[-1]) if len(enough) else 0


def _order(candidate: _Place, tables: Sequence[Table]) -> list[array[int]]:
    return [table.column(candidate.name).order for table in tables]


def _place(
    name: str, tables: Sequence[Table], wider: Sequence[Table], files: TreeFiles, splits: Mapping[str, str]
) -> _Place | None:
    """Return a column as a candidate; None if less than half of its values, or of the files of a kind, are named.

    Args:
        wider: Tables that have further columns, too; the files that they name count together with these.
    """
    columns = [table.column(name) for table in tables]
    known, resolved = sum(column.followed for column in columns), sum(column.resolved for column in columns)
    if not resolved or (2 * resolved < known and not tables[0].kind):
        return None
    named = union(column.named for column in columns)
    form = sum((column.forms for column in columns), Counter[int]()).most_common(1)[0][0]
    together = union((named, *(table.column(name).named for table in wider)))
    cover = files.cover(together, needs_several=form in (STEM, NUMBER)) if len(named) else 1.0
    # Lists of the files of split parts name few of them.
    if cover is None and form < NUMBER and len(tables[0].columns) == 1:
        cover = 0.0 if all(splits[table.file] for table in tables) else None
    if cover is None:
        return None
    return _Place(name, form, cover * resolved / known, named)


def _say_nothing(columns: Sequence[TableColumn]) -> bool:
    """Return True for columns that never vary."""
    return bool(columns) and all(column.is_constant and column.rows >= _MIN_CONSTANT for column in columns)


def _is_void(table: Table, reference: Reference, other: Reference) -> bool:
    if reference.places[0] not in other.places:
        return False
    rest = [column for column in table.columns if column.name not in reference.places]
    if not _say_nothing(rest):
        return False
    named = table.named(reference.places)
    varying = (each for each in other.tables if not np.isin(each.named(other.places), named).all())
    return any(not column.is_constant for each in varying for column in each.columns if column.name not in other.places)
