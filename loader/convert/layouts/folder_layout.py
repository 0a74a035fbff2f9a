"""Find what the names of folders say: split parts and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from ...errors import ConfigError
from ...format.tar.names import marked
from ..rows.row import NO_SPLIT, PartRef, ValueRef
from ..tables.named_files import ROLE_NAMES
from ..tables.split_names import split_of_folder, splits_of_names

_NUMBER_DIGITS = 3  # folders that are all named after numbers as long are years, or pieces of a large folder


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLayout:
    """The meaning of the names of folders.

    Attributes:
        split_depth: Number of folders above those that are split parts; None without such.
        splits: Folders that are named after split parts, and the parts.
        classes: Class → its number: the sorted names of the folders, or of the folders in the split parts; empty for
            none.
        flat: Folders of split parts without folders of classes, sorted; their samples have no class.
        strays: Samples outside of the folders of classes, which have no class.
        have_initials: The outer folders are the first letters of the classes, as in ``a/abbey``.
        nested: Pairs of folders that may both be classes, as in ``animals/cats``; none if they are classes or others.
    """

    split_depth: int | None = None
    splits: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    flat: Sequence[str] = ()
    strays: int = 0
    have_initials: bool = False
    nested: Sequence[tuple[str, ...]] = ()

    def split_of(self, names: Sequence[str]) -> str:
        """Return the split part of a folder; an empty text without split parts."""
        if self.split_depth is None:
            return ""
        return _split_at(self.splits, names, self.split_depth) or NO_SPLIT

    def class_parts(self, names: Sequence[str]) -> dict[str, PartRef]:
        """Return the parts ``cls``, the number of the class, and ``json``, its name, of a picture in a folder."""
        inner = _without_split(names, self.split_depth)
        return self.parts_of_class("/".join(inner[1:] if self.have_initials else inner[:1]))

    def parts_of_class(self, name: str) -> dict[str, PartRef]:
        """Return the parts of the pictures of a class; none for another name."""
        if name not in self.classes:  # it is in no split part, or appeared after the folders were listed
            return {}
        # JSON holds no bytes that are not UTF-8.
        document = {"label_name": marked(name)}
        return {
            "cls": ValueRef(str(self.classes[name]).encode()),
            "json": ValueRef(msgspec.json.encode(document)),
        }


def find_folder_layout(
    paths: Sequence[tuple[str, ...]],
    *,
    are_pictures: bool,
    classes: bool | None,
    splits: bool | None,
    at: str,
    strays: int = 0,
) -> FolderLayout:
    """Find the meaning of the names of folders.

    Args:
        paths: The names of each folder with files, that may tell split parts and classes.
        are_pictures: All files are pictures.
        classes: True if folders are classes, False if not, None to decide by what is there: all files are pictures, at
            one depth, in two folders or more, whose names are neither all numbers of three digits or more, nor all
            names of parts, such as ``masks``.
        splits: True if folders are split parts, False if not, None to decide as :func:`_split_depth`.
        strays: Samples outside of all folders, if they are few; they have no class.
    """
    # Find the folders that are split parts.
    of_names = splits_of_names({path[1] for path in paths if len(path) > 1})
    of_names |= splits_of_names({path[0] for path in paths if path})
    depth = _split_depth(of_names, paths) if splits is None else None
    if splits:
        depth = 1 if _are_splits_below(of_names, paths) else 0
        other = next((path for path in paths if not _split_at(of_names, path, depth)), None)
        if other is not None:
            raise _no_folder_of(other, "a split part, such as train or val", at)
    # Files next to the split parts say nothing about classes, and neither does a split part without folders.
    below: dict[str, set[tuple[str, ...]]] = {}
    for path in paths:
        if depth is None or _split_at(of_names, path, depth):
            below.setdefault("" if depth is None else path[depth], set()).add(_without_split(path, depth))
    flat = sorted(part for part, inner in below.items() if inner == {()})
    flat = flat if len(flat) < len(below) else []
    inner = {path for part in below if part not in flat for path in below[part]}
    have_initials = len({path[0] for path in inner if path}) > 1 and all(map(_has_initial, inner))
    inner = {("/".join(path[1:]),) for path in inner} if have_initials else inner
    # Decide whether the folders below are classes.
    nested = list[tuple[str, ...]]()
    if classes is None:
        inner -= {()} if strays and depth is None else set()
        names = {path[0] for path in inner if path}
        classes = (
            len(names) > 1
            and all(len(path) == 1 for path in inner)
            and are_pictures
            and not all(name.isdecimal() and len(name) >= _NUMBER_DIGITS for name in names)
            and not all(split_of_folder(name) for name in names)
            and not all(map(ROLE_NAMES.fullmatch, names))
        )
        are_two = are_pictures and len(names) > 1 and all(len(path) == 2 for path in inner)
        nested = sorted(inner) if are_two and not any(map(_says_no_class, chain(*inner))) else []
    # Number the classes by their sorted names.
    if not classes:
        return FolderLayout(split_depth=depth, splits=of_names, nested=nested)
    if () in inner:
        bare = (path for path in paths if not _without_split(path, depth) and {*path}.isdisjoint(flat))
        raise _no_folder_of(next(bare), "a class", at)
    return FolderLayout(
        split_depth=depth,
        splits=of_names,
        classes={name: label for label, name in enumerate(sorted({path[0] for path in inner}))},
        flat=flat,
        strays=strays,
        have_initials=have_initials,
    )


def _split_depth(splits: Mapping[str, str], paths: Sequence[tuple[str, ...]]) -> int | None:
    """Return how many folders are above the split parts; None without split parts.

    Split parts are outer folders if all files are in folders with such names; or if there are two or more of them, and
    no more others: files outside are in no split part then. They are one folder down if each outer folder has them.
    """
    # Look at the outer folders, and then at the folders inside of them.
    outer = {path[0]: splits.get(path[0], "") for path in paths if path}
    named = [split for split in outer.values() if split]
    if named and (
        (len(named) == len(outer) and () not in paths) or (len({*named}) > 1 and 2 * len(named) >= len(outer))
    ):
        return 0
    return 1 if _are_splits_below(splits, paths) else None


def _are_splits_below(splits: Mapping[str, str], paths: Sequence[tuple[str, ...]]) -> bool:
    below = {_split_at(splits, path, 1) for path in paths}
    return "" not in below and len(below) > 1


def _says_no_class(name: str) -> bool:
    return name.isdecimal() or bool(split_of_folder(name) or ROLE_NAMES.fullmatch(name))


def _has_initial(path: Sequence[str]) -> bool:
    return len(path) > 1 and len(path[0]) == 1 and path[1].startswith(path[0])


def _split_at(splits: Mapping[str, str], names: Sequence[str], depth: int) -> str:
    return splits.get(names[depth], "") if len(names) > depth else ""


def _without_split(names: Sequence[str], depth: int | None) -> tuple[str, ...]:
    return (*names,) if depth is None else (*names[:depth], *names[depth + 1 :])


def _no_folder_of(path: tuple[str, ...], what: str, at: str) -> ConfigError:
    inner = "/".join(path) or "the folder itself"
    return ConfigError(f"expected each file in a folder of {what}; found files in {inner}", at=at, hint="move them")
