"""A folder of files: files that share a name are the parts of a sample."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...accounting import Account, Unit
from ...errors import ConfigError
from ...storage import raise_storage_error
from ..rows.file_ref import file_ref
from ..rows.keys import key_of_path, unique_part
from ..rows.row import Row
from .folder_layout import FolderLayout, ListedFolder, find_folder_layout
from .source import Listing, SampleProposal, Source

__all__ = ["OF_THE_SYSTEM", "FolderSource", "group_files", "walk_files"]

OF_THE_SYSTEM = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
"""Names of files and folders that macOS and Windows leave next to the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource(Source):
    """The files of a folder and the folders below it.

    Files whose names differ only in their extension are a sample: ``a/b.jpg`` and ``a/b.txt`` are the parts ``jpg``
    and ``txt`` of ``a/b``. ``b.jpg.txt`` belongs to ``b.jpg``, and ``b.seg.png`` to ``b`` if there is one. Hidden files
    and folders are skipped, and so are links to folders above.

    Folders of pictures may be classes, ``cats/1.jpg`` and ``dogs/2.jpg``, which become the parts ``cls`` (the number of
    the class) and ``json`` (its ``label_name``). Outer folders may be split parts: ``train/cats/1.jpg``.

    Attributes:
        path: The folder.
        classes: Folders are classes; None decides by :func:`find_folder_layout`.
        splits: Outer folders are split parts; None decides by what is there.
    """

    path: str
    classes: bool | None = None
    splits: bool | None = None
    kind: str = "folder"

    def rows(self, listing: Listing) -> Iterator[Row]:
        """Yield the samples, sorted by folder and name.

        Raises:
            ConfigError: There are no files, or one is not in a folder of a class or split part, which it should be.
            StorageError: A folder cannot be listed.
        """
        layout, account = self._layout(), listing.account
        count = 0
        for folder, names in walk_files(os.path.abspath(self.path), account):
            inner = self._inner(folder)
            prefix = "".join(f"{name}/" for name in inner)
            account.use("files", len(names))
            for stem, parts in group_files(names):
                refs = {part: file_ref(os.path.join(folder, name)) for part, name in parts.items()}
                yield Row(
                    key=key_of_path(prefix + stem),
                    parts=refs if not layout.classes else {**layout.class_parts(inner), **refs},
                    origin=os.fsencode(prefix + next(iter(parts.values()))).decode("utf-8", "replace"),
                    split=layout.split_of(inner),
                )
                count += 1
        if not count:
            raise ConfigError(
                "this folder has no files that have an extension", at=self.path, hint="name the folder of the files"
            )

    def proposal(self) -> SampleProposal | None:
        """Return the type for pictures in folders of classes; None for others, whose parts tell it."""
        layout = self._layout()
        if not layout.classes or not layout.extensions:
            return None
        return SampleProposal(
            sample_type="ImageClassificationSample",
            field_map={"image": ",".join(layout.extensions), "label": "cls", "label_name": "json[label_name]"},
        )

    def _layout(self) -> FolderLayout:
        if self.classes is False and self.splits is False:
            return FolderLayout()
        folders = [
            ListedFolder.of(self._inner(folder), group_files(names))
            for folder, names in walk_files(os.path.abspath(self.path), Account())
        ]
        return find_folder_layout(folders, classes=self.classes, splits=self.splits, at=self.path)

    def _inner(self, folder: str) -> tuple[str, ...]:
        inner = os.path.relpath(folder, os.path.abspath(self.path))
        return () if inner == "." else tuple(inner.split("/"))


def group_files(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Group the files of a folder to samples.

    Args:
        names: Names of files.

    Returns:
        For each sample its name without the extension, and its parts: part name → file name; sorted.

    >>> group_files(["b.jpg", "a.jpg", "a.txt", "b.jpg.json", "b.seg.png"])
    [('a', {'jpg': 'a.jpg', 'txt': 'a.txt'}), ('b', {'jpg': 'b.jpg', 'json': 'b.jpg.json', 'seg.png': 'b.seg.png'})]
    """
    present = set(names)
    stems = {name.rpartition(".")[0] for name in names}
    samples: dict[str, dict[str, str]] = {}
    for name in sorted(names):
        stem, _, extension = name.rpartition(".")
        part = extension.lower()
        if stem in present:  # b.jpg.txt next to b.jpg
            stem = stem.rpartition(".")[0]
        else:
            first, _, inner = stem.partition(".")
            if inner and first in stems:  # b.seg.png next to b.jpg
                stem, part = first, f"{inner}.{extension}".lower()
        parts = samples.setdefault(stem, {})
        parts[unique_part(part, parts)] = name  # a.jpg and a.JPG
    return sorted(samples.items())


def walk_files(top: str, account: Account) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder with the names of its files that can be parts, sorted by folder.

    Hidden files and folders are not counted. Files without an extension, and those of the operating system, are left
    out of the account; the caller decides on the files that are yielded.

    Args:
        top: The outer folder, an absolute path. Links to folders are followed, but not to folders above.
        account: Counts the files.
    """

    def leave(folder: str, name: str, code: str, *, size_bytes: int = 0, unit: Unit = "files") -> None:
        example = os.path.relpath(os.path.join(folder, name), top)
        account.see(unit)
        account.leave(unit, code, example, size_bytes=size_bytes)

    def unreadable(error: OSError) -> None:
        if error.filename == top:
            raise_storage_error("list this folder", top, error)
        leave(error.filename or top, "", "L109")

    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(top, onerror=unreadable, followlinks=True):
        # A link to a folder above would never end.
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            leave(folder, "", "L104")
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not (name.startswith(".") or name in OF_THE_SYSTEM))
        names: list[str] = []
        for name in files:
            if name.startswith(".") and not name.startswith("._"):
                continue
            if name.startswith("._") or name in OF_THE_SYSTEM:
                leave(folder, name, "L108", size_bytes=_size(folder, name))
            elif "." not in name.rstrip("."):
                leave(folder, name, "L101", size_bytes=_size(folder, name))
            else:
                names.append(name)
        account.see("files", len(names))
        if names:
            yield folder, names


def _size(folder: str, name: str) -> int:
    try:
        return os.stat(os.path.join(folder, name)).st_size
    except OSError:
        return 0  # a link without a target
