"""Build our index for a dataset that another tool prepared, once for all processes that need it."""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from ...escaped_log import get_logger
from ...storage import FileInfo, LocalStorage, Storage, is_writable, rename_file
from ...storage.user_indexes import derived_indexes, limit_derived
from ...version import __version__
from ..index.current import current_index, read_uuid
from ..index.dataset_index import DatasetIndex
from ..index.key_hash import hash_ragged
from ..index.shard_index import ShardIndex, index_shard
from ..index.writer import IndexWriter
from ..nv_meta import INDEX_FOLDER, INDEX_SQLITE, INDEX_UUID, LOCK, outdated
from ..tar.header import BLOCK
from ..tar.names import encode_name, printable
from .sqlite_index import open_sqlite

_BUILDING = f"{INDEX_FOLDER}/.building"
_log = get_logger(__name__)

_MAX_ROWS = (1 << 31) - 2  # of one shard: fetchmany takes a 32-bit number
_Offset = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_SampleRow = tuple[str, _Offset, _Offset]
_PartRow = tuple[_Offset, str, _Offset, _Offset]


def build_foreign_index(storage: Storage, shard_counts: dict[str, int]) -> DatasetIndex:
    """Build the index in ``.nv-meta/index``, or in the user's folder of indexes if that is read-only.

    One process builds the index, and the others wait for it.

    Args:
        shard_counts: Number of samples of each shard, in the order of the shards.
    """
    if is_writable(storage, INDEX_FOLDER.rpartition("/")[0]):
        return _build(storage, storage, shard_counts)
    name = hashlib.sha256(encode_name(f"{storage.path('')}\0{read_uuid(storage)}")).hexdigest()[:32]
    index = _build(storage, LocalStorage(derived_indexes()[0].path(name)), shard_counts)
    index.check()  # maps all columns, which another process may remove for the limit
    limit_derived(used=name)
    return index


def _build(storage: Storage, target: Storage, shard_counts: dict[str, int]) -> DatasetIndex:
    # Wait for other processes that build the index: it may be complete then.
    with target.lock(LOCK, wait=True):
        index = current_index(target, shard_counts)
        if index is not None:
            return index
        # Build the index next to its final folder.
        identity = read_uuid(storage) or str(uuid.uuid4())
        _log.warning(
            "%s was prepared by another tool: building its index in %s, once",
            printable(storage.path("")),
            printable(target.path(INDEX_FOLDER)),
        )
        target.remove(_BUILDING)  # left by a killed build
        with IndexWriter(target, _BUILDING) as writer:
            for shard, shard_index in _shard_indexes(storage, shard_counts):
                if len(shard_index) != shard_counts[shard.name]:
                    expected = f"expected as many samples as .info.json says, {shard_counts[shard.name]}"
                    raise outdated(f"{expected}, found {len(shard_index)}", storage.path(shard.name))
                writer.add(shard, shard_index)
            writer.finish(prepared_by=f"energon-toolkit {__version__}, from the files of another tool")
        # Publish it, under the uuid of the dataset if it has one.
        final = f"{INDEX_FOLDER}/{identity}"
        target.remove(final)
        rename_file(target, _BUILDING, final)
        if read_uuid(target) is None:
            target.write(INDEX_UUID, identity.encode())
        return DatasetIndex(target, identity)


def _shard_indexes(storage: Storage, shard_counts: dict[str, int]) -> Iterator[tuple[FileInfo, ShardIndex]]:
    path = storage.local_path(INDEX_SQLITE) if storage.exists(INDEX_SQLITE) else None
    written_ns = storage.stat(INDEX_SQLITE).mtime_ns if path else 0
    for tar_file_id, (name, samples) in enumerate(shard_counts.items()):
        shard = storage.stat(name)
        # Rows that are older than the shard, or not valid, are not used: the shard is scanned instead.
        is_fresh = path is not None and shard.mtime_ns <= written_ns
        index = _index_in_sqlite(path, tar_file_id, shard, samples) if path and is_fresh else None
        yield shard, index if index is not None else index_shard(storage, name)


