"""The metadataset files of one tree: each is read once, and what is wrong with any of them is noted."""

from __future__ import annotations

import os

from ..errors import Fault
from ..storage import open_storage
from .metadataset_spec import MetadatasetSpec
from .parse_metadataset import parse_metadataset

__all__ = ["DocumentStore"]


class DocumentStore:
    """Reads metadatasets.

    Args:
        root: The absolute path of the file where the tree begins.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.faults: list[Fault] = []
        self._specs: dict[str, MetadatasetSpec] = {}

    def open(self, path: str) -> MetadatasetSpec:
        """Read a file; its own faults are noted.

        Raises:
            StorageError: The file cannot be read.
        """
        if path not in self._specs:
            folder, name = os.path.split(path)
            text = open_storage(folder).read(name).decode("utf-8", "replace")
            spec, faults = parse_metadataset(text, file=path)
            self.faults += (Fault(place=self.place(path, fault.place), found=fault.found) for fault in faults)
            self._specs[path] = spec
        return self._specs[path]

    def place(self, file: str, place: str) -> str:
        """Give a place in a file as messages name it: in others than the root, with the file in front."""
        if file == self.root:
            return place
        inside = os.path.relpath(file, os.path.dirname(self.root))
        shown = file if inside.startswith("..") else inside
        return f"{shown}: {place}" if place else shown

    def fault(self, file: str, place: str, found: str) -> None:
        """Note what is wrong at a place."""
        self.faults.append(Fault(place=self.place(file, place), found=found))
