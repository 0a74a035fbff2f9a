"""Compare the pictures that annotations list with those that are on disk."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ...format.documents.part_kinds import part_kind
from ...storage import is_url
from ..rows.row import FileRef, PartRef

__all__ = ["ListedPictures"]


class ListedPictures:
    """The pictures on this machine that a file lists."""

    def __init__(self) -> None:
        self._names: defaultdict[str, set[str]] = defaultdict(set)  # folder → names of files
        self._missing = 0
        self._first_missing = ""

    def add(self, parts: Iterable[PartRef]) -> None:
        """Add the pictures of a row; those of URLs are ignored."""
        for part in parts:
            if not isinstance(part, FileRef) or is_url(os.fsdecode(part.path)):
                continue
            folder, name = os.path.split(os.fsdecode(part.path))
            self._names[folder].add(name)
            if part.size_bytes < 0:
                self._missing += 1
                self._first_missing = self._first_missing or os.path.join(folder, name)

    def notes(self, file: str) -> Iterator[str]:
        """Yield a note about pictures that are missing, and one about pictures that the file does not list."""
        if self._missing:
            yield f"missing pictures of {file}: {self._missing:,}, such as {self._first_missing}"
        unlisted, first = 0, ""
        for folder, names in self._names.items():
            try:
                others = sorted(name for name in os.listdir(folder) if name not in names and _is_picture(name))
            except OSError:
                continue  # the folder is missing, and so are its pictures
            unlisted += len(others)
            first = first or (os.path.join(folder, others[0]) if others else "")
        if unlisted:
            yield f"pictures that {file} does not list, next to those that it lists: {unlisted:,}, such as {first}"


def _is_picture(name: str) -> bool:
    return part_kind(name) == "image" and not name.startswith(".")
