"""Decide how the samples of a tree are made, or say what is unclear and which commands decide it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

from ...accounting.kinds import HEADER_BYTES, POINTER_STARTS
from ...accounting.other_file import is_unread_archive, refuse_other_file, unpack_command
from ...errors import ConfigError, plural
from ...format.documents import ImportWay, import_way
from ..file_trees.file_names import BINARY_TABLES, TAR_ENDINGS
from ..file_trees.tree import FileTree
from ..layouts.hypothesis import Hypothesis, TreeLayout
from ..layouts.references import Reference, Table
from ..layouts.survey import Survey
from ..tables.named_files import split_name, subset_of_file
from .by_files import by_files
from .by_manifest import by_manifest
from .by_rows import by_rows
from .by_tables import by_tables
from .by_tars import by_tars
from .things import with_things

_MAX_ABOUT = 20  # archives that are named in a command
_HYPOTHESES = (by_rows, by_manifest, by_tars, by_tables, by_files)


def hypotheses(survey: Survey) -> list[Hypothesis]:
    """Return all ways to make samples of a tree, those that account for all of it first."""
    compared = [each for hypothesis in _HYPOTHESES if (each := hypothesis(survey)) is not None]
    return sorted(compared, key=lambda each: not each.fits)


def decide(survey: Survey, *, takes_all: bool, is_webdataset: bool) -> tuple[TreeLayout, list[Hypothesis]]:
    """Return how the samples of a tree are made, and all ways that were compared.

    Args:
        takes_all: Every file with an extension is a part, except tables and archives.
        is_webdataset: The tree is a tar of samples.

    Raises:
        UnclearDataError: No way accounts for all references and nearly all files.
    """
    # The user may have said it; and tars of samples may have tables or archives as parts.
    has_parts = len(survey.roles["table"]) + len(survey.roles["archive"]) > _MAX_ABOUT
    if is_webdataset and has_parts:
        return TreeLayout(), []
    if takes_all or survey.options.group_by is not None:
        taken = by_files(survey, takes_all=True, is_webdataset=is_webdataset)
        return (TreeLayout(), []) if taken is None else (with_things(survey, taken.layout), [taken])
    compared = hypotheses(survey)
    if not compared and not any(survey.roles.values()):
        return TreeLayout(), []
    if not compared or not compared[0].fits:
        raise _unclear(survey, compared)
    layout = compared[0].layout
    twofold = [each for each in survey.all_references if each.unclear and each.tables[0].file in layout.tables]
    if twofold:
        raise _unclear_columns(survey, twofold[0], compared)
    cut = [table for table in survey.cut_tables if table.file in layout.tables]
    if cut:
        raise _unclear_parts(survey, cut[0], compared)
    if layout.is_unclear:
        raise _unclear_names(survey, layout, compared)
    return with_things(survey, layout), compared


class UnclearDataError(ConfigError):
    """There are several kinds of data in a tree.

    Attributes:
        ways: How each of them is imported alone.
        hypotheses: The ways to make samples that were compared.
    """

    ways: Sequence[ImportWay] = ()
    hypotheses: Sequence[Hypothesis] = ()


def _refusal(path: str, fault: str, ways: Sequence[ImportWay], compared: Sequence[Hypothesis]) -> UnclearDataError:
    error = UnclearDataError(fault, at=path, hint="; ".join(map(str, ways)))
    error.ways, error.hypotheses = ways, compared
    return error


def _unclear_names(survey: Survey, layout: TreeLayout, compared: Sequence[Hypothesis]) -> UnclearDataError:
    path, by = survey.files.tree.path, layout.grouping.by
    fault = (
        f"files have {layout.grouping.describe()}, and it is unclear whether these are a sample or several: neither"
        " names nor the sizes of pictures say it"
    )
    joined, apart = layout.samples, len({split_name(name)[:2] for name in survey.roles["data"]})
    ways = [
        import_way(path, "--group-by", by, taken="one sample of the files of a name", makes=plural(joined, "sample")),
        import_way(path, "--group-by", "name", taken="a sample of each file", makes=plural(apart, "sample")),
    ]
    return _refusal(path, fault, ways, compared)


def _unclear_columns(survey: Survey, reference: Reference, compared: Sequence[Hypothesis]) -> UnclearDataError:
    path, table = survey.files.tree.path, reference.tables[0].file
    columns, count = (reference.places[0], reference.unclear), plural(survey.rows_in(table), "row")
    fault = f"columns {' and '.join(columns)} of {table} name other files for its rows: which are meant is unclear"
    ways = [
        _way_of_files(survey, [table], "--part", f"{name}={name}", taken=f"the files of {name}", makes=count)
        for name in columns
    ]
    return _refusal(path, fault, ways, compared)


def _unclear_parts(survey: Survey, table: Table, compared: Sequence[Hypothesis]) -> UnclearDataError:
    path, count, rows = survey.files.tree.path, len(survey.roles["data"]), plural(table.rows, "row")
    fault = f"{table.file} names parts of recordings by {', '.join(table.part_columns)}, and recordings are not cut"
    once = "each recording once, without the rows"
    ways = [
        import_way(path, "--group-by", "name", taken=once, makes=plural(count, "file")),
        _way_of_files(survey, [table.file], taken="the rows, each with its whole recording", makes=rows),
    ]
    return _refusal(path, fault, ways, compared)


def _unclear(survey: Survey, compared: Sequence[Hypothesis]) -> UnclearDataError:
    tree = survey.files.tree
    tables = survey.roles["table"]
    binary = [name for name in tables if name.lower().endswith(BINARY_TABLES)]
    annotations = [name for name in survey.roles["document"] if survey.is_list(name) or survey.has_kind(name)]
    kinds: list[tuple[str, Sequence[str], str]] = [
        ("tars", survey.roles["tar"], "webdataset"),
        ("annotation files", annotations, ""),  # before the files that they name
        ("archives", survey.roles["archive"], ""),
        ("Parquet and Arrow tables", binary, "" if binary and survey.have_other_columns(binary) else "hf"),
        ("text tables", [name for name in tables if name not in {*binary}], ""),
        ("files", survey.roles["data"], "name"),
        ("files that this command does not read", survey.roles["records"], ""),
        ("lists without an extension", [name for name in survey.roles["bare"] if survey.is_list(name)], ""),
    ]
    present = [kind for kind in kinds if kind[1]]
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
    ways = [_way(survey, *piece, pieces) for piece in present if piece[0] != "lists without an extension"]
    fault = "there are several kinds of data" if len(present) > 1 else "these are imported one by one"
    return _refusal(tree.path, f"{fault}, and it is unclear which is meant. {shown}", ways, compared)


def _way(survey: Survey, what: str, names: Sequence[str], kind: str, pieces: Mapping[str, Sequence[str]]) -> ImportWay:
    """Return how one of several kinds of data is imported, which may name the files next to it."""
    tree = survey.files.tree
    # Data with a kind of their own need no other sources.
    if kind == "name":
        return import_way(tree.path, "--group-by", "name", taken="the files alone", makes=_makes(survey, names, pieces))
    if what.startswith("files that"):
        name = posixpath.basename(names[0])
        command = unpack_command(os.path.join(tree.path, names[0]))
        other = f"read {name} with its library, and write samples with loader.ShardWriter"
        return ImportWay(f"unpack the archive first: {command}" if is_unread_archive(name) else other)
    root = _root(tree)
    if kind and root == tree.path:
        makes = _makes(survey, names, pieces)
        return import_way(tree.path, "--from", kind, taken=f"the {what} alone", makes=makes)
    # Others are named one by one; what is in an archive is unpacked first.
    files, packed = pieces.get("files", ()), list[str]()
    sources, taken, options = [names[0]], f"{names[0]} alone", list[str]()
    if what == "archives":
        sources, taken = [*names[:_MAX_ABOUT]], "the archives" + (", which may name the files" if files else "")
        options = ["--root", os.path.join(root, posixpath.commonpath(map(posixpath.dirname, files)))] if files else []
    elif what == "annotation files":
        stem = names[0].replace(subset_of_file(names[0]), "")  # files of all split parts belong together
        sources = [name for name in names if name.replace(subset_of_file(name), "") == stem]
        taken = "the annotations, which find their files"
        packed = [*(pieces.get("archives", ()) if not files else ())]
    makes = _makes(survey, sources, pieces, files if what in ("archives", "annotation files") else ())
    return _way_of_files(survey, sources, *options, taken=taken, makes=makes, packed=packed)


def _makes(
    survey: Survey, sources: Sequence[str], pieces: Mapping[str, Sequence[str]], named: Sequence[str] = ()
) -> str:
    """Return what some files, and others that they name, would make, and how many of each kind would be left out."""
    rows, taken = sum(map(survey.rows_in, sources)), {*sources, *named}
    left = {what: sum(name not in taken for name in names) for what, names in pieces.items()}
    leaves = ", ".join(f"{what} ({count:,})" for what, count in left.items() if count)
    made = plural(rows, "row") if rows else plural(len(sources), "file")
    return f"{made}; leaves out {leaves}" if leaves else made


def _way_of_files(
    survey: Survey, sources: Sequence[str], *options: str, taken: str, makes: str, packed: Sequence[str] = ()
) -> ImportWay:
    """Return how some files of a tree are imported. Archives are unpacked first: their files are sources, too."""
    path, root = survey.files.tree.path, _root(survey.files.tree)
    archives = [*([path] if root != path else []), *(os.path.join(root, name) for name in packed)]
    module = "tarfile" if any(archive.lower().endswith(TAR_ENDINGS) for archive in archives[:1]) else "zipfile"
    paths = [os.path.join(root, name) for name in sources]
    way = import_way(path, *options, sources=paths, taken=taken, makes=makes)
    return way._replace(unpacks=[["python", "-m", module, "-e", archive, root] for archive in archives])


def _root(tree: FileTree) -> str:
    """Return the folder of the files of a tree: for an archive, where it is unpacked."""
    return os.path.splitext(tree.path)[0] if tree.unit == "members" else tree.path
