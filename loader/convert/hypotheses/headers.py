"""Compare the widths, heights and modes of pictures, which are alike within a sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PIL import Image

from ...errors import EnergonError
from ..file_trees.tree import FileTree
from ..layouts.grouping import Grouping, Role, folder_names
from ..layouts.tree_files import kind_of_extension
from ..tables.named_files import split_name

_MAX_GROUPS = 1000  # of pictures that are compared
_FLAT_MODES = frozenset({"1", "L", "P", "I", "I;16", "F", "LA", "PA"})  # of masks and depths

Header = tuple[tuple[int, int], str]
"""The width and height of a picture in pixels, and its mode as Pillow names it."""


def are_of_samples(tree: FileTree, groups: Sequence[Sequence[str]]) -> bool | None:
    """Return whether groups of pictures are samples; None if their headers do not say.

    The pictures of each group have one size, and the sizes of groups differ; or one role has grey or palette
    pictures, and another colour.

    Args:
        groups: Names of pictures that may belong together, one for each role, in one order.
    """
    drawn = groups[:: -(-len(groups) // _MAX_GROUPS)] if groups else ()
    headers = [[_header(tree, name) for name in group] for group in drawn]
    known = [[header for header in group if header is not None] for group in headers]
    if not known or any(len({size for size, _ in group}) != 1 for group in known):
        return False if any(known) else None
    modes = [{header[1] in _FLAT_MODES for header in role if header is not None} for role in zip(*headers, strict=True)]
    if any(mode == {True} for mode in modes) and any(mode == {False} for mode in modes):
        return True
    return True if len({group[0][0] for group in known}) > 1 else None


def _header(tree: FileTree, name: str) -> Header | None:
    try:
        with tree.open(name) as file, Image.open(file) as picture:
            return picture.size, picture.mode
    except (OSError, EnergonError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # a damaged file, which fails when it is read


def groups_of(names: Iterable[str], grouping: Grouping) -> list[list[str]]:
    """Return the pictures that would be of one sample, one of each role, for samples that have all roles."""
    samples: dict[str, dict[Role, str]] = {}
    for name in names:
        folder, stem, extension = split_name(name)
        if kind_of_extension(extension) == "image":
            role, path = grouping.role_of(folder_names(folder), stem)
            if role is not None:
                samples.setdefault(path, {}).setdefault(role, name)
    whole = (of_sample for of_sample in samples.values() if len(of_sample) == len(grouping.roles))
    return [[of_sample[role] for role in grouping.roles] for of_sample in whole]
