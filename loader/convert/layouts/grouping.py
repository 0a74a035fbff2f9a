"""Describe what the files of a sample share, and the folders of a tree in which it is searched."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ...accounting.kinds import kind_of_name, part_extension
from ..tables.columns import GroupBy
from ..tables.named_files import part_name_of_column

NUMBERED = re.compile(r"(.*?)[-_ ]?(\d+)")
"""A name that ends in a number, and what precedes it."""
_MAX_PREFIXES = 32  # of numbers in a folder
_MAX_SAMPLES = 32  # of a folder that may be one sample, with all its files


@dataclass(slots=True)
class ListedFolder:
    """A folder that has files, without their names: trees have millions.

    Attributes:
        names: Names of the folders above it, and its folder_name; empty for the folder of the source.
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
        folder_name = names[-1] if names else ""
        of_folder = hash(folder.names)
        known: dict[tuple[str, ...], frozenset[str]] = {}  # kinds of parts: most samples have the same parts
        for stem, parts in samples:
            # Note kinds and names, as hashes: a folder may have millions of files.
            kinds = known.get(part_names := (*parts,))
            if kinds is None:
                kinds = known[part_names] = frozenset(_kind(part) for part in parts)
                folder.kinds.update(kinds)
                folder.extensions.update(part for part in parts if "." not in part and _kind(part) == "image")
                folder.has_pictures_only &= len(parts) == 1 and kinds == {"image"}
            folder.stems.append(hash(stem))
            # Names that end in a number may be parts of the samples of these numbers.
            match = NUMBERED.fullmatch(stem) if stem[-1:].isdecimal() else None
            folder.are_numbered &= match is not None
            if match and (match[1] in folder.numbers or len(folder.numbers) < _MAX_PREFIXES):
                of_kinds, numbers = folder.numbers.get(match[1]) or folder.numbers.setdefault(
                    match[1], (set(), array("q"))
                )
                of_kinds.update(kinds)
                numbers.append(hash(match[2]) ^ of_folder)
            # Few names are kept whole, to find folders that are one sample.
            if len(folder.samples) <= _MAX_SAMPLES:
                folder.samples.add((_without_folder(stem, folder_name), kinds))
        if len(folder.samples) > _MAX_SAMPLES:
            folder.samples.clear()
        return folder


@lru_cache(1024)
def _kind(part: str) -> str:
    kind = kind_of_name(part)
    return part_extension(part) if kind == "bytes" else kind


def _without_folder(stem: str, folder: str) -> str:
    """Return a name without the name of its folder, with which all files of the folder may begin."""
    return stem.removeprefix(folder).lstrip("_- .") or stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The files of samples.

    Attributes:
        by: What the files of a sample share.
        depth: Position of the folder that paths differ in, of parallel folders.
        roles: Folder at this position, prefix of numbers, or suffix of names → begin of its part names; an empty text
            for names that are the extension alone. A folder whose names have a suffix is ``"masks/_mask"``.
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
            return "/".join(folder), f"{part_name_of_column(_without_folder(stem, folder[-1]))}."
        # Else the role of the file begins its part name, and the rest names the sample.
        role, path = self.role_of(folder, stem), (*folder, stem)
        if self.by == "parallel" and self.has_samples(folder):
            path = (*self.without_role(folder), stem.removesuffix(role.partition("/")[2]))
        elif self.by == "number" and (match := NUMBERED.fullmatch(stem)):
            path = (*folder, match[2])
        elif self.by == "suffix":
            path = (*folder, stem.removesuffix(role))
        return ("/".join(path), self.roles[role]) if role in self.roles else None

    def role_of(self, folder: tuple[str, ...], stem: str) -> str:
        """Return the folder, prefix or suffix that shows what part of its sample a file is."""
        if self.by == "parallel":
            return self._suffixed_role(folder[self.depth], stem) if self.has_samples(folder) else ""
        if self.by == "number":
            match = NUMBERED.fullmatch(stem)
            return match[1] if match else ""
        return max((each for each in self.roles if stem.endswith(each)), key=len, default="")

    def has_samples(self, folder: tuple[str, ...]) -> bool:
        """Return True if files of a folder may be parts of samples with others."""
        if self.by == "parallel":
            return len(folder) > self.depth and folder[self.depth] in self.role_folders
        return self.by != "folder" or bool(folder)

    def without_role(self, folder: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a folder without the folder that names its role."""
        is_parallel = self.by == "parallel"
        return (*folder[: self.depth], *folder[self.depth + 1 :]) if is_parallel else folder

    @property
    def role_folders(self) -> Collection[str]:
        return _role_folders(*self.roles)

    def _suffixed_role(self, folder: str, stem: str) -> str:
        roles = (role for role in self.roles if role.partition("/")[0] == folder)
        return max((role for role in roles if stem.endswith(role.partition("/")[2])), key=len, default="")

    def describe(self) -> str:
        """Return what is the same in the names of a sample's files, for people."""
        shown = ", ".join(sorted(self.roles))
        return {
            "name": "the same name",
            "folder": "the same folder",
            "parallel": f"the same path but for the folder: {shown}",
            "number": f"the same number behind {shown}",
            "suffix": f"the same name but for the suffix: {shown.removeprefix(', ')}",
        }[self.by]


@lru_cache(64)
def _role_folders(*roles: str) -> frozenset[str]:
    return frozenset(role.partition("/")[0] for role in roles)


def role_of_parts(folder: str, suffix: str) -> str:
    """Return the role of the files of a folder whose names end in a suffix."""
    return f"{folder}/{suffix}" if suffix else folder


def folder_names(folder: str) -> tuple[str, ...]:
    """Return the names of a folder and of the folders above it, outermost first."""
    return tuple(piece for piece in folder.split("/") if piece not in ("", "."))


def are_parallel(folder: str, other: str) -> bool:
    """Return True if the paths of two folders are equal but for one name, which may be several names in one of them.

    >>> are_parallel("a/images", "a/masks"), are_parallel("images/a", "more/masks/a"), are_parallel("a/x", "b/y")
    (True, True, False)
    """
    names, others = folder_names(folder), folder_names(other)
    before = posixpath.commonprefix([names, others])
    after = posixpath.commonprefix([names[len(before) :][::-1], others[len(before) :][::-1]])
    return min(len(names), len(others)) - len(before) - len(after) <= 1
