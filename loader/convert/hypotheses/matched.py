"""Compare what folders or prefixes have in common, to find those that hold one part of each sample."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..layouts.folder_layout import splits_of_names
from ..layouts.grouping import Grouping
from ..tables.columns import GroupBy
from ..tables.named_files import MAIN_NAMES, ROLE_NAMES, part_name_of_column

Roles = defaultdict[str, tuple[set[str], list[np.ndarray]]]
"""Folder or prefix that may be one part of each sample → kinds of its files, and hashes of what these share."""

_MIN_SHARED = 0.98  # of the names of the smaller folder; below a hundred, all but one
_MIN_UNCLEAR, _MAX_UNCLEAR = 3, 4  # equal names, and folders, that may be parts or classes


@dataclass(frozen=True, slots=True)
class Match:
    """A grouping that is possible.

    Attributes:
        total: Files that it joins to others.
        is_unclear: Neither names nor headers say whether the files of one name are a sample.
    """

    total: int
    grouping: Grouping
    is_unclear: bool = False


def matched_roles(
    roles: Roles, by: GroupBy, depth: int, *, is_named: bool, are_alike: Callable[[Sequence[str]], bool | None]
) -> Match | None:
    """Return the grouping of the main role and its partners, and the number of their matches.

    Args:
        is_named: The user asks for it.
        are_alike: Returns whether the headers of the pictures of roles say that they are of samples.
    """
    if len(roles) < 2:
        return None
    # Compare what roles share with the main role; or with the one that has the most, which others may differ next to.
    shared = {name: np.unique(np.concatenate(hashes)) for name, (_, hashes) in roles.items()}
    usual = max(shared, key=lambda name: (bool(MAIN_NAMES.fullmatch(name)), len(shared[name]), name))
    largest = max(shared, key=lambda name: (len(shared[name]), name))
    main, matches = usual, _matches(shared, usual)
    if not matches:
        main, matches = largest, _matches(shared, largest)
    names, total = [main, *matches], sum(matches.values())
    if len(names) < 2 or total < 2 - is_named or len(splits_of_names(names)) == len(names):
        return None
    kinds = [roles[name][0] for name in names]
    is_unclear = False
    # Names of parts, or files of different kinds, show that these are roles; else pictures may.
    if not (is_named or all(map(ROLE_NAMES.fullmatch, names)) or len(set().union(*kinds)) == sum(map(len, kinds))):
        names = [
            main,
            *(name for name in names[1:] if are_nearly_all(matches[name], min(len(shared[main]), len(shared[name])))),
        ]
        # Without other pictures, those of other kinds belong to the main one, as two texts do to a picture.
        pictures = [name for name in names if roles[name][0] == {"image"}]
        are_others = all(roles[main][0].isdisjoint(roles[name][0]) for name in names[1:])
        alike = are_alike(pictures) if len(pictures) > 1 else are_others
        is_unclear = alike is None and 2 <= len(names) <= _MAX_UNCLEAR and len(shared[main]) >= _MIN_UNCLEAR
        if not (alike or is_unclear):
            return None
        kinds = [roles[name][0] for name in names]
    # Where two roles have files of one kind, their part names begin with the name of the role: jpg and masks.png.
    counts = Counter(chain.from_iterable(kinds))
    is_main = MAIN_NAMES.fullmatch(main) or (
        not ROLE_NAMES.fullmatch(main) and all(map(ROLE_NAMES.fullmatch, names[1:]))
    )
    begins = {
        name: ""
        if all(counts[kind] == 1 for kind in role_kinds) or (name == main and is_main)
        else f"{part_name_of_column(name)}."
        for name, role_kinds in zip(names, kinds, strict=True)
    }
    return Match(total, Grouping(by=by, depth=depth, roles=begins), is_unclear)


def _matches(shared: Mapping[str, np.ndarray], main: str) -> dict[str, int]:
    """Return the roles that share at least half of what they have with the main one, and how much that is."""
    counts = {
        name: len(np.intersect1d(shared[main], hashes, assume_unique=True))
        for name, hashes in shared.items()
        if name != main
    }
    return {name: count for name, count in counts.items() if 2 * count >= len(shared[name])}


def are_nearly_all(count: int, size: int) -> bool:
    """Return True for at least 98 % of some names; below a hundred, for all but one."""
    return count >= (_MIN_SHARED * size if size >= 100 else size - 1)
