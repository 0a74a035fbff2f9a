"""Folders that were listed once: what is there is then known without a request for each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..protocol import FileInfo

__all__ = ["ListedFolders"]


class ListedFolders:
    """The files of some folders."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, FileInfo]] = {}

    def add(self, folder: str, files: Iterable[FileInfo]) -> None:
        """Add a folder with all its files, those of its folders too."""
        self._files[folder] = {file.name: file for file in files}

    def of(self, name: str) -> dict[str, FileInfo] | None:
        """Return the files of the folder that contains a name, or is it; None if no such folder was listed."""
        return next((files for folder, files in self._files.items() if f"{name}/".startswith(_start(folder))), None)

    def below(self, folder: str) -> Iterator[FileInfo] | None:
        """Return the files below a folder, sorted by name; None if it was not listed."""
        files = self.of(folder)
        if files is None:
            return None
        return (file for name, file in files.items() if name.startswith(_start(folder)))

    def clear(self) -> None:
        """Forget all: a file was written or removed."""
        self._files.clear()


def _start(folder: str) -> str:
    return f"{folder}/" if folder else ""
