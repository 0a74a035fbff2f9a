"""Find what folders say: split parts, classes, and the files that are a sample without sharing a name."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

import msgspec
import numpy as np

from ...accounting.kinds import kind_of_name, part_extension
from ...errors import ConfigError
from ..rows.row import NO_SPLIT, PartRef, ValueRef
from ..tables.columns import GroupBy
from ..tables.named_files import part_name_of_column, split_of_folder

ROLE_NAMES = re.compile(
    r"(jpeg|left|right)?[-_ ]?(images?|imgs?|pictures?|photos?|frames?|rgb|depths?|normals?|flow|inputs?|outputs?|"
    r"targets?|source|src|videos?|audios?|wavs?|clips?|labels?|annotations?|anns?|boxes|bboxes|masks?|seg|segmentations?|before|after|"
    r"segmentation(class|object)|gt|ground[-_ ]?truth|captions?|texts?|txt|transcripts?|json|xml|keypoints?|"
    r"metadata|hr|lr)",
    re.IGNORECASE,
)
"""Names of folders that hold one part of each sample, and so are no classes."""

NUMBERED = re.compile(r"(.*?)[-_ ]?(\d+)")
"""A name that ends in a number, and what precedes it."""
_MAX_PREFIXES = 32  # of numbers in a folder
_MAX_SAMPLES = 32  # of a folder that may be one sample, with all its files
_NUMBER_DIGITS = 3  # folders that are all named after numbers as long are years, or pieces of a large folder


@dataclass(slots=True)
class ListedFolder:
    """A folder that has files, without their names: trees have millions.

    Attributes:
        names: Names of the folders above it, and its own; empty for the folder of the source.
        kinds: Kinds of the files; the extension where the kind is unknown.
        stems: Hashes of the names of the samples.
        samples: Name and kinds of each sample; empty if there are many.
        numbers: Prefix of names that end in a number → kinds of the files, and hashes of the numbers with the folder.
    """

    names: tuple[str, ...]
    extensions: set[str] = field(default_factory=set)
    has_pictures_only: bool = True
    kinds: set[str] = field(default_factory=set)
    stems: array[int] = field(default_factory=lambda: array("q"))
    samples: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    numbers: dict[str, tuple[set[str], array[int]]] = field(default_factory=dict)
    are_numbered: bool = True

    @classmethod
    def of(cls, names: Sequence[str], samples: Sequence[tuple[str, Mapping[str, str]]]) -> ListedFolder:
        folder = cls(tuple(names))
        for stem, parts in samples:
            # Note kinds and names, as hashes: a folder may have millions of files.
            kinds = frozenset(_kind(part) for part in parts)
            folder.kinds.update(kinds)
            folder.stems.append(hash(stem))
            folder.extensions.update(part for part in parts if "." not in part and _kind(part) == "image")
            folder.has_pictures_only &= len(parts) == 1 and kinds == {"image"}
            # Names that end in a number may be parts of the samples of these numbers.
            match = NUMBERED.fullmatch(stem)
            folder.are_numbered &= match is not None
            if match and (match[1] in folder.numbers or len(folder.numbers) < _MAX_PREFIXES):
                prefixed = folder.numbers.setdefault(match[1], (set(), array("q")))
                prefixed[0].update(kinds)
                prefixed[1].append(hash((folder.names, match[2])))
            # Few names are kept whole, to find folders that are one sample.
            if len(folder.samples) <= _MAX_SAMPLES:
                folder.samples.add((stem, kinds))
        if len(folder.samples) > _MAX_SAMPLES:
            folder.samples.clear()
        return folder


@lru_cache(1024)
def _kind(part: str) -> str:
    kind = kind_of_name(part)
    return part_extension(part) if kind == "bytes" else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLayout:
    """The meaning of the names of folders.

    Attributes:
        split_depth: Number of folders above those that are split parts; None without such.
        classes: Class → its number: the sorted names of the folders, or of the folders in the split parts; empty for
            none.
    """

    split_depth: int | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    extensions: Sequence[str] = ()

    def split_of(self, names: Sequence[str]) -> str:
        """Return the split part of a folder; an empty text without split parts."""
        if self.split_depth is None:
            return ""
        return _split_at(names, self.split_depth) or NO_SPLIT

    def class_parts(self, names: Sequence[str]) -> dict[str, PartRef]:
        """Return the parts ``cls``, the number of the class, and ``json``, its name, of a picture in a folder."""
        name = next(iter(_without_split(names, self.split_depth)), "")
        if name not in self.classes:  # it is in no split part, or appeared after the folders were listed
            return {}
        # JSON holds no bytes that are not UTF-8.
        document = {"label_name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")}
        return {
            "cls": ValueRef(str(self.classes[name]).encode()),
            "json": ValueRef(msgspec.json.encode(document)),
        }


def find_folder_layout(
    folders: Sequence[ListedFolder],
    paths: Sequence[tuple[str, ...]],
    *,
    classes: bool | None,
    splits: bool | None,
    at: str,
) -> FolderLayout:
    """Find the meaning of the names of folders.

    Args:
        folders: All folders that have files.
        paths: The names of each that may tell split parts and classes.
        classes: True if folders are classes, False if not, None to decide by what is there: all files are pictures, at
            one depth, in two folders or more, whose names are neither all numbers of three digits or more, nor all
            names of parts, such as ``masks``.
        splits: True if folders are split parts, False if not, None to decide as :func:`_split_depth`.
    """
    # Find the folders that are split parts.
    depth = _split_depth(paths) if splits is None else (1 if _are_splits_below(paths) else 0) if splits else None
    if splits and not all(_split_at(path, depth or 0) for path in paths):
        other = next(path for path in paths if not _split_at(path, depth or 0))
        raise _no_folder_of(other, "a split part, such as train or val", at)
    # Files next to the split parts say nothing about classes.
    inner = [_without_split(path, depth) for path in paths if depth is None or _split_at(path, depth)]
    # Decide whether the folders below are classes.
    if classes is None:
        names = {path[0] for path in inner if path}
        classes = (
            len(names) > 1
            and all(len(path) == 1 for path in inner)
            and all(folder.has_pictures_only for folder in folders)
            and not all(name.isdecimal() and len(name) >= _NUMBER_DIGITS for name in names)
            and not all(split_of_folder(name) for name in names)
            and not all(map(ROLE_NAMES.fullmatch, names))
        )
    # Number the classes by their sorted names.
    if not classes:
        return FolderLayout(split_depth=depth)
    if () in inner:
        raise _no_folder_of(next(path for path in paths if not _without_split(path, depth)), "a class", at)
    return FolderLayout(
        split_depth=depth,
        classes={name: label for label, name in enumerate(sorted({path[0] for path in inner}))},
        extensions=sorted(set().union(*(folder.extensions for folder in folders))),
    )


def _split_depth(paths: Sequence[tuple[str, ...]]) -> int | None:
    """Return how many folders are above the split parts; None without split parts.

    Split parts are outer folders if all files are in folders with such names; or if there are two or more of them, and
    no more others: files outside are in no split part then. They are one folder down if each outer folder has them.
    """
    # Look at the outer folders, and then at the folders inside of them.
    outer = {path[0]: split_of_folder(path[0]) for path in paths if path}
    named = [split for split in outer.values() if split]
    if named and (
        (len(named) == len(outer) and () not in paths) or (len({*named}) > 1 and 2 * len(named) >= len(outer))
    ):
        return 0
    return 1 if _are_splits_below(paths) else None


def _are_splits_below(paths: Sequence[tuple[str, ...]]) -> bool:
    splits = {_split_at(path, 1) for path in paths}
    return "" not in splits and len(splits) > 1


def _split_at(names: Sequence[str], depth: int) -> str:
    return split_of_folder(names[depth]) if len(names) > depth else ""


def _without_split(names: Sequence[str], depth: int | None) -> tuple[str, ...]:
    return (*names,) if depth is None else (*names[:depth], *names[depth + 1 :])


def _no_folder_of(path: tuple[str, ...], what: str, at: str) -> ConfigError:
    inner = "/".join(path) or "the folder itself"
    return ConfigError(f"expected each file in a folder of {what}; found files in {inner}", at=at, hint="move them")


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
        # A folder is a sample, and its files are named parts.
        if self.by == "folder" and folder:
            return "/".join(folder), f"{part_name_of_column(stem)}."
        # Else the role of the file begins its part name, and the rest names the sample.
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
        """Return the path of a folder without the folder that names its role."""
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


_Roles = defaultdict[str, tuple[set[str], list[np.ndarray]]]
"""Folder or prefix that may be one part of each sample → kinds of its files, and hashes of what these share."""


def find_grouping(folders: Sequence[ListedFolder], by: GroupBy | None, *, at: str) -> Grouping:
    """Find what the files of a sample share; the user may have said it."""
    if by == "name" or not folders:
        return Grouping()
    # Try parallel folders first, then equal folders, then numbers.
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
    # Try each depth: the folders there differ, and the rest of the path names the sample.
    for depth in range(max(len(folder.names) for folder in folders)):
        roles: _Roles = defaultdict(lambda: (set(), []))
        for folder in folders:
            if len(folder.names) > depth:
                rest = hash((folder.names[:depth], folder.names[depth + 1 :]))
                kinds, hashes = roles[folder.names[depth]]
                kinds.update(folder.kinds)
                hashes.append(np.array(folder.stems) ^ rest)
        candidate = _matched(roles, "parallel", depth, is_named=is_named)
        if candidate is not None and (best is None or candidate[0] > best[0]):
            best = candidate
    return None if best is None else best[1]


def _numbered(folders: Sequence[ListedFolder], *, is_named: bool) -> Grouping | None:
    roles: _Roles = defaultdict(lambda: (set(), []))
    if not is_named and not all(folder.are_numbered for folder in folders):
        return None
    for folder in folders:
        for prefix, (kinds, numbers) in folder.numbers.items():
            roles[prefix][0].update(kinds)
            roles[prefix][1].append(np.array(numbers))
    match = _matched(roles, "number", 0, is_named=is_named)
    return None if match is None else match[1]


def _matched(roles: _Roles, by: GroupBy, depth: int, *, is_named: bool) -> tuple[int, Grouping] | None:
    """Return the number of matches between the main role and its partners, and the grouping that these are."""
    if len(roles) < 2:
        return None
    # Compare what roles share with the role that has the most.
    shared = {name: np.unique(np.concatenate(hashes)) for name, (_, hashes) in roles.items()}
    main = max(shared, key=lambda name: (bool(_MAIN_NAMES.fullmatch(name)), len(shared[name]), name))
    matches = {
        name: len(np.intersect1d(shared[main], hashes, assume_unique=True))
        for name, hashes in shared.items()
        if name != main
    }
    # Partners share at least half of theirs.
    names = [main, *(name for name, count in matches.items() if 2 * count >= len(shared[name]))]
    total = sum(matches[name] for name in names[1:])
    kinds = [roles[name][0] for name in names]
    # Names of parts, or files of different kinds, show that these are roles.
    are_roles = is_named or all(map(ROLE_NAMES.fullmatch, names)) or len(set().union(*kinds)) == sum(map(len, kinds))
    if len(names) < 2 or total < 2 - is_named or not are_roles or all(map(split_of_folder, names)):
        return None
    # Where two roles have files of one kind, their part names begin with the name of the role: jpg and masks.png.
    counts = Counter(chain.from_iterable(kinds))
    begins = {
        name: ""
        if all(counts[kind] == 1 for kind in role_kinds) or (name == main and _MAIN_NAMES.fullmatch(name))
        else f"{part_name_of_column(name)}."
        for name, role_kinds in zip(names, kinds, strict=True)
    }
    return total, Grouping(by=by, depth=depth, roles=begins)


def _are_samples(folders: Sequence[ListedFolder]) -> bool:
    """Return True if folders have files of the same names, which are no numbers of pictures."""
    # Count the folders that have the same files.
    inner = [folder for folder in folders if folder.names]
    sets = Counter(frozenset(folder.samples) for folder in inner)
    if not sets or all(split_of_folder(folder.names[-1]) for folder in inner):
        return False
    samples, count = sets.most_common(1)[0]
    # Their names without numbers differ: they are parts, not a series.
    words = {stem.rstrip("0123456789_- ") for stem, _ in samples}
    are_distinct = "" not in words and len(words) == len(samples) > 1
    # Else the folders are parts, and the names those of samples.
    are_roles = count > len(samples) or all(map(ROLE_NAMES.fullmatch, words))
    return are_distinct and are_roles and count > 1 and count >= _MIN_SHARE * len(inner)
