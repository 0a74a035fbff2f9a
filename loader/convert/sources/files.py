"""The files of a folder, a zip or a tar: files that belong together are the parts of a sample."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from ...accounting import Account, meanings
from ...accounting.kinds import MEDIA_KINDS, kind_of_name
from ...errors import ConfigError, EnergonError, SampleError, plural
from ...storage import is_url
from ...storage.durable_copy import scratch_folder
from ..annotations.json_elements import LINE_ENDINGS
from ..annotations.kinds import annotation_kind, is_annotation_list
from ..file_trees.file_names import (
    BINARY_TABLES,
    HIDDEN,
    SortedFiles,
    group_files,
    join_names,
    reason_of_name,
    sort_files,
)
from ..file_trees.survey import TreeSurvey, survey_tree
from ..file_trees.tree import UNREADABLE, FileTree, FolderTree, TarTree, ZipTree, open_zip
from ..file_trees.url_tree import UrlTree
from ..rows.file_access import FileAccess
from ..rows.row import CellReader, CellRef, FaultRef, PartRef, Row, key_of_path, unique_part
from ..tables.columns import SourceOptions
from ..tables.named_files import EXTENSIONS, NamedFiles, is_link, split_of_name
from .archives import TarSource, plain_tar, tar_files, webdataset_rows
from .hugging_face import HuggingFaceSource
from .source import Listing, SampleProposal, Source
from .table_source import ArrowTableSource, TextTableSource

_MAX_FOLDERS = 100  # that are searched for each file


class TableFiles(NamedFiles):
    """Files of a tree by the names that a table has for them; it records which were requested.

    Args:
        table: Name of the table, whose folder names start from; or else the one folder that has the file.
        access: Decides which files outside of the tree may be named.
        root: Another folder whose files may be named.
    """

    def __init__(self, tree: FileTree, table: str, access: FileAccess | None = None, root: str | None = None) -> None:
        roots = [tree.path] if root is None else [tree.path, root if is_url(root) else os.path.abspath(root)]
        super().__init__(tree.path, access, roots)
        self._tree = tree
        self._table = table
        self._folders = [posixpath.dirname(table)]
        self._others: list[str] | None = None
        self._media: dict[str, list[str]] | None = None  # by their names without folder and extension
        self.used: set[str] = set()
        self.hits = 0
        self.last = ""  # name of the first file since it was reset

    def exists(self, path: str) -> bool:
        exists = self._find(path) is not None
        self.hits += exists
        return exists

    def has_stem(self, text: str) -> bool:
        has = self._find_by_stem(text) is not None
        self.hits += has
        return has

    def name(self, path: str) -> str:
        return self._find(path) or posixpath.normpath(posixpath.join(self._folders[0], path))

    def ref(self, path: str, part: str, *, named_by_contents: bool) -> PartRef:
        if is_link(path):
            return super().ref(path, part, named_by_contents=named_by_contents)
        name = self._find(path)
        if name is None:
            return FaultRef(f"there is no file {path!r} in {self._tree.path}", code="F102")
        file = self._tree.ref(name, part)
        if not isinstance(file, FaultRef):  # it is not refused
            self.used.add(name)
            self.last = self.last or name
        return file

    def _find(self, path: str) -> str | None:
        """Return the name of a file, which a program of Windows or macOS may have written in another form."""
        # Try the path as it is, with slashes of other systems, and in other forms of Unicode.
        swapped = path.replace("\\", "/")
        forms = (unicodedata.normalize(form, swapped) for form in ("NFC", "NFD")) if not path.isascii() else ()
        paths = (path, swapped, *forms)
        names = (posixpath.normpath(posixpath.join(folder, form)) for folder in self._folders for form in paths)
        return next(filter(self._tree.has, names), None) or self._find_by_stem(swapped) or self._find_elsewhere(swapped)

    def _find_by_stem(self, path: str) -> str | None:
        """Return the one medium that has the path as its name without extension, or the one of the table's folder."""
        # List the media once; only tables with ids need them.
        if self._media is None:
            self._media = {}
            for folder, names in self._tree.folders(Account()):
                for name in names:
                    stem, _, extension = name.rpartition(".")
                    if kind_of_name(extension) in MEDIA_KINDS:
                        self._media.setdefault(stem, []).append(posixpath.join(folder, name))
        same = self._media.get(posixpath.basename(path), [])
        named = [name for name in same if f"/{name}".rpartition(".")[0].endswith(f"/{path}")]
        return self._only(named)

    def _find_elsewhere(self, path: str) -> str | None:
        """Return the name of a file below the one folder that has it, or the one that the table is named after."""
        if self._others is None:
            folders = [folder for folder, _ in self._tree.folders(Account())]
            above = {posixpath.dirname(folder) for folder in folders}
            self._others = sorted({*folders, *above})[:_MAX_FOLDERS]
        file = self._only([*filter(self._tree.has, (posixpath.join(folder, path) for folder in self._others))])
        if file is not None:
            self._folders[1:] = [file.removesuffix(path)]  # of the next one, too
        return file

    def _only(self, files: list[str]) -> str | None:
        """Return the only file, or the only one below a folder that the table is named after; None for several."""
        stem = posixpath.basename(self._table).partition(".")[0].lower()
        named = [file for file in files if stem in file.lower().split("/")[:-1]]
        return next((group[0] for group in (files, named) if len(group) == 1), None)


