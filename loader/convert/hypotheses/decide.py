"""Decide how the samples of a tree are made, or say what is unclear and which commands decide it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter

from ...accounting.kinds import HEADER_BYTES, POINTER_STARTS
from ...accounting.other_file import is_unread_archive, refuse_other_file, unpack_command
from ...errors import ConfigError, plural
from ...format.documents import ImportWay, import_way
from ..file_trees.file_names import BINARY_TABLES, TAR_ENDINGS
from ..file_trees.tree import FileTree
from ..layouts.alternatives import alternatives, disagreement, split_tables
from ..layouts.hypothesis import Hypothesis, TreeLayout
from ..layouts.survey import Survey
from ..tables.named_files import split_name
from ..tables.split_names import subset_of_file
from .annotated import with_readers
from .by_files import by_files
from .by_manifest import by_manifest
from .by_rows import by_rows
from .by_tables import by_tables
from .by_tars import by_tars
from .foreign import foreign_format
from .things import with_things
from .unsplit import are_whole, unsplit_names

_MAX_ABOUT = 20  # archives that are named in a command
_UNREAD, _BARE = "files that this command does not read", "lists without an extension"
_BINARY = "Parquet and Arrow tables"
_WHOLE = {"tars": ("--from", "webdataset"), _BINARY: ("--from", "hf"), "files": ("--group-by", "name")}
"""Kinds of data → options that import all data of the kind from a tree."""
_HYPOTHESES = (by_rows, by_manifest, by_tars, by_tables, by_files)


def decide(survey: Survey, *, takes_all: bool, is_webdataset: bool) -> tuple[TreeLayout, list[Hypothesis]]:
    """Return how the samples of a tree are made, and all ways that were compared.

    Args:
        takes_all: Every file with an extension is a part, except tables and archives.
        is_webdataset: The tree is a tar of samples.

    Raises:
        UnclearDataError: No way accounts for all references and nearly all files.
    """
    # The user may have said it; and tars of samples may have tables or archives as parts.
    is_said = takes_all or survey.options.group_by is not None
    if not is_said:
        survey.associate()
    has_parts = len(survey.roles["table"]) + len(survey.roles["archive"]) > _MAX_ABOUT
    if is_webdataset and has_parts:
        return TreeLayout(), []
    if is_said:
        taken = by_files(survey, takes_all=True, is_webdataset=is_webdataset)
        if taken is None:
            return TreeLayout(), []
        ordered = with_things(survey, taken.layout)
        # An order of how files join says nothing about the formats of annotations.
        return ordered if takes_all else with_readers(survey, ordered), [taken]
    made = [each for hypothesis in _HYPOTHESES if (each := hypothesis(survey)) is not None]
    compared = sorted(made, key=lambda each: not each.fits)  # those that account for all come first
    if not compared and not any(survey.roles.values()):
        return TreeLayout(), []
    layout = compared[0].layout if compared and compared[0].fits else None
    doubt = _several_kinds(survey, compared) if layout is None else next(_doubts(survey, layout), ("", ()))
    # What a damaged file says about others is lost; where it is a part, its sample fails.
    damaged = next((name for name in survey.damaged if layout is None or name in layout.left), None)
    if damaged is not None:
        fault = f"{damaged} cannot be read: {survey.damaged[damaged]}"
        raise ConfigError(fault, at=survey.files.tree.path, hint="repair it, or move it out of the folder")
    fault, ways = foreign_format(survey) or doubt
    if layout is None or fault:
        error = UnclearDataError(fault, at=survey.files.tree.path, hint="; ".join(map(str, ways)))
        error.ways, error.hypotheses = ways, compared
        raise error
    return with_readers(survey, with_things(survey, layout)), compared


class UnclearDataError(ConfigError):
    """There are several kinds of data in a tree.

    Attributes:
        ways: How each of them is imported alone.
        hypotheses: The ways to make samples that were compared.
    """

    ways: Sequence[ImportWay] = ()
    hypotheses: Sequence[Hypothesis] = ()


Doubt = tuple[str, Sequence[ImportWay]]
"""A sentence on what is unclear, and the ways to import that decide it."""


def _doubts(survey: Survey, layout: TreeLayout) -> Iterator[Doubt]:
    """Yield what is unclear about a layout that accounts for all files."""
    # Two columns may name other files for the same rows.
    for of_table in (each for each in survey.all_references if each.unclear and each.tables[0].file in layout.tables):
        file, names = of_table.tables[0].file, (of_table.places[0], of_table.unclear)
        rows = plural(survey.rows_in(file), "row")
        fault = f"columns {' and '.join(names)} of {file} name other files for its rows: which are meant is unclear"
        yield fault, [_way(survey, f"the files of {n}", rows, "--part", f"{n}={n}", sources=[file]) for n in names]
    # Tables and lists of different split parts may name the same files.
    tables = split_tables(survey.all_references)
    if pair := disagreement(tables):
        first, second, count = pair
        fault = (
            f"{first.file} and {second.file} both name {plural(count, 'file')}: which split parts are meant is unclear"
        )
        patterns = alternatives(tables)[:_MAX_ABOUT]
        counts = [sum(fnmatchcase(table.file, pattern) for table in tables) for pattern in patterns]
        ways = zip(patterns, (f"split parts by {plural(count, 'table')}" for count in counts), strict=True)
        yield fault, [_way(survey, f"the split parts of {p}", makes, "--split-lists", p) for p, makes in ways]
    # Names may show split parts where nothing else divides the samples.
    if examples := unsplit_names(survey, layout):
        shown = " and ".join(examples[split] for split in sorted(examples, key=lambda split: split != "train")[:2])
        lines = (
            "write their lines as rows of a table, such as train.jsonl and test.jsonl, and import the folder of these"
        )
        if are_whole(survey, layout):
            yield f"files such as {shown} are split parts as a whole, and no samples", [ImportWay(lines)]
        fault = f"names such as {shown} tell split parts in an unknown way, and chance would divide the samples"
        moved = ImportWay("to keep the split parts, move the files to folders train, val and test")
        yield fault, [_way(survey, "split parts by chance", "all samples", "--no-splits"), moved]
    # Rows may name parts of recordings.
    cut = () if survey.options.segments else survey.cut_tables
    for table in (each for each in cut if each.file in layout.tables):
        columns, files = ", ".join(table.part_columns), plural(len(survey.roles["data"]), "file")
        rows = plural(table.rows, "row")
        segments = _way(survey, "the rows, each with its segment of a WAV or FLAC", rows, "--segments", "cut")
        whole = _way(survey, "the rows, each with its whole recording", rows, "--segments", "whole")
        once = _way(survey, "each recording once, without the rows", files, "--group-by", "name")
        fault = f"{table.file} names segments of recordings by {columns}, and whether to cut these is not said"
        yield fault, [segments, whole, once]
    # Files of one name may be a sample, or samples of several classes.
    if layout.is_unclear:
        shared, joined = layout.grouping.describe(), plural(layout.samples, "sample")
        apart = plural(len({split_name(name)[:2] for name in survey.roles["data"]}), "sample")
        together = _way(survey, "one sample of the files of a name", joined, "--group-by", layout.grouping.by)
        compared = [together, _way(survey, "a sample of each file", apart, "--group-by", "name")]
        if layout.grouping.by == "parallel":  # the folders with the same names may be the samples, too
            of_folders = plural(len({split_name(name)[0] for name in survey.roles["data"]}), "sample")
            compared.append(_way(survey, "a sample of the files of each folder", of_folders, "--group-by", "folder"))
        fault = f"files have {shared}, and it is unclear whether these are a sample or several: neither names nor the"
        yield f"{fault} sizes of pictures say it", compared


def _several_kinds(survey: Survey, compared: Sequence[Hypothesis]) -> Doubt:
    """Return that there are several kinds of data, with their sizes, and the command for each."""
    tree, roles = survey.files.tree, survey.roles
    binary = [name for name in roles["table"] if name.lower().endswith(BINARY_TABLES)]
    kinds = {
        "tars": roles["tar"],
        # before the files that they name
        "annotation files": [name for name in roles["document"] if survey.is_list(name) or survey.has_kind(name)],
        "archives": roles["archive"],
        _BINARY: binary,
        "text tables": [name for name in roles["table"] if name not in {*binary}],
        "files": roles["data"],
        _UNREAD: roles["records"],
        _BARE: [name for name in roles["bare"] if survey.is_list(name)],
    }
    kinds = {what: names for what, names in kinds.items() if names}
    # Files that are not fetched are of no kind.
    for names in kinds.values():
        with tree.open(names[0]) as file:
            head = file.read(HEADER_BYTES)
        if head.startswith(POINTER_STARTS):
            refuse_other_file(os.path.join(tree.path, names[0]), names[0].rpartition(".")[2], head)
    shown = "; ".join(
        f"{what}: {len(names):,} ({sum(map(tree.size, names)):,} bytes), such as {names[0]}"
        for what, names in kinds.items()
    )
    # Name a file that the nearest way has no role for.
    nearest = min((each.unclear for each in compared if each.unclear), key=len, default=())
    shown += f"; there is no role for {nearest[0]}" if nearest and nearest[0] not in shown else ""
    fault = "there are several kinds of data" if len(kinds) > 1 else "these are imported one by one"
    # What leaves out the fewest files comes first.
    ways = sorted((_way_of_kind(survey, what, kinds) for what in kinds if what != _BARE), key=itemgetter(0))
    return f"{fault}, and it is unclear which is meant. {shown}", [way for _, way in ways]


def _way_of_kind(survey: Survey, what: str, kinds: Mapping[str, list[str]]) -> tuple[int, ImportWay]:
    """Return how one of several kinds of data is imported, which may name the files next to it, and how many it leaves.

    The number of files that it leaves out comes first.
    """
    tree, names, files = survey.files.tree, kinds[what], kinds.get("files", [])
    if what == _UNREAD:
        name, command = posixpath.basename(names[0]), unpack_command(os.path.join(tree.path, names[0]))
        other = f"read {name} with its library, and write samples with loader.ShardWriter"
        taken = f"unpack the archive first: {command}" if is_unread_archive(name) else other
        return sum(map(len, kinds.values())), ImportWay(taken)
    # Some kinds are found by the command itself, but not in archives; others are named one by one.
    root, options = _root(tree), _WHOLE.get(what, ())
    if what != "files" and (root != tree.path or (what == _BINARY and survey.have_other_columns(names))):
        options = ()
    is_whole, packed = bool(options), list[str]()
    sources, taken = (names, f"the {what} alone") if is_whole else (names[:1], f"{names[0]} alone")
    if what == "archives":
        sources, taken = names[:_MAX_ABOUT], "the archives, which may name the files" if files else "the archives"
        options = ("--root", os.path.join(root, posixpath.commonpath(map(posixpath.dirname, files)))) if files else ()
    elif what == "annotation files":
        stem = names[0].replace(subset_of_file(names[0]), "")  # files of all split parts belong together
        sources = [name for name in names if name.replace(subset_of_file(name), "") == stem]
        packed = [] if files else kinds.get("archives", [])
        taken = "the annotations, which find their files"
    # Count what they and the files that they name would make, and what would be left out.
    rows, used = (
        sum(map(survey.rows_in, sources)),
        {*sources, *(files if what in ("archives", "annotation files") else ())},
    )
    left = {what: sum(name not in used for name in names) for what, names in kinds.items()}
    leaves = ", ".join(f"{what} ({count:,})" for what, count in left.items() if count)
    made = plural(rows, "row") if rows else plural(len(sources), "file")
    makes = f"{made}; leaves out {leaves}" if leaves else made
    way = _way(survey, taken, makes, *options, sources=() if is_whole else sources, packed=packed)
    return sum(left.values()), way


def _way(
    survey: Survey, taken: str, makes: str, *options: str, sources: Sequence[str] = (), packed: Sequence[str] = ()
) -> ImportWay:
    """Return how a tree, or some of its files, is imported; archives are unpacked first."""
    path, root = survey.files.tree.path, _root(survey.files.tree)
    archives = [*([path] if sources and root != path else []), *(os.path.join(root, name) for name in packed)]
    module = "tarfile" if any(archive.lower().endswith(TAR_ENDINGS) for archive in archives[:1]) else "zipfile"
    paths = [os.path.join(root, name) for name in sources]
    way = import_way(path, *options, sources=paths, taken=taken, makes=makes)
    return way._replace(unpacks=[["python", "-m", module, "-e", archive, root] for archive in archives])


def _root(tree: FileTree) -> str:
    """Return the folder of the files of a tree: for an archive, where it is unpacked."""
    return os.path.splitext(tree.path)[0] if tree.unit == "members" else tree.path