def _index_in_sqlite(path: Path, tar_file_id: int, shard: FileInfo, expected: int) -> ShardIndex | None:
    """Build the index of a shard from the rows of another tool's ``index.sqlite``, instead of from every tar header.

    Return None if the parts of the shard are not listed (older datasets), or the rows are damaged.
    """
    # Read no more rows than the shard can have.
    max_rows = min(shard.size_bytes // BLOCK, _MAX_ROWS)  # Each row has a header in the shard.
    try:
        with closing(open_sqlite(path)) as database:
            samples = database.execute(
                "SELECT sample_key, byte_offset, byte_size FROM samples WHERE tar_file_id = ? ORDER BY sample_index",
                (tar_file_id,),
            ).fetchmany(min(expected, max_rows) + 1)
            parts = database.execute(
                "SELECT sample_index, part_name, content_byte_offset, content_byte_size FROM sample_parts "
                "WHERE tar_file_id = ? ORDER BY sample_index, content_byte_offset",
                (tar_file_id,),
            ).fetchmany(max_rows + 1)
    except sqlite3.Error:
        return None
    # Check the number of the rows, their types, and whether their offsets are possible.
    if not parts or len(samples) != expected:
        return None
    try:
        # SQLite stores values of any type in a column, whatever type the table declares.
        samples, parts = msgspec.convert((samples, parts), tuple[list[_SampleRow], list[_PartRow]])
    except msgspec.ValidationError:
        return None
    index = _index_of_rows(samples, parts)
    return index if index is not None and _is_plausible(index, shard.size_bytes) else None


def _is_plausible(index: ShardIndex, shard_size: int) -> bool:
    """Check that all offsets are possible in a tar file of that size."""
    starts, first, ends = index.sample_offsets, index.first_part_offsets(), index.part_offset + index.part_size
    return bool(
        (np.diff(starts) >= BLOCK).all()
        and starts[-1] <= shard_size
        and (ends <= shard_size).all()
        and (first >= starts[:-1] + BLOCK).all()
        and (index.part_offset % BLOCK == 0).all()
        and (starts % BLOCK == 0).all()
    )


def _index_of_rows(samples: list[_SampleRow], parts: list[_PartRow]) -> ShardIndex | None:
    # Check that each sample has parts.
    if parts[-1][0] != len(samples) - 1:
        return None
    counts = np.bincount([part[0] for part in parts])
    if not counts.all():
        return None
    # Hash the keys.
    keys = [encode_name(key) for key, _, _ in samples]
    key_bytes = np.frombuffer(b"".join(keys), dtype=np.uint8)
    key_ends = np.cumsum([len(key) for key in keys])
    hashes = hash_ragged(key_bytes, key_ends)
    order = np.argsort(hashes, kind="stable")
    # Number the part names, and compute the columns as a scan does.
    names = sorted({part[1] for part in parts})
    number_of = {name: position for position, name in enumerate(names)}
    starts = np.array([sample[1] for sample in samples], dtype=np.int64)
    end_offset = samples[-1][1] + samples[-1][2]
    index = ShardIndex(
        part_names=tuple(names),
        part_name=np.array([number_of[part[1]] for part in parts], dtype=np.uint32),
        part_offset=np.array([part[2] for part in parts], dtype=np.int64),
        part_size=np.array([part[3] for part in parts], dtype=np.int64),
        part_ends=np.cumsum(counts),
        key_bytes=key_bytes,
        key_ends=key_ends,
        key_hash=hashes[order],
        key_order=order,
        sample_offsets=np.append(starts, end_offset),
        end_offset=end_offset,
        plain=False,
    )
    return replace(index, plain=bool((starts == index.first_part_offsets() - BLOCK).all()))
