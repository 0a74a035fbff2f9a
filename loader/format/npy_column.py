"""Columns in numpy's ``.npy`` format: written row by row in one pass, read through a memory map or in pieces."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..storage import Storage

__all__ = ["ColumnReader", "ColumnWriter", "create_column", "map_column"]

_HEADER_BYTES = 128  # what numpy's header of a one-dimensional array takes, padded


class ColumnWriter:
    """A one-dimensional array that grows at its end."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self.rows = 0
        self._file = file
        self._dtype = np.dtype(dtype)
        self._write_header()

    def append(self, values: npt.NDArray[np.generic]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.rows += len(values)

    def finish(self) -> None:
        self._file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads the header so that its length does not depend on the number of rows.
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.rows,)}
        np.lib.format.write_array_header_1_0(self._file, header)


@contextmanager
def create_column(storage: Storage, name: str, dtype: str) -> Iterator[ColumnWriter]:
    """Write a column that appears whole at the end of the context, or not at all."""
    with storage.create(name) as file:
        column = ColumnWriter(file, dtype)
        yield column
        column.finish()


class ColumnReader:
    """A column read piece by piece, where a memory map of all of it would count as memory used.

    Args:
        storage: Where the file is.
        name: A file that :class:`ColumnWriter` wrote.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._file = storage.open(name)
        start = io.BytesIO(self._file.read_at(0, _HEADER_BYTES))
        np.lib.format.read_magic(start)
        shape, _, self._dtype = np.lib.format.read_array_header_1_0(start)
        self._rows: int = shape[0]
        self._offset = start.tell()

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        start, stop, _ = rows.indices(self._rows)
        width = self._dtype.itemsize
        return np.frombuffer(self._file.read_at(self._offset + start * width, (stop - start) * width), self._dtype)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def map_column(storage: Storage, name: str, dtype: str) -> npt.NDArray[np.generic]:
    """Map a column into memory, read-only; costs the same for any number of rows.

    Raises:
        FormatError: The file is missing, is shorter than its header says, or holds another type.
    """
    try:
        # Not np.load, which also takes zip files and pickles for arrays. Mapping refuses columns of Python objects.
        column = np.lib.format.open_memmap(storage.local_path(name), mode="r")
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(
            f"cannot map this column of the index: {error}",
            shard=storage.path(name),
            do="run energon prepare again on this dataset",
        ) from error
    if column.dtype != np.dtype(dtype) or column.ndim != 1:
        raise FormatError(
            f"expected a column of {np.dtype(dtype)}, found {column.ndim} dimensions of {column.dtype}",
            shard=storage.path(name),
            do="run energon prepare again on this dataset",
        )
    # A plain array over the map: indexing np.memmap costs ten times as much.
    return np.asarray(column)
