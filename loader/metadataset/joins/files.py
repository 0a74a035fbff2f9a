"""The files beside a metadataset that hold the rows of its joins: ``meta.yaml.joins/<hash>.npy`` and ``.json``.

The ``.npy`` file is an array of int64, shape (rows, members): the numbers of samples in the members' indexes, or -1.
The ``.json`` file, which is written last, says what the rows were made of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import StorageError
from ...storage import Storage, open_storage
from .identity import MemberIdentity

__all__ = ["JoinFiles", "JoinRecord", "RowWriter"]

_ROW_NUMBER = np.dtype("<i8")
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '<i8', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,9})\), \} *\n",
    re.DOTALL,
)
_HEADER_BYTES = 256  # of which 128 are used
_OWN = re.compile(r"([0-9a-f]{32})\.(?:npy|json)|\.[0-9a-f]{32}\.(?:npy|json)\..*\.partial")


class JoinRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What rows were made of.

    Attributes:
        rows: How many there are.
        members: The datasets, as they were then.
    """

    rows: int
    members: tuple[MemberIdentity, ...]


class RowWriter:
    """Writes rows behind each other.

    Args:
        file: Where to.
        members: How many numbers each row has.
    """

    def __init__(self, file: BinaryIO, members: int) -> None:
        self.rows = 0
        self._file = file
        self._members = members
        self._write_header()

    def append(self, rows: npt.NDArray[np.int64]) -> None:
        """Write some rows, shape (n, members)."""
        self._file.write(np.ascontiguousarray(rows, dtype=_ROW_NUMBER).data)
        self.rows += len(rows)

    def finish(self) -> None:
        """Write how many they are."""
        self._file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads the header so that its length does not depend on the number of rows.
        header = {"descr": _ROW_NUMBER.str, "fortran_order": False, "shape": (self.rows, self._members)}
        np.lib.format.write_array_header_1_0(self._file, header)


class JoinFiles:
    """The prepared rows beside one metadataset.

    Args:
        file: The metadataset.
    """

    def __init__(self, file: str) -> None:
        folder, name = os.path.split(file)
        self._storage: Storage = open_storage(folder or ".")
        self._folder = f"{name}.joins"
        self.path = self._storage.path(self._folder)
        """Where they are, for messages."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let no other process prepare the joins of this metadataset meanwhile.

        Raises:
            StorageError: Another one does.
        """
        with self._storage.lock(f"{self._folder}/.lock"):
            yield

    @contextmanager
    def create_rows(self, name: str, members: int) -> Iterator[RowWriter]:
        """Write the rows of a join, which appear whole at the end of the context, or not at all."""
        with self._storage.create(f"{self._folder}/{name}.npy") as file:
            writer = RowWriter(file, members)
            yield writer
            writer.finish()

    def write_record(self, name: str, record: JoinRecord) -> None:
        """Write what rows were made of, once they are there: from now on they count."""
        with self._storage.create(f"{self._folder}/{name}.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(record), indent=2))

    def read_record(self, name: str) -> JoinRecord | None:
        """Read what rows were made of; None where there are none, or the file is damaged."""
        file = f"{self._folder}/{name}.json"
        if not self._storage.exists(file):
            return None
        try:
            return msgspec.json.decode(self._storage.read(file), type=JoinRecord)
        except (msgspec.DecodeError, UnicodeDecodeError, StorageError):
            return None

    def map_rows(self, name: str, members: int) -> npt.NDArray[np.int64] | None:
        """Map rows into memory, read-only, at one cost for any number; None where the file is damaged or missing."""
        file_name = f"{self._folder}/{name}.npy"
        try:
            with self._storage.open(file_name) as file:
                start, size_bytes = file.read_at(0, _HEADER_BYTES), file.size_bytes
            header = _HEADER.match(start)
            if header is None or int.from_bytes(header[1], "little") != header.end() - 10 or int(header[3]) != members:
                return None
            shape = int(header[2]), members
            if size_bytes != header.end() + shape[0] * members * _ROW_NUMBER.itemsize:
                return None
            if not shape[0]:
                return np.empty(shape, np.int64)  # no memory map is empty
            path = self._storage.local_path(file_name)
            return np.asarray(np.memmap(path, _ROW_NUMBER, "r", header.end(), shape))
        except (StorageError, OSError):
            return None

    def names(self) -> list[str]:
        """List the names of all rows that count."""
        if not self._storage.exists(self._folder):
            return []
        found = [_OWN.fullmatch(os.path.basename(file.name)) for file in self._storage.list(self._folder)]
        return [match[1] for match in found if match and match[1] and match.string.endswith(".json")]

    def remove_others(self, kept: set[str]) -> None:
        """Remove rows under other names, and what a prepare that was killed has left; hold the lock.

        Files that nothing here has written are left alone, and all where the folder is a link: whoever made the
        metadataset may have had it lead to the rows of another one.
        """
        if not self._storage.exists(self._folder) or self._storage.local_path(self._folder).is_symlink():
            return
        doomed = []
        for file in self._storage.list(self._folder):
            match = _OWN.fullmatch(file.name.removeprefix(f"{self._folder}/"))
            if match and match[1] not in kept:
                doomed.append(file.name)
        # The record goes before its rows, so that no record is ever without.
        for name in sorted(doomed, key=lambda name: name.endswith(".npy")):
            self._storage.remove(name)
