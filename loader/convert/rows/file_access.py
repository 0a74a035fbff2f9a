"""Decide which files of this machine the data of sources may name: paths in tables, and links in folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from ...format.tar.names import marked
from ...storage import open_parent
from .row import FaultRef, FileRef, PartRef

_MAX_FOLDERS = 10_000  # whose permission is remembered
_ANNOTATION_FOLDERS = frozenset({"annotations", "annotation", "anns", "ann", "labels", "captions", "questions"})
"""Names of folders that hold the annotations of the pictures next to them, as those of COCO."""


@dataclass(slots=True)
class RefusedFiles:
    """Files that were refused.

    Attributes:
        parent: The folder that contains all of them.
        example: The first cell or link.
    """

    count: int = 0
    parent: str = ""
    example: str = ""

    def add(self, target: str, example: str) -> None:
        """Add a file at a path without links."""
        folder = os.path.dirname(target)
        self.parent = os.path.commonpath([self.parent, folder]) if self.count else folder
        self.example = self.example or example
        self.count += 1


class FileAccess:
    """Allows files below the folders of a source, and refuses others.

    What counts is the file that a path leads to, after all links. Below ``snapshots`` of a Hub cache, links may lead to
    the ``blobs`` of the same repository.

    Args:
        allow_outside: Paths in tables may name any file.
        follow_links: Links in folders may lead to any file.

    Attributes:
        paths: Refused paths that are absolute, or start from a folder outside of the source.
    """

    def __init__(self, *, allow_outside: bool = False, follow_links: bool = False) -> None:
        self.allow_outside = allow_outside
        self.follow_links = follow_links
        self.paths = RefusedFiles()
        self.links = RefusedFiles()
        self._seen_links: set[str] = set()  # a folder is listed several times
        self._folders: dict[tuple[str, tuple[str, ...]], bool] = {}  # folder and roots → it is below one

    def ref(
        self, path: str, roots: tuple[str, ...], *, is_absolute: bool = False, named_by_contents: bool = False
    ) -> PartRef:
        """Return the reference to a file; one that fails if the file is refused or there is none.

        Args:
            roots: Folders that the source may read.
            is_absolute: The data has the whole path, so that another root allows it.
        """
        # Follow the path to the file it leads to.
        try:
            status = os.lstat(path)
        except (OSError, ValueError):  # there is none, or a zero byte in its name
            status = None
        is_link = status is not None and stat.S_ISLNK(status.st_mode)
        target = "" if self.allow_outside else self._outside(path, roots, is_link=is_link)
        # Allow it, or note what was refused.
        if not target or (self.follow_links and ".." not in path.split("/") and is_below(path, roots)):
            return file_ref(path, named_by_contents=named_by_contents, status=None if is_link else status)
        if is_absolute:
            self.paths.add(target, path)
        leads = "" if target == path else f", it leads to {target}"
        reason = f"{path!r} is outside of {' and '.join(roots)}{leads}"
        return FaultRef(
            marked(reason),
            hint="name the folder of the files with --root, or allow any file with --allow-outside",
            code="F105",
        )

    def is_refused_link(self, path: str, root: str) -> bool:
        """Return True for a link in a folder that leads out of it."""
        target = "" if self.follow_links else self._outside(path, (root,), is_link=True)
        if target and path not in self._seen_links:
            self._seen_links.add(path)
            self.links.add(target, path)
        return bool(target)

    def _outside(self, path: str, roots: tuple[str, ...], *, is_link: bool) -> str:
        """Return the path of a file without links if it is outside of folders; an empty text if it is in one."""
        # Many files are in one folder, whose permission is remembered.
        folder, _, name = path.rpartition("/")
        inner = self._folders.get((folder, roots))
        if inner is None:
            if len(self._folders) >= _MAX_FOLDERS:
                self._folders.clear()
            inner = self._folders[folder, roots] = is_below(_real(folder or "/"), _real_roots(roots))
        if inner and name not in ("", ".", "..") and not is_link:
            return ""
        # Links and dots may lead anywhere.
        target = _real(path)
        return "" if is_below(target, _real_roots(roots)) else target


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a zero byte
        return os.path.normpath(path)


def _real_roots(roots: Sequence[str]) -> list[str]:
    """Return the paths of folders without links, and of the blobs of a Hub cache if a snapshot is among them."""
    real = [_real(root) for root in roots]
    return [*real, *(f"{root.rpartition('/snapshots/')[0]}/blobs" for root in real if "/snapshots/" in root)]


def data_folder(path: str) -> str:
    """Return the folder that the paths in a table or an annotation file may name files of, by default.

    It is the file's folder, or the folder above if that is named after annotations.

    >>> data_folder("/data/t.csv"), data_folder("/coco/annotations/instances_val2017.json")
    ('/data', '/coco')
    """
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder).lower() in _ANNOTATION_FOLDERS else folder


def is_below(path: str, roots: Sequence[str]) -> bool:
    """Return True for a path that is one of folders, or below one."""
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def file_ref(path: str, *, named_by_contents: bool = False, status: os.stat_result | None = None) -> PartRef:
    """Return the reference to a file; one without a size if there is no such file, so that reading it fails."""
    name = os.fsencode(path)
    try:
        status = status or os.stat(path)
    except (OSError, ValueError):  # a dangling link, or a name with a zero byte
        return FileRef(name, named_by_contents=named_by_contents)
    # A folder or pipe fails when it is read.
    if not stat.S_ISREG(status.st_mode):
        return FileRef(name, named_by_contents=named_by_contents)
    return FileRef(name, status.st_size, str(status.st_mtime_ns), named_by_contents)


def file_version(path: str) -> str:
    """Return a text that differs after a change of a file: its version in an object store, or its time of change."""
    storage, name = open_parent(path)
    return storage.stat(name).version