_LINE_BYTES = 1 << 16  # of the first line of a text, which may be a table


@dataclass(slots=True, kw_only=True, eq=False)
class FilesSource(Source):
    """The files of a folder and the folders below it, or those in an archive.

    Files whose names differ only in their extension are a sample: ``a/b.jpg`` and ``a/b.txt`` are the parts ``jpg``
    and ``txt`` of ``a/b``. ``b.jpg.txt`` belongs to ``b.jpg``, and ``b.seg.png`` to ``b`` if there is one.
    :func:`find_grouping` finds what else the files of a sample may share.

    Tables whose rows name the files, such as ``metadata.jsonl``, have the samples instead. Folders of pictures may be
    classes, ``cats/1.jpg`` and ``dogs/2.jpg``, which become the parts ``cls`` (the number of the class) and ``json``
    (its ``label_name``). Outer folders may be split parts: ``train/cats/1.jpg``.

    Attributes:
        path: The folder or archive; also a folder of tars, which are read one by one.
        kind: ``"webdataset"`` is a tar whose members are grouped as webdataset does, unless they have another layout.
        takes_all: Every file with an extension is a part, except tables and archives.
    """

    path: str
    kind: Literal["folder", "zip", "tar", "webdataset"] = "folder"
    options: SourceOptions = field(default_factory=SourceOptions)
    takes_all: bool = False
    _survey: TreeSurvey | None = field(default=None, init=False, repr=False)

    def rows(self, listing: Listing) -> Iterator[Row]:
        count = 0
        # Each tree has a layout of its own.
        for tree in open_trees(self.path, self.kind, listing.scratch, self.options):
            survey = self._surveyed(tree, listing.scratch)
            if self.kind == "webdataset" and isinstance(tree, TarTree):
                rows = webdataset_rows(tree.path, tree.plain, listing.account)
            else:
                rows = _TreeRows(self, tree, survey, listing).rows()
            for row in rows:
                yield row
                count += 1
        if not count:
            # Name a file that was left out, which may be the reason.
            left = next((entry for entry in listing.account.left_out if entry.unit == "files"), None)
            example = f"; {left.example} is {meanings()[left.reason]}" if left else ""
            raise ConfigError(
                f"there are no files that have an extension and can be parts of samples{example}",
                at=self.path,
                hint="name the folder of the files",
            )

    def proposal(self) -> SampleProposal | None:
        layout = self.survey().folders
        if not layout.classes or not layout.extensions:
            return None
        return SampleProposal(
            sample_type="ImageClassificationSample",
            field_map={"image": ",".join(layout.extensions), "label": "cls", "label_name": "json[label_name]"},
        )

    def survey(self) -> TreeSurvey:
        """Return what the samples are; for several tars, the samples of the last."""
        if self._survey is None:
            with scratch_folder() as scratch:
                for tree in open_trees(self.path, self.kind, scratch, self.options):
                    self._surveyed(tree, scratch)
        return self._survey or TreeSurvey()

    def open_cells(self) -> CellReader:
        return ZipCells(self.path) if self.kind == "zip" else CellReader()

    def _surveyed(self, tree: FileTree, scratch: str) -> TreeSurvey:
        def names_files(table: str) -> bool:
            try:
                files, source = open_table(tree, table, replace(self.options, parts={}), scratch)
                columns = source.describe()
                # A mere list of files adds nothing to them.
                is_list = len(columns) == 1 and not posixpath.basename(table).startswith("metadata.")
                return not is_list and any(column.role == "path" for column in columns) and files.hits > 0
            except EnergonError:
                return False

        # A folder is surveyed once; each tar of a folder may differ.
        if self._survey is not None and self.kind == "folder":
            return self._survey
        self._survey = survey_tree(
            tree,
            self.options,
            takes_all=self.takes_all,
            is_webdataset=self.kind == "webdataset",
            names_files=names_files,
            is_annotation=lambda name: is_annotation_list(tree.local_path(name, scratch)),
            is_interleaved=lambda name: (
                name.lower().endswith(LINE_ENDINGS) and annotation_kind(tree.local_path(name, scratch)) == "interleaved"
            ),
        )
        # A tar with another layout is read as a tree of files.
        if self.kind == "webdataset" and not (self._survey.is_plain and self.options.group_by is None):
            self.kind = "tar"
        return self._survey

    def __getstate__(self) -> tuple[object, ...]:
        return self.path, self.kind  # what open_cells() needs

    def __setstate__(self, state: tuple[str, Literal["folder", "zip", "tar", "webdataset"]]) -> None:
        self.path, self.kind = state


