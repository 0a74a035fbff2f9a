"""Decide whether roles are the parts of samples: by their names, the kinds of their files, and headers of pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from ...parts.kinds import kind_of_name
from ..layouts.grouping import Grouping
from ..tables.named_files import MAIN_NAMES, ROLE_NAMES, part_name_of_column
from ..tables.source_options import GroupBy
from ..tables.split_names import split_of_folder, splits_of_names, subset_of_file
from .shared_names import Partners

_MIN_SHARED = 0.98  # of the names of the smaller folder; below a hundred, all but one
_MAX_PARTS = 100  # of a sample; folders of one file each are thousands
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


def match_of(
    partners: Partners, by: GroupBy, *, is_named: bool, are_alike: Callable[[Grouping], bool | None]
) -> Match | None:
    """Return the grouping of a main role and its partners; None if these are no parts of samples.

    Args:
        is_named: The user asks for it.
        are_alike: Returns whether the headers of the pictures of roles say that they are of samples.
    """
    main, depth = partners.main, partners.depth
    if len(partners.shared) > _MAX_PARTS:
        return None
    if len(splits_of_names({main.name, *(role.name for role in partners.shared)})) == 1 + len(partners.shared):
        return None
    shared = {role: count for role, count in partners.shared.items() if _may_share(main.folder, role.folder)}
    roles, total = [main, *shared], sum(shared.values())
    if total < 2 - is_named:
        return None
    kinds = {role: partners.rests[role].kinds for role in roles}
    # Names of parts, or files of different kinds, show that these are roles; and the same names but for a suffix.
    have_suffixes = by != "number" and any(role.prefix or role.suffix for role in roles)
    are_channels = have_suffixes and any(role.suffix.endswith("0000") for role in roles[1:])
    are_named = [ROLE_NAMES.fullmatch(part_name_of_column(role.name)) is not None for role in roles]
    is_each_other = len({*chain(*kinds.values())}) == sum(map(len, kinds.values()))
    is_shown = is_named or all(are_named[have_suffixes:]) or are_channels
    is_shown |= depth is None if have_suffixes else is_each_other
    # A file that is named after a whole file, as a.jpg.json after a.jpg, belongs to it.
    is_shown |= have_suffixes and all(kind_of_name(role.suffix) in kinds[main] for role in roles[1:])
    is_unclear = False
    if have_suffixes or not is_shown:
        sizes = {role: len(partners.rests[role].hashes) for role in roles}
        # Else pictures may; without other pictures, files of other kinds belong to the main one, as texts do.
        if not have_suffixes:
            near = (r for r in roles[1:] if are_nearly_all(shared[r], min(sizes[main], sizes[r])))
            roles = [main, *near]
        pictures = [role for role in roles if "image" in kinds[role] and (have_suffixes or len(kinds[role]) == 1)]
        are_others = all(kinds[main].isdisjoint(kinds[role]) for role in roles[1:])
        grouping = Grouping(by=by, depth=depth, roles=dict.fromkeys(pictures, ""))
        # Of texts or sounds with equal names nothing else is known: a language, a noisy recording, or a class.
        are_equal = all(are_nearly_all(shared[role], max(sizes[main], sizes[role])) for role in roles[1:])
        # Files of another kind that all have the name of a main one and a suffix are its parts: sounds of microphones.
        is_shown |= have_suffixes and are_others and are_equal
        alone = are_others or (None if are_equal else False)
        alike = are_alike(grouping) if len(pictures) > 1 else None if have_suffixes else alone
        are_few = len(roles) <= _MAX_UNCLEAR and sizes[main] >= _MIN_UNCLEAR
        is_unclear = alike is None and not is_shown and are_few
        if len(roles) < 2 or alike is False or not (alike or is_shown or is_unclear):
            return None
    # Where two roles have files of one kind, their part names begin with the name of the role: jpg and masks.png.
    counts = Counter(chain.from_iterable(kinds[role] for role in roles))
    is_main = MAIN_NAMES.fullmatch(main.name) or (not are_named[0] and all(are_named[1:]))
    is_main = is_main or (have_suffixes and not are_channels)
    plain = {role for role in roles if not have_suffixes and all(counts[kind] == 1 for kind in kinds[role])}
    plain |= {main} if is_main and not main.suffix else set()
    begins = {role: "" if role in plain else f"{part_name_of_column(role.name)}." for role in roles}
    return Match(total, Grouping(by=by, depth=depth, roles=begins), is_unclear)


def _may_share(folder: str, other: str) -> bool:
    """Return False for folders of two split parts."""
    splits = {split_of_folder(subset_of_file(name)) for name in (folder, other)} - {""}
    return len(splits) < 2


def are_nearly_all(count: int, size: int) -> bool:
    """Return True for at least 98 % of some names; below a hundred, for all but one."""
    return count >= (_MIN_SHARED * size if size >= 100 else size - 1)
