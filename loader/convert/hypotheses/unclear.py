"""Name the kinds of data in a tree, if it is unclear which to import, and the command lines that decide it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from operator import itemgetter

from ...errors import plural
from ...format.documents import ImportWay, import_way, quoted
from ...parts.kinds import HEADER_BYTES, POINTER_STARTS
from ...parts.other_file import is_unread_archive, refuse_other_file, unpack_command
from ...storage import is_url
from ..file_trees.file_names import BINARY_TABLES, TAR_ENDINGS, is_about
from ..file_trees.tree import FileTree
from ..layouts.hypothesis import Hypothesis, names_of
from ..layouts.survey import Survey
from ..tables.split_names import subset_of_file

_MAX_ABOUT = 20  # archives that are named in a command
_UNREAD, _BARE = "files that this command does not read", "lists without an extension"
_BINARY = "Parquet and Arrow tables"
_ANNOTATIONS, _TEXT, _WITHOUT = "annotation files", "text tables", "files without an extension"
_RENAME = (
    "add extensions to the names, such as .txt, or read the files with their library, and write samples with"
    " loader.ShardWriter"
)
_WHOLE = {"tars": ("--from", "webdataset"), _BINARY: ("--from", "hf"), "files": ("--group-by", "name")}
"""Kinds of data → options that import all data of the kind from a tree."""

Doubt = tuple[str, Sequence[ImportWay]]
"""A sentence on what is unclear, and the ways to import that decide it."""


def several_kinds(survey: Survey, compared: Sequence[Hypothesis]) -> Doubt:
    """Return that there are several kinds of data, with their sizes, and the command for each."""
    tree, roles = survey.files.tree, survey.roles
    nearest = min((each.unclear for each in compared if each.unclear), key=len, default=())
    binary = [name for name in roles["table"] if name.lower().endswith(BINARY_TABLES)]
    kinds = {
        "tars": roles["tar"],
        # before the files that they name
        _ANNOTATIONS: [name for name in roles["document"] if survey.is_list(name) or survey.kind_of(name)],
        "archives": roles["archive"],
        _BINARY: binary,
        _TEXT: [name for name in roles["table"] if name not in {*binary}],
        "files": roles["data"],
        _UNREAD: roles["records"],
        _BARE: [name for name in roles["bare"] if survey.is_list(name)],
    }
    kinds[_WITHOUT] = [name for name in roles["bare"] if name in nearest and name not in kinds[_BARE]]
    kinds = {what: names for what, names in kinds.items() if names} or {_WITHOUT: roles["bare"]}
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
    shown += f"; there is no role for {nearest[0]}" if nearest and nearest[0] not in shown else ""
    if [*kinds] == [_WITHOUT]:
        return f"the parts of samples are named by the extensions of their files. {shown}", [ImportWay(_RENAME)]
    fault = "there are several kinds of data" if len(kinds) > 1 else "these are imported one by one"
    # What leaves out the fewest files comes first. Tables of other columns are imported apart.
    ways = []
    for what, names in kinds.items():
        groups = _groups(survey, names) if what in (_ANNOTATIONS, _TEXT) else [names]
        ways += [_way_of_kind(survey, what, group, kinds) for group in groups if what != _BARE]
    return f"{fault}, and it is unclear which is meant. {shown}", [way for _, way in sorted(ways, key=itemgetter(0))]


def unnamed_partners(survey: Survey) -> Doubt | None:
    """Return that files without an extension have the names of data; None unless half of them have."""
    bare, tree = survey.roles["bare"], survey.files.tree
    partners = [*filter(survey.shares_stem, bare)]
    if len(partners) < 2 or 2 * len(partners) < len(bare):
        return None
    with tree.open(partners[0]) as file:
        extension = {b"<": "xml", b"{": "json"}.get(file.read(HEADER_BYTES).lstrip()[:1], "txt")
    fault = f"files without an extension have the names of others, such as {partners[0]}, and their kind is not said"
    above = os.path.join(_root(tree), posixpath.commonpath(map(posixpath.dirname, partners)))
    rename = f"find {quoted(above)} -type f ! -name '*.*' -exec mv {{}} {{}}.{extension} \\;"
    files = plural(len(survey.roles["data"]), "file")
    return fault, [
        ImportWay(f"to import them as parts, add the extension: {rename}"),
        way_to_import(survey, "the other files alone", files, "--group-by", "name"),
    ]


def _groups(survey: Survey, names: Sequence[str]) -> list[list[str]]:
    """Return tables or annotations in groups that are imported together: the files of all split parts."""
    # Several files of COCO name the same pictures, each with other annotations.
    stems: dict[str, list[str]] = {}
    for name in names:
        is_coco = survey.kind_of(name) == "coco"
        stems.setdefault(name.replace(subset_of_file(name), "") if is_coco else "", []).append(name)
    groups = [group for of_stem in stems.values() for group in survey.alike(of_stem)]
    # Without tables that say nothing, unless there are no others.
    said = [[name for name in group if not is_about(posixpath.basename(name))] for group in groups]
    return [few or group for few, group in zip(said, groups, strict=True)]


def _way_of_kind(
    survey: Survey, what: str, names: Sequence[str], kinds: Mapping[str, list[str]]
) -> tuple[int, ImportWay]:
    """Return how one of several kinds of data is imported, after the number of files that it leaves out.

    Args:
        names: Files of the kind that belong together; they may name the files next to them.
    """
    tree, files = survey.files.tree, kinds.get("files", [])
    if what == _WITHOUT:
        return sum(map(len, kinds.values())), ImportWay(_RENAME)
    if what == _UNREAD:
        name, command = posixpath.basename(names[0]), unpack_command(os.path.join(tree.path, names[0]))
        other = f"read {name} with its library, and write samples with loader.ShardWriter"
        taken = f"unpack the archive first: {command}" if is_unread_archive(name) else other
        return sum(map(len, kinds.values())), ImportWay(taken)
    # Some kinds are found by the command itself, but not in archives; others are named one by one.
    root, options = _root(tree), _WHOLE.get(what, ())
    if what != "files" and (root != tree.path or (what == _BINARY and len(survey.alike(names)) > 1)):
        options = ()
    is_whole, packed = bool(options), list[str]()
    are_tables = what in (_ANNOTATIONS, _TEXT)
    referring = {table.file for reference in survey.references for table in reference.tables}
    is_reference = what == _ANNOTATIONS or not referring.isdisjoint(names)
    sources = names if is_whole or (are_tables and len(names) <= _MAX_ABOUT) else names[:1]
    taken = f"{f'the {what}' if is_whole else names_of(sources)} alone"
    if what == "archives":
        sources, taken = names[:_MAX_ABOUT], "the archives, which may name the files" if files else "the archives"
        options = ("--root", os.path.join(root, posixpath.commonpath(map(posixpath.dirname, files)))) if files else ()
    elif is_reference:
        packed = kinds.get("archives", []) if what == _ANNOTATIONS and not files else []
        taken = f"{names_of(sources)} with the files that {'they name' if len(sources) > 1 else 'it names'}"
    # Count what they and the files that they name would make, and what would be left out.
    rows = sum(map(survey.rows_in, sources))
    used = {*sources, *(files if what == "archives" or is_reference else ())}
    left = {what: sum(name not in used for name in names) for what, names in kinds.items()}
    leaves = ", ".join(f"{what} ({count:,})" for what, count in left.items() if count)
    made = plural(rows, "row") if rows else plural(len(sources), "file")
    makes = f"{made}; leaves out {leaves}" if leaves else made
    way = way_to_import(survey, taken, makes, *options, sources=() if is_whole else sources, packed=packed)
    return sum(left.values()), way


def way_to_import(
    survey: Survey, taken: str, makes: str, *options: str, sources: Sequence[str] = (), packed: Sequence[str] = ()
) -> ImportWay:
    """Return how a tree, or some of its files, is imported; archives are unpacked first."""
    path, root = survey.files.tree.path, _root(survey.files.tree)
    archives = [*([path] if sources and root != path else []), *(os.path.join(root, name) for name in packed)]
    if archives and is_url(root):
        return ImportWay(f"for {taken}, copy {root} to this machine, unpack its archives, and import the copy")
    module = "tarfile" if any(archive.lower().endswith(TAR_ENDINGS) for archive in archives[:1]) else "zipfile"
    paths = [os.path.join(root, name) for name in sources]
    way = import_way(path, *options, sources=paths, taken=taken, makes=makes)
    return way._replace(unpacks=[["python", "-m", module, "-e", archive, root] for archive in archives])


def _root(tree: FileTree) -> str:
    """Return the folder of the files of a tree: for an archive, where it is unpacked."""
    return os.path.splitext(tree.path)[0] if tree.unit == "members" else tree.path
