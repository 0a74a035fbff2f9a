"""The tables and documents in a tree: how they are opened, and the files of the tree that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, islice
from typing import Literal

from ...collector import paused_collection
from ...engine.run import Engine, in_order
from ...engine.workers import can_fork, usable_cores
from ...errors import EnergonError, FormatError, StorageError
from ...storage import is_url
from ..annotations.heads import may_have_rows, whole_rows, words_of
from ..annotations.json_elements import LINE_ENDINGS, lists_in, read_elements
from ..annotations.kinds import annotation_kind
from ..annotations.xml_elements import tags_in
from ..file_trees.file_names import BARE, BINARY_TABLES, reason_of_name
from ..file_trees.member_tree import MemberTree
from ..file_trees.tree import FileTree, FolderTree, copy_path
from ..layouts.references import Table
from ..layouts.rows import RowsOfTable
from ..layouts.tree_files import TreeFiles
from ..tables.columns import TableColumn, texts_in
from ..tables.dialect import delimiter_of
from ..tables.kaldi import KALDI_LISTS, KALDI_RECORDINGS
from ..tables.name_index import NUMBER, STEM
from ..tables.named_files import split_extension
from ..tables.source_options import SourceOptions
from ..tables.table_files import EXTENSIONS
from .archives import plain_tar
from .coco import CocoSource
from .conversations import ConversationsSource
from .source import AnnotationSource, ImportSource
from .table_files import TableFiles
from .table_source import ArrowTableSource, TextKind, TextTableSource
from .vqa import VqaSource

_MANY_NAMES = 100  # of files, in the head of a text that is no mere description
_MANY_BYTES = 16 << 20  # of tables, which take longer to read than processes to start
_HEAD_BYTES = 1 << 16  # of a text that may be a table


def open_table(
    tree: TreeFiles, table: str, columns: SourceOptions, scratch: str, inside: str = "data", *, path: str = ""
) -> tuple[TableFiles, TextTableSource | ArrowTableSource]:
    """Return the files that a table in a tree names, and the table, which is copied unless its path is known."""
    files = TableFiles.of(tree, table, columns.access, columns.root)
    path, named = path or tree.tree.local_path(table, scratch), replace(columns, files=files)
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
    elif f"/{table}".endswith(f"/{KALDI_RECORDINGS}"):
        for each in _lists_of_kaldi(tree, table):
            tree.tree.local_path(each, scratch)
        text = "kaldi"
    elif not lower.endswith((".json", *LINE_ENDINGS)):
        with open(path, "rb") as file:
            delimiter = delimiter_of(file.read(_HEAD_BYTES), files.is_name)
        kinds: dict[str, TextKind] = {"": "words", ":": "colons", "\t": "tsv"}
        text = kinds.get(delimiter, "csv")
    return files, TextTableSource(path=path, kind=text, columns=named, inside=inside)


def _lists_of_kaldi(tree: TreeFiles, table: str) -> tuple[str, ...]:
    """Return the lists next to the recordings of Kaldi, that are read with them; none for another table."""
    folder, _, name = f"/{table}".rpartition("/")
    lists = ((f"/{each}".rpartition("/"), each) for each in tree.tree.bare if name == KALDI_RECORDINGS)
    return tuple(each for (above, _, last), each in lists if above == folder and KALDI_LISTS.fullmatch(last))


def open_rows(
    tree: TreeFiles, rows: RowsOfTable, options: SourceOptions, scratch: str
) -> tuple[TableFiles, ImportSource, TextTableSource | ArrowTableSource]:
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
    """Reads the tables and documents of a tree, whose copies go to a folder if the tree is an archive.

    Attributes:
        faults: Name of a damaged file → why it cannot be read.
    """

    files: TreeFiles
    options: SourceOptions
    scratch: str
    shares: dict[str, float] = field(default_factory=dict)  # of files whose beginnings alone are copied
    faults: dict[str, str] = field(default_factory=dict)

    def tables(self, files: TreeFiles, names: Iterable[str], *, are_whole: bool = False) -> Iterator[Table]:
        names = [*names]
        of_kaldi = {each for name in names for each in _lists_of_kaldi(files, name)}
        options, names = replace(self.options, parts={}), [name for name in names if name not in of_kaldi]
        self._fetch(files, names, are_whole=are_whole)
        # Workers share the listing by a fork, and what they find in large tables comes back.
        workers = 1
        if isinstance(files.tree, FolderTree) and sum(map(files.size, names)) > _MANY_BYTES and can_fork():
            workers = usable_cores()
            files.index.of_name("")
        read = Engine(workers=workers).run(partial(_columns_in, files, options, self._scratch_of), names)
        for position, (lists, fault) in in_order(read):
            name = names[position]
            if fault and name not in self.shares:
                self.faults[name] = fault
            for inside, columns, kind in lists:
                named, table = open_table(files, name, options, self._scratch_of(name), inside)
                for column in columns:
                    column.files = named
                others, files_of_rows = _lists_of_kaldi(files, name), partial(_files_of_rows, named, table)
                yield Table(name, columns, inside, kind, files_of_rows, others, self.shares.get(name, 1.0))

    def fetch(self, names: Sequence[str]) -> None:
        self._fetch(self.files, [name for name in names if name not in self.shares])

    def _fetch(self, files: TreeFiles, names: Sequence[str], *, are_whole: bool = False) -> None:
        """Copy files that are far away; of long ones, whose rows name nothing, the beginnings."""
        taken = set[str]()
        if is_url(files.tree.path) and not are_whole:
            files.index.of_name("")  # is made once, before threads share it
            taken = files.tree.look_into([*filter(may_have_rows, names)], partial(self._take, files))
        whole = [name for name in names if name not in taken]
        for name in whole:
            self.shares.pop(name, None)
        files.tree.fetch(whole, self.scratch)

    def _take(self, files: TreeFiles, name: str, pieces: Iterator[bytes]) -> bool:
        """Copy the first of the pieces of a file, unless its rows name files; return True if it is copied."""
        head, named = next(pieces), TableFiles.of(files, name)
        rows = whole_rows(head, name)
        if not rows or any((named.find_all(words_of(piece))[0] >= 0).any() for piece in chain([head], pieces)):
            return False
        self.shares[name] = len(rows) / files.size(name)
        path = copy_path(name, self._scratch_of(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(rows)
        return True

    def _scratch_of(self, name: str) -> str:
        return os.path.join(self.scratch, "beginnings") if name in self.shares else self.scratch

    def kind_of_list(self, name: str) -> str:
        with suppress(EnergonError):
            has_lines, scratch = name.lower().endswith(LINE_ENDINGS), self._scratch_of(name)
            path = (self.files.tree.place if has_lines else self.files.tree.local_path)(name, scratch)
            if has_lines or (path.lower().endswith(".json") and len([*islice(read_elements(path), 2)]) > 1):
                return annotation_kind(path) or "objects"
        return ""

    def mentions_files(self, name: str) -> bool:
        if name.lower().endswith((*BINARY_TABLES, ".gz")):
            return False
        files = TableFiles.of(self.files, name)
        files.weakest_form = STEM  # any text has numbers
        with self.files.tree.open(name) as file:
            lines = file.read(_HEAD_BYTES).decode("utf-8", "replace").splitlines()
        words = [re.split(r"[\s,;|\"'<>]+", line) for line in lines]
        different = [*dict.fromkeys(chain(*words))]
        names = {*filter(files.is_name, compress(different, files.find_all(different)[0] >= 0))}
        named = [of_line for line in words if (of_line := names.intersection(line))]
        distinct = {word for of_line in named for word in of_line if not word.isdecimal()}
        many = min(_MANY_NAMES, len(self.files.names) / 2)
        return (len(named) > 1 and 2 * len(named) >= len(lines)) or len(distinct) >= max(2, many)

    def members(self, tars: Sequence[str]) -> TreeFiles:
        return list_members(self.files.tree, tars, self.scratch)

    def columns_of(self, name: str) -> frozenset[str]:
        with suppress(EnergonError):
            path = self.files.tree.place(name, self._scratch_of(name))
            return frozenset(open_table(self.files, name, self.options, self.scratch, path=path)[1].column_names())
        return frozenset()


def _columns_in(
    files: TreeFiles, options: SourceOptions, scratch_of: Callable[[str], str], name: str
) -> tuple[list[tuple[str, list[TableColumn], str]], str]:
    """Return the lists in a file, with their columns and the kind of its annotations, and why it cannot be read."""
    lists, fault = list[tuple[str, list[TableColumn], str]](), ""
    try:
        if reason_of_name(name) == BARE and not _is_text(files.tree, name):
            return [], ""
        scratch = scratch_of(name)
        path = files.tree.local_path(name, scratch)
        insides = {"json": lists_in, "xml": tags_in}.get(split_extension(name.lower())[1], lambda _: ["data"])
        with paused_collection():
            for inside in insides(path):
                named, table = open_table(files, name, options, scratch, inside)
                lists.append((inside, [*table.survey(named)], annotation_kind(path) or ""))
    except (FormatError, StorageError) as error:
        fault = error.message
    except EnergonError:
        pass  # it has no rows, or fails where it is a part
    return lists, fault


def _is_text(tree: FileTree, name: str) -> bool:
    with tree.open(name) as file:
        return b"\0" not in file.read(_HEAD_BYTES)


def _files_of_rows(
    files: TableFiles, table: TextTableSource | ArrowTableSource, places: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    return ((file, values) for values in table.records() for file in first_files(files, values, places))


def list_members(tree: FileTree, tars: Sequence[str], scratch: str) -> TreeFiles:
    """Return the members of tars of a tree."""
    paths = ((tar, tree.local_path(tar, scratch)) for tar in tars)
    return TreeFiles(MemberTree(tree, [(tar, path, plain_tar(path, scratch)) for tar, path in paths]))


def first_files(
    files: TableFiles, values: Mapping[str, object], places: Sequence[str], count: int | None = 1
) -> list[str]:
    """Return the names of the first files that a row names, of all by None."""
    texts = (text for column in places for text in texts_in(values.get(column)))
    return list(islice((files.name(text) for text in texts if files.exists(text)), count))
