"""Describe what the files of a sample share."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..tables.named_files import part_name_of_column, split_name
from ..tables.source_options import GroupBy

NUMBERED = re.compile(r"(.*?)[-_ ]?(\d+)")
"""A name that ends in a number, and what precedes it."""


class Role(NamedTuple):
    """The piece of a path that shows which part of its sample a file is.

    Attributes:
        folder: Its folder at the position at which the paths of the files of a sample differ.
        prefix: What its name begins with, which may be all that precedes its number.
        suffix: What its name ends in.
    """

    folder: str = ""
    prefix: str = ""
    suffix: str = ""

    @property
    def name(self) -> str:
        return self.suffix or self.prefix or self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The files of samples.

    Attributes:
        by: What the files of a sample share.
        depth: Position of the folder that paths differ in; None where paths are equal.
        roles: Role → begin of its part names; an empty text for names that are the extension alone.
        split: The folder of the main files, if it is a split part next to folders of other split parts.
        pieces: Folder that also names a split part → the rest of its name, and the split part, as two folders:
            ``train_masks`` is ``masks/train``.
        inner: Folders that are named after a sample next to them, and hold further parts of it.
    """

    by: GroupBy = "name"
    depth: int | None = None
    roles: Mapping[Role, str] = field(default_factory=dict)
    split: str = ""
    pieces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()

    def sample_of(self, folder: tuple[str, ...], stem: str) -> tuple[str, str] | None:
        """Return the path of a file's sample, and the begin of its part names; None for a file outside of the roles.

        >>> roles = {Role("images"): "", Role("masks"): "masks."}
        >>> Grouping(by="parallel", depth=0, roles=roles).sample_of(("masks", "train"), "a")
        ('train/a', 'masks.')
        """
        # A folder is a sample, and its files are named parts.
        if folder and (self.by == "folder" or (self.inner and "/".join(folder) in self.inner)):
            path = "/".join(folder) if self.by == "folder" else self.role_of(folder[:-1], folder[-1])[1]
            return path, f"{part_name_of_column(without_folder(stem, folder[-1]))}."
        # Else the role of the file begins its part name, and the rest names the sample.
        role, path = self.role_of(folder, stem)
        return None if role is None else (path, self.roles[role])

    def path_of(self, name: str) -> str | None:
        """Return the path of the sample of a file; None for a file outside of the roles."""
        folder, stem, _ = split_name(name)
        if self.by == "name":
            return f"{folder}/{stem}"
        sample = self.sample_of(folder_names(folder), stem)
        return None if sample is None else sample[0]

    def role_of(self, folder: tuple[str, ...], stem: str) -> tuple[Role | None, str]:
        """Return the role of a file, which is None outside of all roles, and its path without the role."""
        pieces = self.pieces_of(folder)
        name = pieces[self.depth] if self.depth is not None and len(pieces) > self.depth else ""
        match = NUMBERED.fullmatch(stem) if self.by == "number" else None
        roles = (
            each
            for each in self.roles
            if each.folder == name
            and (match[1] == each.prefix if match else stem.startswith(each.prefix) and stem.endswith(each.suffix))
        )
        role = max(roles, key=lambda each: len(each.prefix) + len(each.suffix), default=None)
        rest = match[2] if match else stem.removeprefix(role.prefix).removesuffix(role.suffix) if role else stem
        return role, "/".join((*self.without_role(folder), rest))

    def pieces_of(self, folder: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of a folder, with the split parts that they name as folders of their own.

        >>> Grouping(pieces={"train_masks": ("masks", "train")}).pieces_of(("a", "train_masks", "b"))
        ('a', 'masks', 'train', 'b')
        """
        return tuple(piece for name in folder for piece in self.pieces.get(name, (name,)))

    def has_samples(self, folder: tuple[str, ...]) -> bool:
        """Return True if files of a folder may be parts of samples with others."""
        folder = self.pieces_of(folder)
        if self.depth is not None:
            return len(folder) > self.depth and any(role.folder == folder[self.depth] for role in self.roles)
        return self.by != "folder" or bool(folder)

    def without_role(self, folder: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a folder without the folder that names its role, or with the split part instead."""
        folder = self.pieces_of(folder)
        if self.depth is None or not self.has_samples(folder):
            return folder
        return (*folder[: self.depth], *filter(None, [self.split]), *folder[self.depth + 1 :])

    def describe(self) -> str:
        """Return what is the same in the names of a sample's files, for people."""
        shown = ", ".join(sorted(filter(None, ("/".join(filter(None, role)) for role in self.roles))))
        return {
            "name": "the same name",
            "folder": "the same folder",
            "parallel": f"the same path but for the folder: {shown}",
            "number": f"the same number behind {shown}",
            "suffix": f"the same name but for the suffix: {shown}",
        }[self.by]


def without_folder(stem: str, folder: str) -> str:
    """Return a name without the name of its folder, with which all files of the folder may begin."""
    return stem.removeprefix(folder).lstrip("_- .") or stem


def folder_names(folder: str) -> tuple[str, ...]:
    """Return the names of a folder and of the folders above it, outermost first."""
    return tuple(piece for piece in folder.split("/") if piece not in ("", "."))


def folders_above(name: str) -> Iterator[str]:
    """Yield the folder of a file or folder, and the folders above it, up to the outer one, which has no name.

    >>> [*folders_above("a/b/1.jpg")]
    ['a/b', 'a', '']
    """
    while name:
        name = name.rpartition("/")[0]
        yield name


def are_parallel(folder: str, other: str) -> bool:
    """Return True if the paths of two folders are equal but for one name, which may be several names in one of them.

    >>> are_parallel("a/images", "a/masks"), are_parallel("images/a", "more/masks/a"), are_parallel("a/x", "b/y")
    (True, True, False)
    """
    names, others = folder_names(folder), folder_names(other)
    before = posixpath.commonprefix([names, others])
    after = posixpath.commonprefix([names[len(before) :][::-1], others[len(before) :][::-1]])
    return min(len(names), len(others)) - len(before) - len(after) <= 1
