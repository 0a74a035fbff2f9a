"""Samples of files that share no name: parallel folders, a folder for each sample, and numbers behind prefixes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np

from ...errors import ConfigError
from ..tables.names import part_name_of_column, split_of_folder
from .folder_layout import NUMBERED, ROLE_NAMES, ListedFolder

GroupBy = Literal["name", "folder", "parallel", "number"]
"""What the files of a sample share: the name, the folder, the path but for one folder of it, or a number."""

_MIN_SHARE = 0.9  # of the folders that have the same names, so that each is a sample
_MAIN_NAMES = re.compile(r"(jpeg)?(images?|imgs?|rgb|inputs?|source|src|videos?|audios?|wavs?|clips)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The files of samples.

    Attributes:
        by: What the files of a sample share.
        depth: Position of the folder that paths differ in, of parallel folders.
        roles: Folder at this position, or prefix of numbers → begin of its part names; an empty text for names that
            are the extension alone.
    """

    by: GroupBy = "name"
    depth: int = 0
    roles: Mapping[str, str] = field(default_factory=dict)

    def sample_of(self, folder: tuple[str, ...], stem: str) -> tuple[str, str] | None:
        """Return the path of a file's sample, and the begin of its part names; None for a file outside of the roles.

        >>> Grouping(by="parallel", roles={"images": "", "masks": "masks."}).sample_of(("masks", "train"), "a")
        ('train/a', 'masks.')
        """
        if self.by == "folder" and folder:
            return "/".join(folder), f"{part_name_of_column(stem)}."
        role, path = "", folder
        if self.by == "parallel" and self.has_samples(folder):
            role, path = folder[self.depth], (*self.without_role(folder), stem)
        elif self.by == "number" and (match := NUMBERED.fullmatch(stem)):
            role, path = match[1], (*folder, match[2])
        return ("/".join(path), self.roles[role]) if role in self.roles else None

    def has_samples(self, folder: tuple[str, ...]) -> bool:
        """Return True if files of a folder may be parts of samples with others."""
        if self.by == "parallel":
            return len(folder) > self.depth and folder[self.depth] in self.roles
        return self.by != "folder" or bool(folder)

    def without_role(self, folder: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a folder without that of its role."""
        is_parallel = self.by == "parallel"
        return (*folder[: self.depth], *folder[self.depth + 1 :]) if is_parallel else folder

    def describe(self) -> str:
        """Return what is the same in the names of a sample's files, for people."""
        shown = ", ".join(sorted(self.roles))
        return {
            "name": "the same name",
            "folder": "the same folder",
            "parallel": f"the same path but for the folder: {shown}",
            "number": f"the same number behind {shown}",
        }[self.by]


@dataclass(slots=True)
class _Role:
    """The files of a folder or prefix that may be one part of each sample."""

    kinds: set[str] = field(default_factory=set)
    hashes: list[np.ndarray] = field(default_factory=list)  # of what the files of a sample share

    def add(self, kinds: set[str], hashes: np.ndarray) -> None:
        self.kinds |= kinds
        self.hashes.append(hashes)


def find_grouping(folders: Sequence[ListedFolder], by: GroupBy | None, *, at: str) -> Grouping:
    """Find what the files of a sample share.

    Args:
        folders: All folders that have files.
        by: What the user says; None decides by what is there.
        at: The tree, for messages.

    Raises:
        ConfigError: Files do not share what the user says.
    """
    if by == "name" or not folders:
        return Grouping()
    if by in (None, "parallel"):
        parallel = _parallel(folders, is_named=by is not None)
        if parallel is not None:
            return parallel
    if by == "folder" or (by is None and _are_samples(folders)):
        return Grouping(by="folder")
    numbered = _numbered(folders, is_named=by is not None) if by in (None, "number") else None
    if numbered is None and by is not None:
        raise ConfigError(
            f"no two files share what --group-by {by} needs", at=at, hint="leave --group-by out, or name another one"
        )
    return numbered or Grouping()


def _parallel(folders: Sequence[ListedFolder], *, is_named: bool) -> Grouping | None:
    """Return the depth at which folders have the same files below them, under the names of roles."""
    best: tuple[int, Grouping] | None = None
    for depth in range(max(len(folder.names) for folder in folders)):
        roles: dict[str, _Role] = {}
        for folder in folders:
            if len(folder.names) > depth:
                rest = hash((folder.names[:depth], folder.names[depth + 1 :]))
                roles.setdefault(folder.names[depth], _Role()).add(folder.kinds, np.array(folder.stems) ^ rest)
        found = _matched(roles, "parallel", depth, is_named=is_named)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return None if best is None else best[1]


def _numbered(folders: Sequence[ListedFolder], *, is_named: bool) -> Grouping | None:
    roles: dict[str, _Role] = {}
    if not is_named and not all(folder.are_numbered for folder in folders):
        return None
    for folder in folders:
        for prefix, (kinds, numbers) in folder.numbers.items():
            roles.setdefault(prefix, _Role()).add(kinds, np.array(numbers))
    found = _matched(roles, "number", 0, is_named=is_named)
    return None if found is None else found[1]


def _matched(roles: Mapping[str, _Role], by: GroupBy, depth: int, *, is_named: bool) -> tuple[int, Grouping] | None:
    """Return the number of matches between the main role and its partners, and the grouping that these are."""
    if len(roles) < 2:
        return None
    shared = {name: np.unique(np.concatenate(role.hashes)) for name, role in roles.items()}
    main = max(shared, key=lambda name: (bool(_MAIN_NAMES.fullmatch(name)), len(shared[name]), name))
    matches = {
        name: len(np.intersect1d(shared[main], hashes, assume_unique=True))
        for name, hashes in shared.items()
        if name != main
    }
    names = [main, *(name for name, count in matches.items() if 2 * count >= len(shared[name]))]
    total = sum(matches[name] for name in names[1:])
    kinds = [roles[name].kinds for name in names]
    are_roles = is_named or all(map(ROLE_NAMES.fullmatch, names)) or len(set().union(*kinds)) == sum(map(len, kinds))
    if len(names) < 2 or total < 2 - is_named or not are_roles or all(map(split_of_folder, names)):
        return None
    # Where two roles have files of one kind, their part names begin with the name of the role: jpg and masks.png.
    counts = Counter(chain.from_iterable(kinds))
    begins = {
        name: ""
        if all(counts[kind] == 1 for kind in own) or (name == main and _MAIN_NAMES.fullmatch(name))
        else f"{part_name_of_column(name)}."
        for name, own in zip(names, kinds, strict=True)
    }
    return total, Grouping(by=by, depth=depth, roles=begins)


def _are_samples(folders: Sequence[ListedFolder]) -> bool:
    """Return True if folders have files of the same names, which are no numbers of pictures."""
    inner = [folder for folder in folders if folder.names]
    sets = Counter(frozenset(folder.samples) for folder in inner)
    if not sets or all(split_of_folder(folder.names[-1]) for folder in inner):
        return False
    samples, count = sets.most_common(1)[0]
    words = {stem.rstrip("0123456789_- ") for stem, _ in samples}
    are_distinct = "" not in words and len(words) == len(samples) > 1
    # Else the folders are parts, and the names those of samples.
    are_roles = count > len(samples) or all(map(ROLE_NAMES.fullmatch, words))
    return are_distinct and are_roles and count > 1 and count >= _MIN_SHARE * len(inner)
