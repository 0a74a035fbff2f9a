"""The files beside a metadataset that hold the rows of its joins: ``meta.yaml.joins/<hash>.npy`` and ``.json``.

The ``.npy`` file is an array of int64, shape (rows, members): the numbers of samples in the members' indexes, or -1.
The ``.json`` file, which is written last, says what the rows were made of.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import StorageError
from ...format.dataset_folder import DatasetFolder
from ...format.nv_meta import SPLIT_YAML
from ...format.tar.names import printable
from ...storage import Storage, open_storage
from ..documents.leaf_plan import JoinMember

__all__ = ["JoinFiles", "JoinRecord", "MemberIdentity", "RowWriter", "identify_member", "join_hash", "open_member"]

_VERSION = 1
"""Of the way in which rows are made and written; another one makes what is there out of date."""
_ROW_NUMBER = np.dtype("<i8")
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '<i8', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,9})\), \} *\n",
    re.DOTALL,
)
_HEADER_BYTES = 256  # of which 128 are used
_OWN = re.compile(r"([0-9a-f]{32})\.(?:npy|json)|\.[0-9a-f]{32}\.(?:npy|json)\..*\.partial")


class MemberIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows depend on of one dataset.

    Attributes:
        path: Where it is; for messages only, since a dataset that has moved is the same.
        uuid: Which of its indexes the rows' numbers count in.
        split_part: Which part of its split.
        split_config: Which split file.
        shards: A hash of the shards of that part, in their order.
        exclude: A hash of what the split file leaves out of that part, sorted.
        nonmatch: What happens where it lacks a key.
    """

    path: str
    uuid: str
    split_part: str
    split_config: str
    shards: str
    exclude: str
    nonmatch: str


def open_member(member: JoinMember) -> DatasetFolder:
    """Open a dataset of a join.

    Raises:
        StorageError: It is missing, or not prepared.
    """
    return DatasetFolder(member.path, split_config=member.split_config or SPLIT_YAML)


def identify_member(member: JoinMember, folder: DatasetFolder) -> MemberIdentity:
    """Look up what the rows depend on of one dataset, as it is now; no sample is looked at.

    Raises:
        ConfigError: Its split file says something wrong, or there is none.
    """
    split = folder.split
    if split is None or member.split_part not in split.split_parts:
        folder.samples_of_part(member.split_part)  # raises, and names those that are there
    shards = split.split_parts.get(member.split_part, ()) if split else ()
    whole, keys = (split.excluded_shards(), split.excluded_samples()) if split else (frozenset[str](), {})
    left_out = [[shard] if shard in whole else [shard, *sorted(keys.get(shard, ()))] for shard in sorted(shards)]
    return MemberIdentity(
        path=printable(member.path),
        uuid=folder.index.uuid,
        split_part=member.split_part,
        split_config=member.split_config or SPLIT_YAML,
        shards=_hash(shards),
        exclude=_hash([[shard in whole, *names] for shard, *names in left_out if shard in whole or names]),
        nonmatch=member.nonmatch,
    )


def join_hash(members: Sequence[MemberIdentity]) -> str:
    """Give the name of the files that hold the rows of a join: 32 letters, other ones for anything else."""
    return _hash([_VERSION, [[getattr(one, name) for name in _COUNTED] for one in members]])


_COUNTED = tuple(name for name in MemberIdentity.__struct_fields__ if name != "path")


def _hash(value: object) -> str:
    # Names that are no UTF-8 hold lone surrogates, which JSON has no bytes for.
    return hashlib.sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()[:32]


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
