"""Write columns in numpy's ``.npy`` format in one pass, and read them through a memory map or in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...errors import FormatError, StorageError, plural
from ...storage import ClosesOnExit, Storage, map_file, raise_storage_error
from ...storage.protocol import FAULTS_OF_PROCESS
from ..nv_meta import outdated

# As numpy writes it. numpy parses the header as Python and raises a dozen kinds of errors on damage.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '([^']*)', 'fortran_order': False, 'shape': \((\d{1,18}),(?: (\d{1,7}))?\), \} *"
    rb"\n",
    re.DOTALL,
)
_WRITTEN_HEADER_BYTES = 128  # as numpy pads it
_HEADER_BYTES = 2 * _WRITTEN_HEADER_BYTES  # other versions of numpy may pad it further
MAX_VECTOR = 1 << 20
"""Most elements of a vector: 4 MiB of float32, above all embeddings."""

INTEGERS = re.compile(rb"[<|][iu][1248]")  # types of the columns of an index


class ColumnWriter:
    """Appends the pieces of an array to a file, behind the place of its header."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self.rows = 0
        self.dtype = np.dtype(dtype)
        self._file = file
        file.write(bytes(_WRITTEN_HEADER_BYTES))

    def append(self, values: npt.NDArray[np.generic]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self.dtype).view(np.uint8).data)  # dates have no buffer
        self.rows += len(values)


def column_bytes(rows: int, dtype: str) -> int:
    """Return the size in bytes of a column that :func:`create_column` wrote.

    Args:
        dtype: Type with its bytes as the last digit, such as ``"<u8"``.
    """
    return _WRITTEN_HEADER_BYTES + rows * int(dtype[-1])


@contextmanager
def create_column(
    storage: Storage, name: str, dtype: str, *, length: int = 0, durable: bool = True
) -> Iterator[ColumnWriter]:
    """Create a column that appears whole at the end of the context, or not at all.

    Args:
        length: Elements of each vector; 0 for numbers.
    """
    with storage.create(name, durable=durable) as file:
        column = ColumnWriter(file, dtype)
        yield column
        # numpy pads the header to the same length for any number of rows.
        file.seek(0)
        shape = (column.rows, length) if length else (column.rows,)
        header = {"descr": column.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)


class ColumnReader(ClosesOnExit):
    """Reads a column piece by piece: a memory map of all of it would count as used memory."""

    def __init__(self, storage: Storage, name: str, *, accepted: re.Pattern[bytes] = INTEGERS, length: int = 0) -> None:
        self._file = storage.open(name)
        try:
            start = self._file.read_at(0, _HEADER_BYTES)
            self._dtype, self._shape, self._offset = _parse_header(
                storage, name, start, self._file.size_bytes, accepted, length=length
            )
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return self._shape[0]

    def without_values(self) -> npt.NDArray[Any]:
        """Return an array of the column's type and shape whose rows are one row of zeros in memory."""
        return np.broadcast_to(np.zeros((), self._dtype), self._shape)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        width = self._dtype.itemsize * (self._shape[1] if self._shape[1:] else 1)
        data = self._file.read_at(self._offset + start * width, (stop - start) * width)
        return np.frombuffer(data, self._dtype).reshape(-1, *self._shape[1:])

    def close(self) -> None:
        self._file.close()


def map_column(
    storage: Storage,
    name: str,
    dtype: str | None,
    *,
    accepted: re.Pattern[bytes] = INTEGERS,
    length: int = 0,
    is_fixed: bool = True,
) -> npt.NDArray[np.generic]:
    """Map a column into memory, read-only, at a cost that does not depend on the number of rows.

    Args:
        dtype: The expected type; None for any that is accepted.
        accepted: Pattern of the types, as numpy writes them.
        length: Elements of each vector; 0 for numbers.
    """
    with _mapping(storage, name):
        file = map_file(storage.local_path(name, is_fixed=is_fixed))
        start = bytes(memoryview(file)[:_HEADER_BYTES])
        stored, shape, offset = _parse_header(storage, name, start, len(file), accepted, length=length)
        if dtype is not None and stored != np.dtype(dtype):
            raise _unusable(storage, name, f"expected a column of {np.dtype(dtype).str!r}, found {stored.str!r}")
        # A plain array over a map: creating and indexing an np.memmap takes ten times as long.
        count = int(np.prod(shape))
        column = (np.frombuffer(file, stored, count, offset) if count else np.empty(0, stored)).reshape(shape)
        column.flags.writeable = False
        return column


def map_bytes(storage: Storage, name: str) -> memoryview:
    """Map a file next to a column into memory, read-only; an empty one is not mapped."""
    with _mapping(storage, name):
        info = storage.stat(name)
        return memoryview(map_file(storage.local_path(name, info)) if info.size_bytes else b"").cast("B")


@contextmanager
def _mapping(storage: Storage, name: str) -> Iterator[None]:
    try:
        yield
    except (StorageError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in FAULTS_OF_PROCESS:
            raise_storage_error("map this column", storage.path(name), error)
        cause = error.message if isinstance(error, StorageError) else error
        raise _unusable(storage, name, f"cannot map this column: {cause}") from error


def _parse_header(
    storage: Storage, name: str, start: bytes, size_bytes: int, accepted: re.Pattern[bytes], *, length: int = 0
) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return the type of a column, its shape, and the offset of the first row."""
    header = _HEADER.match(start)
    if header is None or int.from_bytes(header[1], "little") != header.end() - 10:
        raise _unusable(storage, name, f"expected a column of numbers, found {start[:40]!r}")
    if not accepted.fullmatch(header[2]):
        raise _unusable(storage, name, f"expected a column of numbers, found one of {header[2][:40]!r}")
    dtype, rows, offset = np.dtype(header[2].decode("ascii")), int(header[3]), header.end()
    if int(header[4] or 0) != length:
        what, columns = (
            f"vectors of {length} numbers" if length else "numbers",
            f" {int(header[4])}" if header[4] else "",
        )
        raise _unusable(storage, name, f"expected a column of {what}, found the shape ({rows},{columns})")
    expected_bytes = offset + rows * max(1, length) * dtype.itemsize
    if size_bytes != expected_bytes:
        raise _unusable(storage, name, f"expected {expected_bytes} bytes for {plural(rows, 'row')}, found {size_bytes}")
    return dtype, (rows, length) if length else (rows,), offset


def _unusable(storage: Storage, name: str, message: str) -> FormatError:
    return outdated(message, storage.path(name))
