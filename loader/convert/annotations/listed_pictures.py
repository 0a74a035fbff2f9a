"""Compare the pictures that annotations list with those that are on disk."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ...accounting import Account
from ...accounting.kinds import kind_of_name
from ...storage import is_url
from ..rows.row import FileRef, PartRef


class ListedPictures:
    """The pictures on this machine that files of annotations list."""

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

    def missing(self, file: str) -> Iterator[str]:
        """Yield a note about the pictures that are missing since the last note.

        Args:
            file: Path of the file that lists them.
        """
        if self._missing:
            yield f"missing pictures of {os.path.basename(file)}: {self._missing:,}, such as {self._first_missing}"
        self._missing, self._first_missing = 0, ""

    def leave_others(self, account: Account) -> None:
        """Count the listed pictures, and leave out those next to them that no file lists."""
        for folder, names in self._names.items():
            try:
                others = sorted(name for name in os.listdir(folder) if name not in names and _is_picture(name))
            except OSError:
                continue  # the folder is missing, and so are its pictures
            account.take("files", len(names))
            account.see("files", len(others))
            for name in others:
                path = os.path.join(folder, name)
                account.leave("files", "L111", path, size_bytes=os.stat(path).st_size)


def _is_picture(name: str) -> bool:
    return kind_of_name(name) == "image" and not name.startswith(".")
