"""Decide from all names of a tree what its samples are: rows of tables, tar shards, or groups of files."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ...accounting import Account
from ...accounting.kinds import HEADER_BYTES, POINTER_STARTS
from ...accounting.other_file import is_unread_archive, refuse_other_file, unpack_command
from ...errors import ConfigError
from ...format.documents import ImportWay, import_way
from ...format.documents.next_command import quoted
from ..tables.columns import SourceOptions
from ..tables.named_files import split_of_folder, subset_of_file
from .file_names import (
    BINARY_TABLES,
    TAR_ENDINGS,
    group_files,
    has_records,
    is_about,
    is_medium_of_data,
    join_names,
    sort_files,
)
from .folder_layout import FolderLayout, Grouping, ListedFolder, find_folder_layout, find_grouping
from .tree import FileTree

_MAX_ABOUT = 20  # files; more of one kind are data
_README_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSurvey:
    """The samples of a tree.

    Attributes:
        kind: Samples are groups of ``"files"``, rows of ``"tables"``, which pyarrow reads alone and as a whole, or in
            ``"tars"``, or ``"documents"`` of texts and pictures in lines of JSON.
        tables: Tables whose rows are samples, among files; empty for groups of files.
        tars: Tars that hold the samples of the tree.
        about: What becomes of files about the data: they are parts, where there are few others, or left out.
        grouping: What the files of a sample share.
        top: Number of outer folders that contain everything.
    """

    kind: Literal["files", "tables", "tars", "documents"] = "files"
    tables: tuple[str, ...] = ()
    tars: tuple[str, ...] = ()
    about: Literal["none", "parts", "left"] = "none"
    grouping: Grouping = field(default_factory=Grouping)
    folders: FolderLayout = field(default_factory=FolderLayout)
    top: int = 0

    @property
    def is_plain(self) -> bool:
        """True if files that share a name are the samples."""
        is_by_name = self.kind == "files" and self.grouping.by == "name"
        is_whole = self.about != "left" and not self.tables
        return is_by_name and is_whole and not self.folders.classes and self.folders.split_depth is None

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of a folder and of the folders above it that tell splits and classes."""
        return self.grouping.without_role(_pieces(folder))[self.top :]


@dataclass(slots=True)
class _Seen:
    folders: list[ListedFolder] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)  # JSON and text files that are samples of their own
    about: int = 0
    parts: int = 0


