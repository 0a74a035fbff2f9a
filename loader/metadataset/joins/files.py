"""Files next to a metadataset that hold the rows of its joins: ``meta.yaml.joins/<hash>.npy`` and ``.json``.

The ``.npy`` file is an array of int64, shape (rows, members): the numbers of samples in the members' indexes, or -1.
The ``.json`` file, which is written last, records the identity of the members. The hash covers these identities, so
rows of unchanged members are found by their name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec
import numpy as np

from ...arrays import IntArray
from ...dataset.dataset import Dataset
from ...dataset.opening import folder_at
from ...dataset.selection import Selection
from ...dataset.split_parts import samples_of_part
from ...errors import ConfigError, StorageError
from ...format.tar.names import printable
from ...storage import Storage, open_storage, raise_storage_error, read_document
from ..documents.leaf_plan import JoinMember, JoinPlan, Nonmatch
from .peer_index import read_peer_rows

_ROWS_AT_ONCE = 1 << 20


def open_join(plan: JoinPlan) -> IntArray:
    """Map the rows of a join into memory, and check once that their numbers are samples of the members.

    Without rows of ``energon prepare``, those that megatron-energon has prepared are read, checked and kept in memory.

    Returns:
        Shape (rows, members), read-only: the numbers of samples in the members' indexes
        (:class:`~loader.format.index.dataset_index.DatasetIndex`); -1 where a member has none.

    Raises:
        ConfigError: The rows are not prepared, or a dataset or the join has changed since; the message names the
            change.
        StorageError: A dataset is missing, or not prepared.
    """
    # The name of the rows depends on the present state of the members.
    files = JoinFiles(plan.file)
    folders = [folder_at(member.ref) for member in plan.members]
    members = [identify_member(member, folder) for member, folder in zip(plan.members, folders, strict=True)]
    name = join_hash(members)
    if name in files.names():
        # Use the prepared rows if they are whole and name existing samples.
        record, rows = files.read_record(name), files.map_rows(name, len(members))
        if record and rows is not None and len(rows) == record.rows and _are_samples(rows, plan, folders):
            return rows
        fault = f"the prepared rows of this join are damaged: {files.path}/{name}.{'npy' if record else 'json'}"
    else:
        # Use the rows of megatron-energon, if there are any.
        of_peer = read_peer_rows(plan, folders)
        if of_peer is not None:
            return of_peer
        fault = _describe_change(members, [record for other in files.names() if (record := files.read_record(other))])
    raise ConfigError(fault, file=plan.file, at=f"{plan.file}: {plan.place}", hint=f"run: energon prepare {plan.file}")


def _are_samples(rows: IntArray, plan: JoinPlan, folders: Sequence[Dataset]) -> bool:
    lowest = np.array([-1 if member.nonmatch == "none" else 0 for member in plan.members])
    # Rows are mapped into memory, so compare a block of them at a time.
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        if (block.min(axis=0) < lowest).any() or (block.max(axis=0) >= [len(folder.index) for folder in folders]).any():
            return False
    return True


def _describe_change(members: Sequence[MemberIdentity], records: Sequence[JoinRecord]) -> str:
    paths = [member.path for member in members]
    # The record of the same datasets and split parts with the fewest changes is the one that was meant.
    parts = [member.split_part for member in members]
    same = [record.members for record in records if [member.path for member in record.members] == paths]
    if same:
        meant = min(same, key=lambda then: ([m.split_part for m in then] != parts, len(_changes(members, then))))
        changes = _changes(members, meant)
        return f"the prepared rows of this join are stale: {'; '.join(changes) or 'another version prepared them'}"
    if any(member.path in paths for record in records for member in record.members):
        return "this join is not prepared; the prepared ones have other datasets, or the same in another order"
    return "this join is not prepared"


def _changes(members: Sequence[MemberIdentity], recorded: Sequence[MemberIdentity]) -> list[str]:
    changes = []
    for now, then in zip(members, recorded, strict=True):
        if now.uuid != then.uuid:
            changes.append(f"member {now.path} was prepared again")
        if now.split_part != then.split_part:
            changes.append(f"the split part of member {now.path} is {now.split_part!r} now, not {then.split_part!r}")
        elif now.split_config != then.split_config:
            changes.append(f"the split of member {now.path} is {now.split_config} now, not {then.split_config}")
        elif now.shards != then.shards:
            changes.append(f"the split of member {now.path} has changed")
        if now.exclude != then.exclude and now.split_part == then.split_part:
            changes.append(f"the exclusions in the split of member {now.path} have changed")
        if now.filter != then.filter:
            changes.append(f"the filter of member {now.path} has changed")
        if now.nonmatch != then.nonmatch:
            changes.append(f"nonmatch of member {now.path} is {now.nonmatch} now, not {then.nonmatch}")
    return changes


_VERSION = 1
"""Version of the algorithm and format of rows; part of the hash, so another version does not use existing files."""
_ROW_NUMBER = np.dtype("<i8")
_HEADER = re.compile(
    rb"\x93NUMPY\x01\0(..)\{'descr': '<i8', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,9})\), \} *\n",
    re.DOTALL,
)
_HEADER_BYTES = 256  # of which 128 are used
_OWN = re.compile(r"([0-9a-f]{32})\.(?:npy|json)|\.[0-9a-f]{32}\.(?:npy|json)\..*\.partial")


class MemberIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Properties of one dataset that determine the rows of a join.

    Attributes:
        path: Path of the dataset; for messages only, since a moved dataset has the same rows.
        shards: Hash of the shards of that part, in order.
        exclude: Hash of the shards and samples that the split file excludes from that part, sorted.
        filter: Name and checksum of the filter that selects its samples; empty without one.
        meta_folder: Path of the folder used instead of ``.nv-meta``; empty without one. The rows do not depend on it.
    """

    path: str
    uuid: str
    split_part: str
    split_config: str
    shards: str
    exclude: str
    nonmatch: Nonmatch
    filter: str = ""
    meta_folder: str = ""


