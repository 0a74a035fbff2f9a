"""Find what the files of a sample share, and what the remaining folders say, for files that no table names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import ConfigError
from ..file_trees.file_names import group_files
from ..layouts.folder_layout import find_folder_layout
from ..layouts.grouping import Grouping, ListedFolder, folder_names
from ..layouts.hypothesis import TreeLayout
from ..layouts.survey import Survey
from ..tables.columns import GroupBy
from ..tables.named_files import split_of_folder
from .folder_samples import are_samples
from .matched import Match
from .numbered import find_numbered
from .parallel import find_parallel
from .parallel_suffixed import find_parallel_suffixed
from .suffixed import find_suffixed


def layout_of_files(
    survey: Survey, names: Sequence[str], *, is_by_name: bool = False, is_webdataset: bool = False
) -> TreeLayout:
    """Return the layout of files.

    Args:
        is_by_name: Files of a sample share their names, whatever other names say.
        is_webdataset: They are members of a tar of samples.
    """
    options = survey.options
    if is_by_name:
        options = replace(options, classes=False, group_by="name")
    # Group the files of each folder by name.
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, []).append(last)
    listed = [
        ListedFolder.of(folder_names(folder), () if is_by_name else group_files(last))
        for folder, last in folders.items()
    ]
    # Find what the files of a sample share, then what the remaining folders mean.
    match = _find_grouping(survey, names, listed, options.group_by)
    # A table that says more about folders shows that each folder is a thing.
    if any(table.joins == "folder" for table in survey.rows.rows):
        match, options = (
            Match(0, Grouping()) if match.is_unclear else match,
            replace(options, classes=options.classes or False),
        )
    grouping = match.grouping
    kept = [folder for folder in listed if grouping.has_samples(folder.names)]
    paths = [grouping.without_role(folder.names) for folder in kept]
    top = _top(paths)
    # In tars of samples, an outer folder that contains everything begins the keys, whatever its name is.
    contains_all = is_webdataset and len({path[:1] for path in paths}) == 1
    layout = find_folder_layout(
        kept,
        [path[top:] for path in paths],
        classes=options.classes if grouping.by == "name" else False,
        splits=False if contains_all and options.splits is None else options.splits,
        at=survey.files.tree.path,
    )
    samples = len(kept) if grouping.by == "folder" else sum(len(each.stems) for each in listed) - match.total
    return TreeLayout(grouping=grouping, folders=layout, top=top, is_unclear=match.is_unclear, samples=samples)


def _find_grouping(survey: Survey, names: Sequence[str], folders: Sequence[ListedFolder], by: GroupBy | None) -> Match:
    """Find what the files of a sample share; the user may have said it."""
    match: Match | None = None
    if by == "name" or not folders:
        return Match(0, Grouping())
    # Try parallel folders first, then equal folders, suffixes, and numbers.
    if by in (None, "parallel"):
        match = find_parallel(survey, names, folders, is_named=by is not None)
    if match is None and (by == "folder" or (by is None and are_samples(folders))):
        match = Match(0, Grouping(by="folder"))
    if match is None and by is None:
        match = find_suffixed(survey, names)
    if match is None and by in (None, "parallel"):
        match = find_parallel_suffixed(survey, names)
    if match is None and by in (None, "number"):
        match = find_numbered(survey, names, folders, is_named=by is not None)
    if match is None and by is not None:
        raise ConfigError(
            f"no two files share what --group-by {by} needs",
            at=survey.files.tree.path,
            hint="leave --group-by out, or name another one",
        )
    return match or Match(0, Grouping())


def _top(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the number of outer folders that contain all others and are no split parts."""
    first, last = min(paths, default=()), max(paths, default=())
    pairs = enumerate(zip(first, last, strict=False))
    ends = (depth for depth, (name, other) in pairs if name != other or split_of_folder(name))
    return next(ends, min(len(first), len(last)))
