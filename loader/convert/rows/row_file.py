"""A file of rows, so that a plan of any number of samples takes little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...format.tar.header import BLOCK
from ...storage import ClosesOnExit, ReadableFile, open_parent, raise_storage_error
from ..writing.seen_keys import hash_key
from ..writing.shard_file import member_bytes
from .row import NO_SPLIT, CellRef, Row, hash_thing, rename_repeated

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Row)
_ESTIMATE_MARGIN = 16
"""The size of an estimated part counts a sixteenth more: twice the deviation of the mean of 1,000 parts whose sizes
deviate by their mean. With less than a block more, the mean of the padded sizes is not underestimated either."""


class RowFileWriter(ClosesOnExit):
    """Writes rows to a new file."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = open(path, "wb")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise_storage_error("write this file", path, error)
        self._ends = array("q")
        self._sizes = array("q")
        self._hashes = array("q")
        self._splits = array("q")
        self._things = array("q")
        self._split_names: dict[str, int] = {}
        self._written = 0

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            data = _encoder.encode(row)
            try:
                self._file.write(data)
            except OSError as error:
                raise_storage_error("write this file", self._path, error)
            self._written += len(data)
            self._ends.append(self._written)
            self._sizes.append(_shard_bytes(row))
            self._hashes.append(hash_key(row.key))
            self._splits.append(self._split_names.setdefault(row.split, len(self._split_names)))
            self._things.append(hash_thing(row, len(self._things)))

    def finish(self) -> StoredRows:
        """Close the file, and return it for reading, with a key of its own for each row."""
        try:
            self._file.close()
        except OSError as error:
            raise_storage_error("write this file", self._path, error)
        _, first, group_of = np.unique(_frozen(self._things), return_index=True, return_inverse=True)
        rows = StoredRows(
            path=self._path,
            ends=_frozen(self._ends),
            sizes=_frozen(self._sizes),
            splits=_frozen(self._splits),
            split_names=tuple(self._split_names),
            groups=first[group_of],
            renamed={},
        )
        rows.renamed = rename_repeated(_frozen(self._hashes), lambda row: rows[row].key)
        return rows

    def close(self) -> None:
        self._file.close()


@dataclass(kw_only=True, eq=False, repr=False)
class StoredRows:
    """Rows in a file, by number.

    Attributes:
        ends: Offset of the end of each row in bytes, shape (n,).
        sizes: Bytes that each row takes in a shard, shape (n,); -1 where they are unknown.
        splits: Position of each row's split in ``split_names``, shape (n,).
        split_names: Names of splits; ``""`` for none.
        groups: The first row that shows the same thing as each row, or has the same file, shape (n,).
        renamed: Row → its key, where it is not the one that the source proposed.
    """

    path: str
    ends: IntArray
    sizes: IntArray
    splits: IntArray
    split_names: tuple[str, ...]
    groups: IntArray
    renamed: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.ends)

    def read(self, row: int) -> bytes:
        start = int(self.ends[row - 1]) if row else 0
        return self._file.read_at(start, int(self.ends[row]) - start)

    def __getitem__(self, row: int) -> Row:
        return _decoder.decode(self.read(row))

    def divided_groups(self) -> IntArray:
        """Return the groups that the splits of the source divide."""
        codes = {NO_SPLIT: 0}
        of_names = [codes.setdefault(name or "train", len(codes)) for name in self.split_names]
        part_of = np.array(of_names, np.int64)[self.splits]
        groups = np.unique(self.groups[part_of > 0] * len(codes) + part_of[part_of > 0]) // len(codes)
        return np.unique(groups[1:][groups[1:] == groups[:-1]])

    def key(self, row: int, proposed: str) -> str:
        return self.renamed.get(row, proposed)

    @cached_property
    def _file(self) -> ReadableFile:
        storage, name = open_parent(self.path)
        return storage.open(name)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_file"}


def _shard_bytes(row: Row) -> int:
    """Return the bytes that a row takes in a shard; -1 if they are unknown."""
    key_bytes, total = len(row.key.encode()) + 1, 0
    for name, part in row.parts.items():
        size_bytes = part.size_bytes
        if size_bytes < 0:
            return -1
        # Plan a little more for an estimate, so that few shards exceed the plan and are cut.
        if isinstance(part, CellRef):
            size_bytes += size_bytes // _ESTIMATE_MARGIN + BLOCK - 1
        total += member_bytes(key_bytes + len(name), size_bytes)
    return total


def _frozen(values: array[int]) -> IntArray:
    return np.frombuffer(values, np.int64) if len(values) else np.empty(0, np.int64)
