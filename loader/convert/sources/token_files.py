"""Token files of Megatron-LM (``.bin`` and ``.idx``): a sample for each sequence."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import FormatError, SampleError
from ...format.records.record_file import RecordReader, open_record_path
from ..rows.row import CellRef, Row
from .source import Listing, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource(Source):
    """The sequences of a token file, each an array in a part ``npy``.

    Attributes:
        path: The ``.bin`` file, or both files without their extension.
    """

    path: str
    kind: str = "tokens"

    def rows(self, listing: Listing) -> Iterator[Row]:  # noqa: ARG002 - sequences are read in any order
        """Yield the sequences.

        Raises:
            FormatError: The files are damaged.
            StorageError: They cannot be read.
        """
        file = open_record_path(self.path)
        digits = len(str(max(0, len(file) - 1)))
        for number in range(len(file)):
            part = CellRef(number, "npy")
            yield Row(key=f"{number:0{digits}d}", parts={"npy": part}, origin=f"{self.path}, sequence {number}")

    def open_cells(self) -> _TokenReader:
        """Open the files."""
        return _TokenReader(self.path)


class _TokenReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._reader = RecordReader(open_record_path(path))

    def read(self, cell: CellRef) -> bytes:
        try:
            parts = self._reader.read_parts(cell.row)
        except FormatError as error:
            raise SampleError(error.message, source=f"{self._path}, sequence {cell.row}") from error
        data = io.BytesIO()
        np.save(data, np.asarray(next(iter(parts.values()))), allow_pickle=False)
        return data.getvalue()

    def close(self) -> None:
        self._reader.close()
