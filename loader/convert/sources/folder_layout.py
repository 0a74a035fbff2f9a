"""Find the split parts and the classes that the folders of pictures are named after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ...accounting.kinds import kind_of_name
from ...errors import ConfigError
from ..annotations.split_names import split_of_folder
from ..rows.row import PartRef, ValueRef

__all__ = ["FolderLayout", "ListedFolder", "find_folder_layout"]

_NUMBER_DIGITS = 3  # folders that are all named after numbers as long are years, or pieces of a large folder


@dataclass(frozen=True, slots=True)
class ListedFolder:
    """A folder that has files.

    Attributes:
        names: Names of the folders above it, and its own; empty for the folder of the source.
        extensions: Extensions of the pictures in it.
        has_pictures_only: Each sample in it is one picture.
    """

    names: tuple[str, ...]
    extensions: frozenset[str]
    has_pictures_only: bool

    @classmethod
    def of(cls, names: Sequence[str], samples: Iterable[tuple[str, Mapping[str, str]]]) -> ListedFolder:
        """Return a folder with these samples, each with its parts."""
        extensions: set[str] = set()
        has_pictures_only = True
        for _, parts in samples:
            pictures = [part for part in parts if kind_of_name(part) == "image"]
            extensions.update(part for part in pictures if "." not in part)
            has_pictures_only = has_pictures_only and len(pictures) == len(parts) == 1
        return cls(tuple(names), frozenset(extensions), has_pictures_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLayout:
    """The meaning of the names of folders.

    Attributes:
        has_splits: The outer folders are split parts.
        classes: Class → its number: the names of the folders, or of those in the split parts, sorted; empty for none.
        extensions: Extensions of pictures, sorted.
    """

    has_splits: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    extensions: Sequence[str] = ()

    def split_of(self, names: Sequence[str]) -> str:
        """Return the split part of a folder; an empty text for none."""
        return split_of_folder(names[0]) if self.has_splits else ""

    def class_parts(self, names: Sequence[str]) -> dict[str, PartRef]:
        """Return the parts ``cls``, the number of the class, and ``json``, its name, of a picture in a folder."""
        if not self.classes:
            return {}
        name = names[self.has_splits]
        document = {"label_name": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")}
        return {
            "cls": ValueRef(str(self.classes[name]).encode()),
            "json": ValueRef(msgspec.json.encode(document)),
        }


def find_folder_layout(
    folders: Sequence[ListedFolder], *, classes: bool | None, splits: bool | None, at: str
) -> FolderLayout:
    """Find the meaning of the names of folders.

    Args:
        folders: All folders that have files.
        classes: True if folders are classes, False if not, None to decide by what is there: all files are pictures, at
            one depth, in two folders or more, whose names are not all numbers of three digits or more.
        splits: True if the outer folders are split parts, False if not, None to decide by what is there: all files are
            in folders that are named after two split parts or more.
        at: The folder of the source, for messages.

    Raises:
        ConfigError: ``classes`` or ``splits`` is True, and a file is in no such folder.
    """
    found = {split_of_folder(folder.names[0]) if folder.names else "" for folder in folders}
    has_splits = ("" not in found and len(found) > 1) if splits is None else splits
    if has_splits and "" in found:
        other = next(folder for folder in folders if not folder.names or not split_of_folder(folder.names[0]))
        raise _no_folder_of(other, "a split part, such as train or val", at)
    inner = [folder.names[has_splits:] for folder in folders]
    if classes is None:
        names = {path[0] for path in inner if path}
        classes = (
            len(names) > 1
            and all(len(path) == 1 for path in inner)
            and all(folder.has_pictures_only for folder in folders)
            and not all(name.isdecimal() and len(name) >= _NUMBER_DIGITS for name in names)
            and not all(split_of_folder(name) for name in names)
        )
    if not classes:
        return FolderLayout(has_splits=has_splits)
    for folder, path in zip(folders, inner, strict=True):
        if not path:
            raise _no_folder_of(folder, "a class", at)
    return FolderLayout(
        has_splits=has_splits,
        classes={name: number for number, name in enumerate(sorted({path[0] for path in inner}))},
        extensions=sorted(frozenset().union(*(folder.extensions for folder in folders))),
    )


def _no_folder_of(folder: ListedFolder, what: str, at: str) -> ConfigError:
    inner = "/".join(folder.names) or "the folder itself"
    return ConfigError(f"expected each file in a folder of {what}; found files in {inner}", at=at, hint="move them")
