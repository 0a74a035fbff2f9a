"""Find what the files of a sample share, and what the remaining folders say, for files that no table names."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import ConfigError
from ..file_trees.file_names import join_names
from ..layouts.folder_layout import find_folder_layout
from ..layouts.grouping import Grouping, Role, folder_names
from ..layouts.hypothesis import TreeLayout
from ..layouts.references import Reference
from ..layouts.survey import Survey
from ..tables.named_files import split_name
from ..tables.source_options import GroupBy
from ..tables.split_names import pieces_of_splits, split_of_folder, subset_of_file
from .folder_samples import are_samples
from .headers import are_of_samples, groups_of
from .matched import Match, match_of
from .shared_names import ListedFolder, Partners, by_folder, by_number, by_suffix, kinds_of

_MAX_STRAYS = 0.1  # of the samples, that may be outside of the folders of classes


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
    folders = _by_folder(names)
    # Find what the files of a sample share; names of folders may have those of split parts in them.
    if is_by_name:
        folders = {folder: [] for folder in folders}
    by, is_named = options.group_by, options.group_by is not None
    match, listed = _find_grouping(survey, folders, by, Grouping(), is_named=is_named)
    inner = match.grouping.inner
    if not is_by_name and (pieces := _pieces(folder for folder in folders if folder not in inner)):
        other = _find_grouping(survey, folders, by, Grouping(pieces=pieces, inner=inner), is_named=is_named)
        match, listed = other if other[0].total >= max(1, match.total) else (match, listed)
    if by not in (None, match.grouping.by):
        raise ConfigError(
            f"no two files share what --group-by {by} needs",
            at=survey.files.tree.path,
            hint="leave --group-by out, or name another one",
        )
    # A list that names files of several of the folders shows that each is a sample.
    if match.is_unclear and any(each.is_list and _names_roles(survey, each, match) for each in survey.references):
        match = Match(0, Grouping())
    # A table that says more about folders shows that each folder is a thing.
    if not survey.classes and any(table.joins == "folder" for table in survey.rows.rows):
        options = replace(options, classes=options.classes or False)
        if match.is_unclear:
            match = Match(0, Grouping(by="folder" if are_samples(listed) else "name"))
    grouping = _with_split(_with_others(match.grouping, listed), listed)
    kept = [folder for folder in listed if grouping.split or grouping.has_samples(folder.names)]
    paths = [grouping.without_role(folder.names) for folder in kept]
    top = _top(paths)
    # In tars of samples, an outer folder that contains everything begins the keys, whatever its name is.
    contains_all = is_webdataset and len({path[:1] for path in paths}) == 1
    total, outside = (
        sum(len(each.samples) for each, path in zip(kept, paths, strict=True) if is_any or not path[top:])
        for is_any in (True, False)
    )
    paths = [path[top:] for path in paths]
    if survey.classes:  # other folders say nothing then
        paths = [tuple(name for name in path if name in survey.classes or split_of_folder(name)) for path in paths]
    layout = find_folder_layout(
        paths,
        are_pictures=all(len(parts) == 1 and kinds_of(parts) == {"image"} for each in kept for parts in each.parts),
        classes=options.classes if grouping.by == "name" else False,
        splits=False if contains_all and options.splits is None else options.splits,
        strays=outside if outside <= _MAX_STRAYS * total else 0,
        at=survey.files.tree.path,
    )
    samples = len(kept) if grouping.by == "folder" else sum(len(each.samples) for each in listed) - match.total
    return TreeLayout(grouping=grouping, folders=layout, top=top, is_unclear=match.is_unclear, samples=samples)


def _by_folder(names: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for folder, _, last in (name.rpartition("/") for name in names):
        folders.setdefault(folder, []).append(last)
    return folders


def suffixes_of(survey: Survey, names: Sequence[str]) -> Grouping:
    """Return the suffixes and prefixes by which files of one folder belong together."""
    return _find_grouping(survey, _by_folder(names), "suffix", Grouping(), is_named=False)[0].grouping


def _names_roles(survey: Survey, reference: Reference, match: Match) -> bool:
    """Return True if files that a reference names have several roles."""
    names = (split_name(survey.files.names[file_number]) for file_number in reference.named.tolist())
    roles = {match.grouping.role_of(folder_names(folder), stem)[0] for folder, stem, _ in names}
    return len(roles - {None}) > 1


def _find_grouping(
    survey: Survey, folders: Mapping[str, Sequence[str]], by: GroupBy | None, plain: Grouping, *, is_named: bool
) -> tuple[Match, list[ListedFolder]]:
    """Find what the files of a sample share, for the names in each folder.

    Args:
        by: The only way to look for; None for all.
        is_named: The user asks for it.
        plain: Has the folders that also name a split part.
    """
    listed = [ListedFolder(plain.pieces_of(folder_names(folder)), last) for folder, last in folders.items()]
    if by == "name" or not listed:
        return Match(0, plain), listed
    names = [join_names(folder, name) for folder, last in folders.items() for name in last]
    plain = plain if plain.pieces else replace(plain, inner=_inner_folders(listed))
    searched = [folder for folder, name in zip(listed, folders, strict=True) if name not in plain.inner]

    def are_alike(grouping: Grouping) -> bool | None:
        return are_of_samples(survey.files.tree, groups_of(names, replace(grouping, pieces=plain.pieces)))

    # Of ways that are equally good, the one that joins most files is meant.
    for way, candidates in _ways(searched, is_named=is_named):
        if by not in (None, way):
            continue
        if way == "folder" and (is_named or are_samples(searched)):
            return Match(len(names), Grouping(by="folder")), listed
        matches = [match_of(each, way, is_named=is_named, are_alike=are_alike) for each in candidates if each]
        possible = [match for match in matches if match and not (match.is_unclear and _is_chance(listed, match))]
        if possible:
            best = max(possible, key=lambda match: match.total)
            return replace(best, grouping=replace(best.grouping, pieces=plain.pieces, inner=plain.inner)), listed
    return Match(0, plain), listed


def _inner_folders(folders: Sequence[ListedFolder]) -> frozenset[str]:
    """Return the folders that are named after samples next to them, if all in a folder are: ``a.jpg``, ``a/1.png``."""
    stems = {folder.names: folder.samples for folder in folders}
    named = {each.names for each in folders if each.names and each.names[-1] in stems.get(each.names[:-1], ())}
    counts = Counter(names[:-1] for names in named)
    others = {folder.names[:-1] for folder in folders if folder.names and folder.names not in named}
    return frozenset("/".join(names) for names in named if counts[names[:-1]] > 1 and names[:-1] not in others)


def _pieces(folders: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the folders that name a split part and more, if several differ in the part alone, and others do not.

    >>> _pieces(["train_images", "test_images", "train_masks"])["train_masks"], _pieces(["train_hr", "test_hr"])
    (('masks', 'train'), {})
    """
    rests: dict[str, dict[str, str]] = {}
    for name in {name for folder in folders for name in folder_names(folder)}:
        for rest, split in pieces_of_splits(name):
            rests.setdefault(rest.strip("-_ ."), {})[name] = split
    rests.pop("", None)
    whole = {rest for rest, group in rests.items() if "train" in group.values() and len({*group.values()}) > 1}
    pieces = {
        name: (rest, split)
        for rest, group in sorted(rests.items(), key=lambda item: (item[0] in whole, item[0]))
        for name, split in group.items()
        if rest in whole or subset_of_file(name)
    }
    return pieces if whole and len({rest for rest, _ in pieces.values()}) > 1 else {}


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


def _with_others(grouping: Grouping, folders: Sequence[ListedFolder]) -> Grouping:
    """Return a grouping with the roles of other folders, all of whose names have the affixes of a role: of a test."""
    depth, affixed = grouping.depth, {role[1:]: begin for role, begin in grouping.roles.items() if any(role[1:])}
    if depth is None or not affixed:
        return grouping
    roles = dict(grouping.roles)
    for each in folders:
        if len(each.names) > depth and not grouping.has_samples(each.names):
            others = Grouping(depth=depth, roles={Role(each.names[depth], *affix): b for affix, b in affixed.items()})
            if all(others.role_of(each.names, stem)[0] for stem in each.samples):
                roles |= others.roles
    return replace(grouping, roles=roles)


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
    common = posixpath.commonprefix(paths)
    return next((depth for depth, name in enumerate(common) if split_of_folder(name)), len(common))