def open_trees(path: str, kind: str, scratch: str, options: SourceOptions) -> Iterator[FileTree]:
    """Yield the folder or archive at a path or URL, or each tar of a folder; see :class:`FilesSource`.

    Args:
        kind: ``"folder"``, ``"zip"``, or a kind of tars.
        scratch: A folder for tars that have to be decompressed.
        options: Which files links and tables may lead to.
    """
    if kind == "folder" and is_url(path):
        yield UrlTree(path)
    elif kind == "folder":
        yield FolderTree(path, options.access, root=options.root)
    elif kind == "zip":
        yield ZipTree(path)
    else:
        for file in tar_files(path):
            yield TarTree(file, plain_tar(file, scratch))


class _TreeRows:
    """The samples of a tree with a known layout, and the fate of each of its files."""

    def __init__(self, source: FilesSource, tree: FileTree, survey: TreeSurvey, listing: Listing) -> None:
        self._source = source
        self._tree = tree
        self._survey = survey
        self._listing = listing
        self._account = listing.account
        self._read = {*survey.tables}  # tables, and the files that they name

    def rows(self) -> Iterator[Row]:
        survey = self._survey
        # Samples are inside of tables or tars, or rows of tables, or groups of files.
        if survey.kind != "files":
            yield from self._inner_rows()
            return
        for table in survey.tables:
            yield from self._table_rows(table)
        yield from self._grouped_rows() if survey.grouping.by != "name" else self._named_rows()
        # Rows may name files that are left out by their names alone.
        for name in self._read.difference(survey.tables):
            reason = reason_of_name(name)
            if reason == HIDDEN:
                self._account.take(self._tree.unit)
            elif reason:
                self._account.reclaim(self._tree.unit, reason, size_bytes=self._tree.size(name))

    def _named_rows(self) -> Iterator[Row]:
        for folder, names in self._folders():
            self._account.use(self._tree.unit, len(names))
            for stem, parts in group_files(names):
                files = {part: join_names(folder, name) for part, name in parts.items()}
                yield self._row(join_names(folder, stem), folder, files)

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        for folder, names in self._tree.folders(self._account):
            kept, left = self._divided(folder, sort_files(names))
            for name, reason in left:
                self._tree.leave(self._account, join_names(folder, name), reason)
            if kept:
                yield folder, kept

    def _divided(self, folder: str, files: SortedFiles) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the files that are parts, and the files left out with reasons; count files of tables as used."""
        takes_about = self._survey.about == "parts"
        kept, about = (sorted(files.parts + files.about), []) if takes_about else (files.parts, files.about)
        left = [*((name, "L103") for name in (*files.tables, *files.archives)), *((name, "L102") for name in about)]
        if not self._survey.tables:
            return kept, left
        # Files that rows name are used already, and the others need a reason.
        every = [*((name, self._reason_next_to_tables(join_names(folder, name))) for name in kept), *left]
        rest = [(name, reason) for name, reason in every if join_names(folder, name) not in self._read]
        self._account.use(self._tree.unit, len(every) - len(rest))
        return [name for name, reason in rest if not reason], [(name, reason) for name, reason in rest if reason]

    def _reason_next_to_tables(self, name: str) -> str:
        """Return why a file is left out that no row names; an empty text if it is a part."""
        if len(self._read) == len(self._survey.tables):
            return "L102"  # the rows name no files
        # Metadata describe the files of their folder, other tables may lie anywhere.
        folders = (posixpath.split(table) for table in self._survey.tables)
        is_described = any(
            not file.startswith("metadata.") or not folder or name.startswith(f"{folder}/") for folder, file in folders
        )
        return "L119" if is_described else ""

    def _row(self, path: str, folder: str, parts: Mapping[str, str]) -> Row:
        layout, names = self._survey.folders, self._survey.names(folder)
        refs = {part: self._tree.ref(name, part) for part, name in parts.items()}
        return Row(
            key=key_of_path(path),
            parts=refs if not layout.classes else {**layout.class_parts(names), **refs},
            origin=self._shown(next(iter(parts.values()))),
            split=layout.split_of(names),
        )

    def _shown(self, name: str) -> str:
        return os.fsencode(self._tree.example(name)).decode("utf-8", "replace")

    def _grouped_rows(self) -> Iterator[Row]:
        grouping = self._survey.grouping
        samples: dict[str, dict[str, str]] = {}
        for folder, names in self._folders():
            pieces = tuple(piece for piece in folder.split("/") if piece)
            for stem, parts in group_files(names):
                # Files outside of the roles are samples by themselves, if they are media.
                sample = grouping.sample_of(pieces, stem)
                if sample is None and not any(kind_of_name(part) in MEDIA_KINDS for part in parts):
                    for name in parts.values():  # a list of names or classes
                        self._tree.leave(self._account, join_names(folder, name), "L102")
                    continue
                path, begin = sample or (join_names(folder, stem), "")
                taken = samples.setdefault(path, {})
                taken |= {unique_part(begin + part, taken): join_names(folder, name) for part, name in parts.items()}
                self._account.use(self._tree.unit, len(parts))
        # All folders are known: yield the samples.
        for path, parts in sorted(samples.items(), key=lambda item: item[0].split("/")):
            yield self._row(path, posixpath.dirname(next(iter(parts.values()))), parts)
        alone = sum(len(parts) == 1 for parts in samples.values())
        partners = f"; {alone:,} of {plural(len(samples), 'sample has', 'samples have')} no partner" if alone else ""
        self._listing.notes.append(f"the files of a sample have {grouping.describe()}{partners}")

    def _table_rows(self, table: str) -> Iterator[Row]:
        survey, unit = self._survey, posixpath.dirname(table)
        # Of several tables, or tars with tables, the numbers of classes would differ.
        is_only = len(survey.tables) == 1 and (self._source.kind == "folder" or not os.path.isdir(self._source.path))
        options = replace(self._source.options, is_only_table=self._source.options.is_only_table and is_only)
        files, source = open_table(self._tree, table, options, self._listing.scratch)
        # Names of tables tell the split parts, if all of them do.
        splits = {name: split_of_name(name) for name in survey.tables}
        has_splits = "" not in splits.values() and len({*splits.values()}) > 1
        count, account = 0, Account()
        for row in source.rows(replace(self._listing, shuffled=True, account=account)):
            # Rows without a split get the split part of the files that they name.
            named = files.last and survey.folders.split_of(survey.names(posixpath.dirname(files.last)))
            is_apart = len(survey.tables) > 1 and not files.last
            yield msgspec.structs.replace(
                row,
                key=key_of_path(f"{table.rpartition('.')[0]}/{row.key}") if is_apart else row.key,
                origin=join_names(unit, row.origin),
                split=row.split or (splits[table] if has_splits else "") or named,
            )
            files.last = ""
            count += 1
        self._leave_rows(account, unit)
        self._read |= files.used
        named_files = f", which name {plural(len(files.used), 'file')}" if files.used else ""
        self._listing.notes.append(f"the samples are the {plural(count, 'row')} of {table}{named_files}")

    def _leave_rows(self, account: Account, folder: str) -> None:
        for entry in account.left_out:
            if entry.unit == "rows":
                self._account.lose("rows", entry.reason, join_names(folder, entry.example), count=entry.count)

    def _inner_rows(self) -> Iterator[Row]:
        survey, tree, listing = self._survey, self._tree, self._listing
        names = survey.tables or survey.tars
        # Copy tables and tars out of an archive, to a folder of their own.
        scratch = os.path.join(listing.scratch, str(len(os.listdir(listing.scratch))))  # no other source has it
        is_remote = is_url(tree.path)
        paths = [join_names(tree.path, name) if is_remote else tree.local_path(name, scratch) for name in names]
        # Tars are sources of their own; tables are read together.
        if survey.kind == "tars":
            for name, path in zip(names, paths, strict=True):
                for row in TarSource(path=path).rows(listing):
                    yield msgspec.structs.replace(row, origin=row.origin.replace(path, self._shown(name)))
        else:
            folder = os.path.join(scratch, "members") if tree.unit == "members" else tree.path
            inner = HuggingFaceSource(path=folder, columns=self._source.options)
            account = Account()
            yield from inner.rows(replace(listing, shuffled=True, account=account))
            self._leave_rows(account, "")
        tree.leave_others(self._account, {*names})


def open_table(
    tree: FileTree, table: str, columns: SourceOptions, scratch: str
) -> tuple[TableFiles, TextTableSource | ArrowTableSource]:
    """Return the files that a table in a tree names, and the table."""
    files = TableFiles(tree, table, columns.access, columns.root)
    path, named = tree.local_path(table, scratch), replace(columns, files=files)
    # The ending shows the format; texts may be tables with tabs.
    lower = table.lower().removesuffix(".gz")
    if lower.endswith(BINARY_TABLES):
        kind: Literal["arrow", "parquet"] = "arrow" if lower.endswith(EXTENSIONS["arrow"]) else "parquet"
        return files, ArrowTableSource(path=path, kind=kind, columns=named)
    text: Literal["csv", "tsv", "jsonl"] = "jsonl"
    if lower.endswith((".csv", ".tsv", ".txt")):
        with open(path, "rb") as file:
            has_tabs = lower.endswith(".txt") and b"\t" in file.readline(_LINE_BYTES)
        text = "tsv" if lower.endswith(".tsv") or has_tabs else "csv"
    return files, TextTableSource(path=path, kind=text, columns=named)


class ZipCells(CellReader):
    """Reads the members of a zip file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open_zip(path)
        self._infos = self._file.infolist()

    def read(self, cell: CellRef) -> bytes:
        info = self._infos[cell.row]
        try:
            return self._file.read(info)
        except UNREADABLE as error:
            raise SampleError(f"cannot unpack {info.filename}: {error}", part=cell.column, source=self._path) from error

    def close(self) -> None:
        self._file.close()