def survey_tree(
    tree: FileTree,
    options: SourceOptions,
    *,
    takes_all: bool,
    is_webdataset: bool,
    names_files: Callable[[str], bool],
    is_annotation: Callable[[str], bool],
    is_interleaved: Callable[[str], bool],
) -> TreeSurvey:
    """Find out what the samples of a tree are.

    Args:
        takes_all: Every file with an extension is a part, except tables and archives.
        is_webdataset: Tables may be parts of samples, if there are many.
        names_files: Returns True for a table whose rows name files of the tree.
        is_annotation: Returns True for a JSON file of a list of annotations or conversations.
        is_interleaved: Returns True for a file with documents of texts and pictures.
    """
    seen, annotations = _look(tree), list[str]()
    # Tars of samples with tables or archives as parts have many of them.
    if is_webdataset and len(seen.tables) + len(seen.archives) > _MAX_ABOUT:
        return TreeSurvey()
    groups_files = takes_all or options.group_by is not None
    if seen.tables and not (seen.archives or groups_files) and all(map(is_interleaved, seen.tables)):
        return TreeSurvey(kind="documents")
    # Tables that name the files of the tree have its samples.
    documents = seen.documents if len(seen.documents) < min(seen.parts, _MAX_ABOUT) else []
    if seen.parts and (seen.tables or documents) and options.group_by is None:
        lists = [name for name in documents if name.endswith(".txt") or not is_annotation(name)]
        tables = tuple(name for name in (*seen.tables, *lists) if names_files(name))
        if tables:
            by_splits = replace(options, classes=False, group_by="name")
            return replace(_survey_of_files(seen, by_splits, tree, is_webdataset=is_webdataset), tables=tables)
    # Other tables, archives and annotations are data of their own, next to which files may only describe them.
    if not groups_files:
        # Next to tables and archives, a few JSON files may be all that is unpacked.
        is_packed = bool(seen.tables or seen.archives) and len(seen.documents) <= _MAX_ABOUT
        annotations = [name for name in (seen.documents if is_packed else documents) if is_annotation(name)]
    if (seen.tables or seen.archives or annotations) and not groups_files:
        return _survey_of_data(tree, seen, annotations)
    # Else the files are the samples: documents and scripts, too, where there are hardly any others.
    takes_about = not seen.parts or seen.about > max(_MAX_ABOUT, seen.parts // 10) or takes_all
    if takes_about and seen.about:
        seen = _look(tree, takes_about=True)
    survey = _survey_of_files(seen, options, tree, is_webdataset=is_webdataset)
    return replace(survey, about="parts" if takes_about else "left") if seen.about else survey


def _look(tree: FileTree, *, takes_about: bool = False) -> _Seen:
    seen = _Seen()
    for folder, names in tree.folders(Account()):
        files = sort_files(names)
        seen.tables += [join_names(folder, name) for name in files.tables]
        seen.archives += [join_names(folder, name) for name in files.archives]
        seen.about += len(files.about)
        # Group what may be parts into samples.
        kept = sorted(files.parts + files.about) if takes_about else files.parts
        seen.parts += len(kept)
        if kept:
            samples = group_files(kept)
            seen.folders.append(ListedFolder.of(_pieces(folder), samples))
            if len(seen.documents) <= _MAX_ABOUT:
                # JSON and text files without partners may be lists of samples.
                alone = (parts for _, parts in samples if [*parts] in (["json"], ["txt"]))
                seen.documents += [join_names(folder, name) for parts in alone for name in parts.values()]
    return seen


def _survey_of_files(seen: _Seen, options: SourceOptions, tree: FileTree, *, is_webdataset: bool) -> TreeSurvey:
    # Find what the files of a sample share, then what the remaining folders mean.
    grouping = find_grouping(seen.folders, options.group_by, at=tree.path)
    folders = [folder for folder in seen.folders if grouping.has_samples(folder.names)]
    paths = [grouping.without_role(folder.names) for folder in folders]
    top = _top(paths)
    # In tars of samples, an outer folder that contains everything begins the keys, whatever its name is.
    contains_all = is_webdataset and len({path[:1] for path in paths}) == 1
    layout = find_folder_layout(
        folders,
        [path[top:] for path in paths],
        classes=options.classes if grouping.by == "name" else False,
        splits=False if contains_all and options.splits is None else options.splits,
        at=tree.path,
    )
    return TreeSurvey(grouping=grouping, folders=layout, top=top)


def _top(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the number of outer folders that contain all others and are no split parts."""
    first, last = min(paths, default=()), max(paths, default=())
    pairs = enumerate(zip(first, last, strict=False))
    ends = (depth for depth, (name, other) in pairs if name != other or split_of_folder(name))
    return next(ends, min(len(first), len(last)))


def _survey_of_data(tree: FileTree, seen: _Seen, annotations: Sequence[str]) -> TreeSurvey:
    tars = [name for name in seen.archives if name.lower().endswith(TAR_ENDINGS)]
    # img2dataset writes a table and statistics next to each tar.
    stems = {*map(_stem, tars)}
    tables = [name for name in seen.tables if _stem(name) not in stems]
    # Divide the tree into kinds of data, each with the way to import it alone.
    binary = [name for name in tables if name.lower().endswith(BINARY_TABLES)]
    records = [name for name in seen.archives if has_records(name)]
    others = [name for name in seen.archives if name not in {*tars, *records}]
    pieces: list[tuple[str, Sequence[str], str]] = [
        ("tars", tars, "webdataset"),
        ("annotation files", annotations, ""),  # before the files that they name
        ("archives", others, ""),
        ("Parquet and Arrow tables", binary, "hf"),
        ("text tables", [name for name in tables if name not in {*binary}], ""),
        ("files", [name for name in _data_files(tree, stems) if name not in annotations], "name"),
        ("files that this command does not read", records, ""),
    ]
    # Only one kind can be meant.
    present = [piece for piece in pieces if piece[1]]
    if len(present) != 1 or others or records or annotations:
        raise _unclear(tree, present)
    if tars:
        return TreeSurvey(kind="tars", tars=tuple(tars))
    if binary:
        return TreeSurvey(kind="tables", tables=tuple(binary))
    return TreeSurvey(tables=tuple(tables))


def _data_files(tree: FileTree, stems: set[str]) -> list[str]:
    readme = _readme(tree)
    media: list[str] = []
    others: list[str] = []
    for folder, names in tree.folders(Account()):
        for name in sort_files(names).parts:
            # Files that a card shows, or that belong to a table or tar, describe it.
            full = join_names(folder, name)
            stem = _stem(full)
            if not (full in readme or stem in stems or stem.rpartition("_")[0] in stems):
                (media if is_medium_of_data(full) else others).append(full)
    return [*media, *(others if len(others) > _MAX_ABOUT else ())]


def _stem(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def _readme(tree: FileTree) -> str:
    folder, files = next(tree.folders(Account()), ("", []))
    text = ""
    for name in files:
        if is_about(name) and name.lower().startswith("readme"):
            with tree.open(join_names(folder, name)) as file:
                text += file.read(_README_BYTES).decode("utf-8", "replace")
    return text


class UnclearDataError(ConfigError):
    """There are several kinds of data in a tree."""

    ways: Sequence[ImportWay] = ()


def _unclear(tree: FileTree, present: Sequence[tuple[str, Sequence[str], str]]) -> UnclearDataError:
    # Files that are not fetched are of no kind.
    for _, names, _ in present:
        with tree.open(names[0]) as file:
            head = file.read(HEADER_BYTES)
        if head.startswith(POINTER_STARTS):
            refuse_other_file(os.path.join(tree.path, names[0]), names[0].rpartition(".")[2], head)
    # Name the kinds with their sizes, and the command for each.
    shown = "; ".join(
        f"{what}: {len(names):,} ({sum(map(tree.size, names)):,} bytes), such as {names[0]}"
        for what, names, _ in present
    )
    pieces = {what: names for what, names, _ in present}
    ways = [_way(tree, *piece, pieces) for piece in present]
    fault = "there are several kinds of data" if len(present) > 1 else "these are imported one by one"
    error = UnclearDataError(
        f"{fault}, and it is unclear which is meant. {shown}", at=tree.path, hint="; ".join(map(str, ways))
    )
    error.ways = ways
    return error


def _way(tree: FileTree, what: str, names: Sequence[str], kind: str, pieces: Mapping[str, Sequence[str]]) -> ImportWay:
    """Return how one of several kinds of data is imported, which may name the files next to it."""
    # Data with a kind of their own need no other sources.
    if kind == "name":
        return import_way(tree.path, "--group-by", "name", taken="the files alone")
    if what.startswith("files that"):
        name = posixpath.basename(names[0])
        command = unpack_command(os.path.join(tree.path, names[0]))
        other = f"read {name} with its library, and write samples with loader.ShardWriter"
        return ImportWay(f"unpack the archive first: {command}" if is_unread_archive(name) else other)
    is_packed = tree.unit == "members"
    if kind and not is_packed:
        return import_way(tree.path, "--from", kind, taken=f"the {what} alone")
    # Others are named one by one; what is in an archive is unpacked first.
    packed, root = ([tree.path], os.path.splitext(tree.path)[0]) if is_packed else ([], tree.path)
    files = pieces.get("files", ())
    sources, taken, options = [names[0]], f"{names[0]} alone", list[str]()
    if what == "archives":
        sources, taken = [*names[:_MAX_ABOUT]], "the archives" + (", which may name the files" if files else "")
        options = ["--root", os.path.join(root, posixpath.commonpath(map(posixpath.dirname, files)))] if files else []
    elif what == "annotation files":
        stem = names[0].replace(subset_of_file(names[0]), "")  # files of all split parts belong together
        sources = [name for name in names if name.replace(subset_of_file(name), "") == stem]
        taken = "the annotations, which find their files"
        packed += [os.path.join(root, name) for name in pieces.get("archives", ()) if not files]
    way = import_way(tree.path, *options, sources=[os.path.join(root, name) for name in sources], taken=taken)
    if not packed:
        return way
    # Unpack the archives first: their files are then sources like others.
    module = "tarfile" if packed[0].lower().endswith(TAR_ENDINGS) else "zipfile"
    lines = [*(["python", "-m", module, "-e", path, root] for path in packed), ["energon", *way.words]]
    shown = " && ".join(" ".join(map(quoted, line)) for line in lines)
    return ImportWay(f"for {taken}, unpack the archive first: {shown}")


def _pieces(folder: str) -> tuple[str, ...]:
    return tuple(piece for piece in folder.split("/") if piece not in ("", "."))
