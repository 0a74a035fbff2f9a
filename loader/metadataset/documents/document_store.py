"""The metadataset files of one tree: each is read once, and what is wrong with any of them is noted."""

from __future__ import annotations

import os

from ...errors import Fault
from ...storage import open_storage
from .parse import parse_metadataset
from .spec import MetadatasetSpec

__all__ = ["DocumentStore"]


class DocumentStore:
    """Reads metadatasets.

    Args:
        root: The absolute path of the file where the tree begins.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._faults: dict[Fault, None] = {}
        self._prefixes = {root: ""}
        self._specs: dict[str, MetadatasetSpec] = {}

    @property
    def faults(self) -> list[Fault]:
        """What is wrong, in the order in which it was noted."""
        return list(self._faults)

    def open(self, path: str) -> MetadatasetSpec:
        """Read a file; its own faults are noted.

        Raises:
            StorageError: The file cannot be read.
        """
        if path not in self._specs:
            folder, name = os.path.split(path)
            text = open_storage(folder).read(name).decode("utf-8", "replace")
            spec, faults = parse_metadataset(text, file=path)
            for fault in faults:
                self.fault(path, fault.place, fault.message)
            self._specs[path] = spec
        return self._specs[path]

    def place(self, file: str, place: str) -> str:
        """Give a place in a file as messages name it: in others than the root, with the file in front."""
        if file not in self._prefixes:
            inside = os.path.relpath(file, os.path.dirname(self.root))
            self._prefixes[file] = f"{file if inside.startswith('..') else inside}: "
        return self._prefixes[file] + place

    def fault(self, file: str, place: str, message: str) -> None:
        """Note what is wrong at a place; a file that is reached twice has its faults once."""
        self._faults[Fault(place=self.place(file, place).removesuffix(": "), message=message)] = None
