"""Find folders whose samples are views of one thing: the frames of a clip, or the pictures that a document names."""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import replace

from ..layouts.grouping import NUMBERED, folder_names, folders_above
from ..layouts.hypothesis import TreeLayout
from ..layouts.survey import Survey
from ..layouts.tree_files import kind_of_extension
from ..tables.named_files import ROLE_NAMES, split_name
from ..tables.split_names import split_of_folder
from .headers import are_of_samples

_MIN_SHARE = 0.9  # of the folders with pictures, which are clips if their numbers begin alike
_MAX_DRAWN = 100  # files of a folder, and folders, that are compared
_SERIES_DIGITS = 3  # of a folder whose whole name is a number; shorter ones are often classes


def with_things(survey: Survey, layout: TreeLayout) -> TreeLayout:
    """Return a layout that knows the folders whose samples are views of one thing, if there are several of them."""
    if layout.kind != "files" or layout.folders.classes or layout.grouping.by == "folder":
        return layout
    things = _described_folders(layout) or _clips(survey, layout)
    # Folders around others do not count; the outer folder of all may have views, too.
    things -= {above for folder in things for above in folders_above(folder) if above}
    return replace(layout, things=frozenset(things)) if len(things) > 1 else layout


def _described_folders(layout: TreeLayout) -> set[str]:
    """Return the folders of documents that tell more than a list of samples, such as the camera of the views in it."""
    documents = (rows for rows in layout.rows.rows if rows.joins in ("", "file") and not rows.kind)
    folders = {posixpath.dirname(rows.file) for rows in documents if rows.inside not in ("", "data", "{}")}
    return {folder for folder in folders if folder and not split_of_folder(posixpath.basename(folder))}


def _clips(survey: Survey, layout: TreeLayout) -> set[str]:
    """Return the folders with numbered pictures of one size, whose numbers begin alike in nearly all folders."""
    starts: dict[str, str] = {}  # by folder; empty where the pictures are no series
    ends: list[list[str]] = []
    for folder, start, stop in survey.files.folders:
        names = survey.files.names[start : min(stop, start + _MAX_DRAWN)]
        pictures = [name for name in names if kind_of_extension(split_name(name)[2]) == "image"]
        pictures = [name for name in pictures if name not in layout.left]
        numbers = [match[2] for name in pictures if (match := NUMBERED.fullmatch(split_name(name)[1]))]
        if pictures:
            is_series = len({*numbers}) > 1 and 2 * len(numbers) >= len(pictures)
            starts["/".join(layout.grouping.without_role(folder_names(folder)))] = numbers[0] if is_series else ""
            ends.append([pictures[0], pictures[-1]])
    # In pieces of a large folder, numbers continue from one to the next; and pictures of classes have many sizes.
    counts = Counter(start.lstrip("0") for start in starts.values() if start)
    if max(counts.values(), default=0) < max(2, _MIN_SHARE * len(starts)):
        return set()
    alike = are_of_samples(survey.files.tree, ends[:: len(ends) // _MAX_DRAWN + 1])
    # If all pictures have one size, tables of folders or numbers of folders show that these are no classes.
    is_shown = any(rows.joins == "folder" for rows in layout.rows.rows) or all(map(_is_numbered, starts))
    return {*starts} if alike or (alike is None and is_shown) else set()


def _is_numbered(folder: str) -> bool:
    names = [name for name in folder_names(folder) if not ROLE_NAMES.fullmatch(name)]
    match = NUMBERED.fullmatch(names[-1]) if names else None
    return match is not None and (bool(match[1]) or len(match[2]) >= _SERIES_DIGITS)
