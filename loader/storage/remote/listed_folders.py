"""Folders of objects that were listed before."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from ..protocol import FileInfo


class ListedFolders:
    """The files of some folders as they were listed, without those that this storage has written since."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, FileInfo]] = {}  # folder → files below it, sorted by name
        self._names: dict[str, list[str]] = {}
        self._written: set[str] = set()  # files that were written or removed since

    def add(self, folder: str, files: Iterable[FileInfo]) -> None:
        listed = {file.name: file for file in files}
        # The folder that was listed last is looked up first.
        self._files = {folder: listed} | {other: old for other, old in self._files.items() if other != folder}
        self._names[folder] = list(self._files[folder])
        self._written = {name for name in self._written if not name.startswith(_start(folder))}

    def of(self, name: str) -> dict[str, FileInfo] | None:
        """Return the files of the listed folder that is, or contains, this name; None if no such folder was listed."""
        folder = self._folder(name)
        return None if folder is None else self._files[folder]

    def _folder(self, name: str) -> str | None:
        # A folder in which something was written since is not known any more.
        start = _start(name)
        if name in self._written or any(written.startswith(start) for written in self._written):
            return None
        return self._listed(name)

    def _listed(self, name: str) -> str | None:
        start = _start(name)
        return next((folder for folder in self._files if start.startswith(_start(folder))), None)

    def has(self, name: str) -> bool | None:
        folder = self._listed(name)
        if folder is None or name in self._written:
            return None
        if name in self._files[folder] or any(below not in self._written for below in self._below(folder, name)):
            return True
        # Nothing listed is left below it, but something may have been written.
        return None if self._folder(name) is None else False

    def visible(self, folder: str) -> Iterator[FileInfo] | None:
        """Return the files below a folder, without hidden folders in it, sorted; None if not known."""
        listed = self._listed(folder)
        start = _start(folder)
        if listed is None or any(name.startswith(start) and is_visible(name, folder) for name in self._written):
            return None
        return (self._files[listed][name] for name in self._below(listed, folder) if is_visible(name, folder))

    def _below(self, listed: str, folder: str) -> Iterator[str]:
        # Names are sorted, so the ones below a folder are neighbours.
        names, start = self._names[listed], _start(folder)
        for index in range(bisect_left(names, start), len(names)):
            if not names[index].startswith(start):
                return
            yield names[index]

    def note_written(self, name: str) -> None:
        if self._files:
            self._written.add(name)

    def names(self, name: str) -> list[str] | None:
        """Return the names of a file and of all below it that were listed or written; None if it was not listed."""
        listed = self._listed(name)
        if listed is None:
            return None
        named = [name] if name in self._files[listed] else []
        written = [path for path in self._written if f"{path}/".startswith(_start(name))]
        return sorted({*named, *self._below(listed, name), *written})

    def clear(self) -> None:
        self._files.clear()
        self._names.clear()
        self._written.clear()


def is_visible(name: str, folder: str) -> bool:
    """Return True if no folder between a folder and a file below it is hidden.

    >>> is_visible(".nv-meta/index.uuid", ".nv-meta"), is_visible(".nv-meta/.prepare/job.json", ".nv-meta")
    (True, False)
    """
    inner = name[len(folder) + 1 :] if folder else name
    return not any(part.startswith(".") for part in inner.split("/")[:-1])


def _start(folder: str) -> str:
    return f"{folder}/" if folder else ""
