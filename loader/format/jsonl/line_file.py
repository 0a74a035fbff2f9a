"""A JSONL file as a file of numbered samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...errors import FormatError
from ...storage import ReadableFile, Storage
from .index import open_jsonl_index, read_line
from .lines import BYTE_ORDER_MARK

LINE = "json"
"""Name of the one part of a sample."""

_ENDS = 1024


class LineFile:
    """The lines of an indexed JSONL file.

    Args:
        storage: Folder of the file.
        name: Name of the file in it.

    Raises:
        FormatError: The index is missing, damaged, or not of this file.
    """

    decodes = True

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage
        self.name = name
        index = open_jsonl_index(storage, name)
        self.offsets = index.offsets
        self._info = index.info
        self.size_bytes = int(self.offsets[-1])
        self._hint = f"run: energon prepare {storage.path(name)}"

    @property
    def part_names(self) -> tuple[str, ...]:
        """The one part of a sample."""
        return (LINE,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return the byte ranges of lines.

        Raises:
            FormatError: The index is damaged.
        """
        offsets = self.offsets
        start, stop = offsets[numbers].astype(np.int64), offsets[numbers + 1].astype(np.int64)
        if not ((start >= 0) & (start < stop) & (stop <= self.size_bytes)).all():
            raise FormatError(
                "the index of this file is damaged: its offsets do not ascend",
                shard=self.storage.path(self.name),
                hint=self._hint,
            )
        return start, stop - start

    def expect(self, numbers: IntArray) -> None:
        """Ignore the announcement: the storage prefetches byte ranges."""

    def open(self) -> ReadableFile:
        """Open the file.

        Raises:
            FormatError: Its size has changed since it was indexed.
            StorageError: It is missing or cannot be read.
        """
        file = self.storage.open(self.name, self._info)
        if file.size_bytes != self.size_bytes:
            file.close()
            raise FormatError(
                f"the file has changed since it was indexed: it had {self.size_bytes} bytes, now {file.size_bytes}",
                shard=self.storage.path(self.name),
                hint=self._hint,
            )
        return file

    def read(self, file: ReadableFile, number: int) -> dict[str, Any]:
        """Read one line.

        Raises:
            FormatError: The bytes are not a line with an object: the file changed after it was indexed.
        """
        return {LINE: read_line(file, self.offsets, number, path=self.storage.path(self.name))}

    def values(self, parts: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Remove the line break, blanks around the object, and a byte order mark."""
        line = parts[LINE].strip()
        return {LINE: line if number else line.removeprefix(BYTE_ORDER_MARK)}

    def part_bytes(self) -> dict[str, int]:
        """Return the size of the file."""
        return {LINE: self.size_bytes}

    def facts(self) -> dict[str, Any]:
        """Return no further facts."""
        return {}

    def fingerprint(self) -> bytes:
        """Return the first and last offsets."""
        return bytes(np.concatenate([self.offsets[:_ENDS], self.offsets[-_ENDS:]]).tobytes())
