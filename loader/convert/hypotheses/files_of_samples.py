"""Find what the files of a sample share, and what the remaining folders say, for files that no table names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...errors import ConfigError
from ..layouts.folder_layout import find_folder_layout
from ..layouts.grouping import Grouping, folder_names
from ..layouts.hypothesis import TreeLayout
from ..layouts.references import Reference
from ..layouts.survey import Survey
from ..tables.columns import GroupBy
from ..tables.named_files import split_name
from ..tables.split_names import split_of_folder
from .folder_samples import are_samples
from .headers import are_of_samples, groups_of
from .matched import Match, match_of
from .shared_names import ListedFolder, Partners, by_folder, by_number, by_suffix, kinds_of


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
    elif survey.associated:  # names of BIDS say which files belong together
        options = replace(options, group_by="name")
    # Group the files of each folder by name.
    folders: dict[str, list[str]] = {}
    for folder, _, last in (name.rpartition("/") for name in names):
        folders.setdefault(folder, []).append(last)
    listed = [ListedFolder(folder, () if is_by_name else last) for folder, last in folders.items()]
    # Find what the files of a sample share, then what the remaining folders mean.
    match = _find_grouping(survey, names, listed, options.group_by)
    # A list that names files of several of the folders shows that each is a sample.
    if match.is_unclear and any(each.is_list and _names_roles(survey, each, match) for each in survey.references):
        match = Match(0, Grouping())
    # A table that says more about folders shows that each folder is a thing.
    if any(table.joins == "folder" for table in survey.rows.rows):
        match, options = (
            Match(0, Grouping()) if match.is_unclear else match,
            replace(options, classes=options.classes or False),
        )
    grouping = _with_split(match.grouping, listed)
    kept = [folder for folder in listed if grouping.split or grouping.has_samples(folder.names)]
    paths = [grouping.without_role(folder.names) for folder in kept]
    top = _top(paths)
    # In tars of samples, an outer folder that contains everything begins the keys, whatever its name is.
    contains_all = is_webdataset and len({path[:1] for path in paths}) == 1
    layout = find_folder_layout(
        [path[top:] for path in paths],
        are_pictures=all(len(parts) == 1 and kinds_of(parts) == {"image"} for each in kept for parts in each.parts),
        classes=options.classes if grouping.by == "name" else False,
        splits=False if contains_all and options.splits is None else options.splits,
        at=survey.files.tree.path,
    )
    samples = len(kept) if grouping.by == "folder" else sum(len(each.samples) for each in listed) - match.total
    return TreeLayout(grouping=grouping, folders=layout, top=top, is_unclear=match.is_unclear, samples=samples)


def _names_roles(survey: Survey, reference: Reference, match: Match) -> bool:
    """Return True if files that a reference names have several roles."""
    names = (split_name(survey.files.names[file_number]) for file_number in reference.named.tolist())
    roles = {match.grouping.role_of(folder_names(folder), stem)[0] for folder, stem, _ in names}
    return len(roles - {None}) > 1


def _find_grouping(survey: Survey, names: Sequence[str], folders: Sequence[ListedFolder], by: GroupBy | None) -> Match:
    """Find what the files of a sample share; the user may have said it."""
    if by == "name" or not folders:
        return Match(0, Grouping())
    is_named = by is not None

    def are_alike(grouping: Grouping) -> bool | None:
        return are_of_samples(survey.files.tree, groups_of(names, grouping))

    # Of ways that are equally good, the one that joins most files is meant.
    for way, candidates in _ways(folders, is_named=is_named):
        if by not in (None, way):
            continue
        if way == "folder" and (is_named or are_samples(folders)):
            return Match(0, Grouping(by="folder"))
        matches = [match_of(each, way, is_named=is_named, are_alike=are_alike) for each in candidates if each]
        possible = [match for match in matches if match and not (match.is_unclear and _is_chance(folders, match))]
        if possible:
            return max(possible, key=lambda match: match.total)
    if is_named:
        raise ConfigError(
            f"no two files share what --group-by {by} needs",
            at=survey.files.tree.path,
            hint="leave --group-by out, or name another one",
        )
    return Match(0, Grouping())


def _ways(folders: Sequence[ListedFolder], *, is_named: bool) -> Iterator[tuple[GroupBy, Iterable[Partners | None]]]:
    """Yield what the files of a sample may share, in the order to try, and the roles that they may have."""
    depths = range(max(len(folder.names) for folder in folders))
    yield "parallel", (by_folder(folders, depth) for depth in depths)
    yield "folder", ()
    yield "suffix", by_suffix(folders, None)
    yield "parallel", (partners for depth in depths for partners in by_suffix(folders, depth))
    yield "number", [by_number(folders, is_named=is_named)]


def _is_chance(folders: Sequence[ListedFolder], match: Match) -> bool:
    """Return True for numbers in split parts, with folders in these, of several categories: some of them are equal."""
    depth = match.grouping.depth
    return depth is None or all(
        any(map(split_of_folder, folder.names[depth + 1 : -1])) and all(map(str.isdecimal, folder.samples))
        for folder in folders
        if match.grouping.has_samples(folder.names)
    )


def _with_split(grouping: Grouping, folders: Sequence[ListedFolder]) -> Grouping:
    """Return a grouping that keeps its main folder, if this and others are split parts: test, masks and train."""
    main, depth = next((role.folder for role in grouping.roles), ""), grouping.depth
    if depth is None or not split_of_folder(main):
        return grouping
    others = {each.names[depth] for each in folders if len(each.names) > depth and not grouping.has_samples(each.names)}
    splits = {split_of_folder(name) for name in others} - {"", split_of_folder(main)}
    return replace(grouping, split=main) if splits else grouping


def _top(paths: Sequence[tuple[str, ...]]) -> int:
    """Return the number of outer folders that contain all others and are no split parts."""
    first, last = min(paths, default=()), max(paths, default=())
    pairs = enumerate(zip(first, last, strict=False))
    ends = (depth for depth, (name, other) in pairs if name != other or split_of_folder(name))
    return next(ends, min(len(first), len(last)))
