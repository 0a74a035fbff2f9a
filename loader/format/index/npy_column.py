"""Write columns in numpy's ``.npy`` format in one pass, and read them through a memory map or in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...errors import FormatError, StorageError
from ...storage import ClosesOnExit, Storage, map_file, raise_storage_error
from ...storage.protocol import FAULTS_OF_PROCESS
from ..nv_meta import outdated

# As numpy writes it. numpy parses the header as Python and raises a dozen kinds of errors on damage.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '([^']*)', 'fortran_order': False, 'shape': \((\d{1,18}),\), \} *\n", re.DOTALL
)
_HEADER_BYTES = 256  # of which :class:`ColumnWriter` uses 128
_WRITTEN_HEADER_BYTES = 128
INTEGERS = re.compile(rb"[<|][iu][1248]")  # types of the columns of an index

NUMBERS = re.compile(rb"[<|](?:[iu][1248]|f[248]|b1)")  # types of values of samples: also floats and booleans


class ColumnWriter:
    """Writes a one-dimensional array piece by piece."""

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


def column_bytes(rows: int, dtype: str) -> int:
    """Return the size in bytes of a column that :class:`ColumnWriter` wrote.

    Args:
        dtype: Type with its bytes as the last digit, such as ``"<u8"``.
    """
    return _WRITTEN_HEADER_BYTES + rows * int(dtype[-1])


@contextmanager
def create_column(storage: Storage, name: str, dtype: str, *, durable: bool = True) -> Iterator[ColumnWriter]:
    """Create a column that appears whole at the end of the context, or not at all."""
    with storage.create(name, durable=durable) as file:
        column = ColumnWriter(file, dtype)
        yield column
        column.finish()


class ColumnReader(ClosesOnExit):
    """Reads a column piece by piece: a memory map of all of it would count as used memory."""

    def __init__(self, storage: Storage, name: str, *, accepted: re.Pattern[bytes] = INTEGERS) -> None:
        self._file = storage.open(name)
        try:
            start = self._file.read_at(0, _HEADER_BYTES)
            self._dtype, self._rows, self._offset = _parse_header(storage, name, start, self._file.size_bytes, accepted)
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        start, stop, _ = rows.indices(self._rows)
        width = self._dtype.itemsize
        return np.frombuffer(self._file.read_at(self._offset + start * width, (stop - start) * width), self._dtype)

    def close(self) -> None:
        self._file.close()


def map_column(storage: Storage, name: str, dtype: str | None, *, is_fixed: bool = True) -> npt.NDArray[np.generic]:
    """Map a column into memory, read-only, at a cost that does not depend on the number of rows.

    Args:
        dtype: The expected type; None accepts any number.
    """
    try:
        path = storage.copy_of_fixed(name) if is_fixed else str(storage.local_path(name))
        file = map_file(path)
        stored_dtype, rows, offset = _parse_header(
            storage, name, bytes(memoryview(file)[:_HEADER_BYTES]), len(file), NUMBERS if dtype is None else INTEGERS
        )
        if dtype is not None and stored_dtype != np.dtype(dtype):
            raise _unusable(storage, name, f"expected a column of {np.dtype(dtype).str!r}, found {stored_dtype.str!r}")
        # A plain array over a map: creating and indexing an np.memmap takes ten times as long.
        column = np.frombuffer(file, stored_dtype, rows, offset) if rows else np.empty(0, stored_dtype)
        column.flags.writeable = False
        return column
    except (StorageError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FAULTS_OF_PROCESS:
            raise_storage_error("map this column", storage.path(name), error)
        cause = error.message if isinstance(error, StorageError) else error
        raise _unusable(storage, name, f"cannot map this column: {cause}") from error


def _parse_header(
    storage: Storage, name: str, start: bytes, size_bytes: int, accepted: re.Pattern[bytes]
) -> tuple[np.dtype[Any], int, int]:
    """Return the type of a column, its number of rows, and the offset of the first one."""
    header = _HEADER.match(start)
    if header is None or int.from_bytes(header[1], "little") != header.end() - 10:
        raise _unusable(storage, name, f"expected a column of numbers, found {start[:40]!r}")
    if not accepted.fullmatch(header[2]):
        raise _unusable(storage, name, f"expected a column of numbers, found one of {header[2][:40]!r}")
    dtype, rows, offset = np.dtype(header[2].decode("ascii")), int(header[3]), header.end()
    expected_bytes = offset + rows * dtype.itemsize
    if size_bytes != expected_bytes:
        raise _unusable(storage, name, f"expected {expected_bytes} bytes for {rows} rows, found {size_bytes}")
    return dtype, rows, offset


def _unusable(storage: Storage, name: str, message: str) -> FormatError:
    return outdated(message, storage.path(name))