def identify_member(member: JoinMember, folder: Dataset) -> MemberIdentity:
    """Return the identity of a dataset in its current state; no sample is read."""
    split, part = folder.documents.split, folder.documents.loaded_part(member.split_part)
    if split is None or part not in split.split_parts:
        samples_of_part(folder, part)  # raises, and lists the existing parts
    shards = split.split_parts.get(part, ()) if split else ()
    part_range = split.sample_ranges.get(part) if split else None
    kept = Selection(folder, part, member.filter).filter
    whole, keys = (split.excluded_shards(), split.excluded_samples()) if split else (frozenset[str](), {})
    # List the shards of the part, each with its excluded samples unless it is excluded as a whole.
    excluded = [[shard] if shard in whole else [shard, *sorted(keys.get(shard, ()))] for shard in sorted(shards)]
    return MemberIdentity(
        path=printable(member.path),
        uuid=folder.index.uuid,
        split_part=part,
        split_config=member.ref.split_file,
        shards=_hash(shards if part_range is None else (*shards, str(part_range))),
        exclude=_hash([[shard in whole, *names] for shard, *names in excluded if shard in whole or names]),
        nonmatch=member.nonmatch,
        filter="" if kept is None else f"{member.filter or kept.name} {kept.checksum:08x}",
        meta_folder=printable(member.ref.meta_folder or ""),
    )


_HASHED_FIELDS = tuple(
    name for name in MemberIdentity.__struct_fields__ if name not in ("path", "filter", "meta_folder")
)


def join_hash(members: Sequence[MemberIdentity]) -> str:
    """Return the name of the files that hold the rows of a join: 32 hexadecimal digits of a SHA-256 hash."""
    # Without filters the hash is as it was before filters existed.
    hashed = [[getattr(each, name) for name in _HASHED_FIELDS] + [each.filter] * bool(each.filter) for each in members]
    return _hash([_VERSION, hashed])


def _hash(value: object) -> str:
    # Names that are not valid UTF-8 contain lone surrogates, which JSON cannot encode.
    return hashlib.sha256(repr(value).encode("utf-8", "surrogateescape")).hexdigest()[:32]


class JoinRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of prepared rows."""

    rows: int
    members: tuple[MemberIdentity, ...]


class JoinFiles:
    """The prepared rows of one metadataset."""

    def __init__(self, file: str) -> None:
        folder, name = os.path.split(file)
        self._storage: Storage = open_storage(folder or ".")
        self._folder = f"{name}.joins"
        self.path = self._storage.path(self._folder)
        """Path of the folder, for messages."""

    def lock(self) -> AbstractContextManager[None]:
        return self._storage.lock(f"{self._folder}/.lock")

    @contextmanager
    def create_rows(self, name: str, members: int) -> Iterator[Callable[[IntArray], None]]:
        """Write the rows of a join atomically: the file appears at the end of the context, or not at all.

        The function of the context appends rows, shape (n, members).
        """
        # The number of rows is known at the end, so the header is written a second time.
        count = 0
        with self._storage.create(f"{self._folder}/{name}.npy") as file:

            def write_header() -> None:
                # numpy pads the header so that its length does not depend on the number of rows.
                header = {"descr": _ROW_NUMBER.str, "fortran_order": False, "shape": (count, members)}
                np.lib.format.write_array_header_1_0(file, header)

            def append(rows: IntArray) -> None:
                nonlocal count
                file.write(np.ascontiguousarray(rows, dtype=_ROW_NUMBER).data)
                count += len(rows)

            write_header()
            yield append
            file.seek(0)
            write_header()

    def write_record(self, name: str, record: JoinRecord) -> None:
        """Write the record of rows, which makes them valid; call it after the rows are written."""
        self._storage.write(f"{self._folder}/{name}.json", msgspec.json.format(msgspec.json.encode(record), indent=2))

    def read_record(self, name: str) -> JoinRecord | None:
        file = f"{self._folder}/{name}.json"
        try:
            return msgspec.json.decode(read_document(self._storage, file), type=JoinRecord)
        except StorageError as error:
            if error.is_missing:
                return None
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def map_rows(self, name: str, members: int) -> IntArray | None:
        """Map rows into memory, read-only, in constant time; None if the file is damaged or missing."""
        file_name = f"{self._folder}/{name}.npy"
        try:
            info = self._storage.stat(file_name)
            with self._storage.open(file_name, info) as file:
                start, size_bytes = file.read_at(0, _HEADER_BYTES), file.size_bytes
            # Accept only headers as `create_rows` writes them.
            header = _HEADER.match(start)
            if header is None or int.from_bytes(header[1], "little") != header.end() - 10 or int(header[3]) != members:
                return None
            shape = int(header[2]), members
            # The size shows whether rows are missing.
            if size_bytes != header.end() + shape[0] * members * _ROW_NUMBER.itemsize:
                return None
            if not shape[0]:
                return np.empty(shape, np.int64)  # a memory map cannot be empty
            path = self._storage.local_path(file_name, info)
            return np.asarray(np.memmap(path, _ROW_NUMBER, "r", header.end(), shape))
        except StorageError as error:
            if error.is_missing:
                return None
            raise
        except OSError as error:
            raise_storage_error("map this file", self._storage.path(file_name), error)

    def names(self) -> list[str]:
        if not self._storage.exists(self._folder):
            return []
        matches = [_OWN.fullmatch(os.path.basename(file.name)) for file in self._storage.list(self._folder)]
        return [match[1] for match in matches if match and match[1] and match.string.endswith(".json")]

    def remove_others(self, kept: set[str]) -> None:
        """Remove rows under other names, and partial files of killed runs; the caller holds the lock.

        Files that this class has not written are kept. If the folder is a symbolic link, nothing is removed: the author
        of the metadataset may have pointed it at the rows of another metadataset.
        """
        if not self._storage.exists(self._folder) or os.path.islink(self.path):
            return
        # Find the files by the names that this class gives them.
        to_remove = []
        for file in self._storage.list(self._folder):
            match = _OWN.fullmatch(file.name.removeprefix(f"{self._folder}/"))
            if match and match[1] not in kept:
                to_remove.append(file.name)
        # Remove a record before its rows, so that a crash in between leaves no record without rows.
        for name in sorted(to_remove, key=lambda name: name.endswith(".npy")):
            self._storage.remove(name)
