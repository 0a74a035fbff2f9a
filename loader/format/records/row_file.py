"""A Parquet file as a file of numbered samples: each row is a sample, and each column one of its values.

Rows cannot be read alone: a row group is decoded as a whole. Shuffled reading may need more row groups in turn than the
cache holds, so the rows that were announced are taken from a group when it is decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...errors import SampleError
from ...storage import ReadableFile, Storage
from .record_file import RecordFile
from .row_groups import PartialRow, RowGroups, row_cache, serials


class RowFile(RecordFile):
    """The rows of a Parquet file; opening it needs pyarrow, and reads the footer."""

    decodes = False

    def __init__(self, storage: Storage, name: str) -> None:
        info = storage.stat(name)
        with RowGroups(storage, name, info) as groups:
            metadata = groups.metadata
            self.ends = np.cumsum(groups.rows)
            self.group_bytes = [metadata.row_group(one).total_byte_size for one in range(metadata.num_row_groups)]
            self.columns = {field.name: str(field.type) for field in groups.schema}
            super().__init__(storage, name, info, size_bytes=groups.size_bytes, part_names=tuple(self.columns))
            self._column_bytes = _column_bytes(metadata)
            self._expected: dict[int, list[int]] = {}  # row group → its announced rows
            self._serial = next(serials)
            self._footer = groups.checksum()

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def spans(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return -1 bytes for each row: rows are not byte ranges."""
        return np.zeros(len(numbers), np.int64), np.full(len(numbers), -1, np.int64)

    def expect(self, numbers: IntArray) -> None:
        """Announce rows that will be read soon: they are decoded together with the first one of their row group."""
        if len(numbers) > 1:
            groups = np.searchsorted(self.ends, numbers, side="right")
            for number, group in zip(numbers.tolist(), groups.tolist(), strict=True):
                self._expected.setdefault(group, []).append(number)

    def _open(self) -> ReadableFile:
        return RowGroups(self.storage, self.name, self._info)

    def read(self, file: ReadableFile, number: int) -> dict[str, Any]:
        """Read one row; neighbours in its row group are then in memory."""
        if not isinstance(file, RowGroups):
            raise TypeError(f"expected the file that open() returned, found {file!r}")
        ready = row_cache.take((self._serial, number))
        if ready is not None:
            return ready
        group = int(np.searchsorted(self.ends, number, side="right"))
        first = int(self.ends[group - 1]) if group else 0
        size_bytes = self.group_bytes[group] // max(1, int(self.ends[group]) - first)  # mean of a row
        for other in self._expected.pop(group, ()):
            if other != number and row_cache.has_room((self._serial, other), size_bytes):
                row_cache.add((self._serial, other), file.row(group, other - first), size_bytes)
        return file.row(group, number - first)

    def values(self, parts: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return the values of the row as Python objects."""
        if isinstance(parts, PartialRow):
            name, error = next(iter(parts.errors.items()))
            raise SampleError(
                f"column {name!r} cannot be read: {error}",
                key=f"{self.name}/{number}",
                part=name,
                source=self.path,
                hint="correct the value, or write the column with another type",
            )
        return dict(parts)

    def part_bytes(self) -> dict[str, int]:
        """Return the uncompressed size of each column."""
        return dict(self._column_bytes)

    def facts(self) -> dict[str, Any]:
        """Return the types of the columns, and the number and size of the row groups."""
        return {
            "columns": dict(self.columns),
            "row_groups": {"count": len(self.group_bytes), "largest_bytes": max(self.group_bytes, default=0)},
        }

    def fingerprint(self) -> bytes:
        """Return a checksum of the footer, which has the statistics of all columns."""
        return self._footer.to_bytes(4, "little")


def _column_bytes(metadata: Any) -> dict[str, int]:
    """Return the uncompressed bytes of each column; nested values count for their outermost column."""
    sizes: Counter[str] = Counter()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            sizes[column.path_in_schema.split(".", 1)[0]] += column.total_uncompressed_size
    return dict(sizes)
