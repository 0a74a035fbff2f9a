"""Index many small shards at once: for a few headers, numpy's cost of each call is most of the time.

Only shards in the simplest form are indexed here: plain members of valid names, each key once, and a regular end.
:func:`.shard_index.index_shard` indexes the others, and finds the same for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...errors import StorageError
from ...storage import FileInfo, Storage
from ..tar.header import BLOCK, header_names, headers_are_plain
from ..tar.names import SplitNames, decode_name, split_member_names
from .key_hash import hash_keys
from .shard_index import ShardIndex, starts_of_keys

MAX_SMALL_BYTES = 64 * 1024  # largest size of a small shard

_REGULAR = frozenset(b"0\x007")


@dataclass(frozen=True, slots=True)
class _Headers:
    blocks: list[bytes]
    offsets: list[int]
    sizes: list[int]
    end_offset: int  # of the archive: start of its empty blocks


def index_small_shards(storage: Storage, shards: Sequence[FileInfo]) -> list[ShardIndex | None]:
    """Index the shards that are small and in the simplest form.

    Returns:
        For each shard its index, or None: :func:`.shard_index.index_shard` has to index it.
    """
    headers_by_shard = [_read_headers(storage, shard) for shard in shards]
    numbers = [position for position, headers in enumerate(headers_by_shard) if headers is not None]
    indexes: list[ShardIndex | None] = [None] * len(shards)
    if numbers:
        for position, index in zip(numbers, _index([headers for headers in headers_by_shard if headers]), strict=True):
            indexes[position] = index
    return indexes


def _read_headers(storage: Storage, shard: FileInfo) -> _Headers | None:
    if not 0 < shard.size_bytes <= MAX_SMALL_BYTES:
        return None
    try:
        data = storage.read(shard.name)
    except StorageError:
        return None  # index_shard reads the shard again, and raises the error if it lasts
    offsets, sizes, offset = [], [], 0
    try:
        while offset <= len(data) - BLOCK and data[offset + 156] in _REGULAR:
            size = int(data[offset + 124 : offset + 135], 8)
            if size < 0:
                return None
            offsets.append(offset)
            sizes.append(size)
            offset += BLOCK + ((size + 511) & -BLOCK)
    except ValueError:
        pass  # no octal size: an empty block ends the archive, and index_shard reports damage
    if not offsets or offset + BLOCK > len(data) or data.count(0, offset) < len(data) - offset:
        return None
    return _Headers([data[start : start + BLOCK] for start in offsets], offsets, sizes, offset)


def _index(shards: Sequence[_Headers]) -> list[ShardIndex | None]:
    """Index shards at once; return None for those that are not in the simplest form."""
    members = np.array([len(shard.offsets) for shard in shards])  # (s,)
    ends = np.cumsum(members)  # (s,) rows of all headers
    blocks = b"".join([block for shard in shards for block in shard.blocks])
    headers = np.frombuffer(blocks, np.uint8).reshape(-1, BLOCK)  # (m, 512)
    split = split_member_names(header_names(headers, {}))
    is_usable = np.zeros(len(headers), np.bool_)
    is_usable[split.taken] = True
    is_usable &= headers_are_plain(headers)
    is_simple = np.logical_and.reduceat(is_usable, ends - members).tolist()
    if all(is_simple):
        return _columns(shards, split, ends)
    simple = [shard for shard, passes in zip(shards, is_simple, strict=True) if passes]
    indexes = iter(_index(simple) if simple else ())
    return [next(indexes) if passes else None for passes in is_simple]


def _columns(shards: Sequence[_Headers], split: SplitNames, ends: npt.NDArray[np.int64]) -> list[ShardIndex | None]:
    """Compute the columns of all shards, and slice them; return None for a shard that repeats a key."""
    # Find the first part of each sample, and the samples of each shard.
    row_starts = np.concatenate(([0], ends[:-1]))  # (s,)
    is_first = starts_of_keys(split)
    is_first[row_starts] = True
    first = np.flatnonzero(is_first)  # (n,) row of each sample's first part
    sample_ends = np.cumsum(np.add.reduceat(is_first, row_starts, dtype=np.int64))  # (s,)
    shard_of = np.repeat(np.arange(len(shards)), np.diff(sample_ends, prepend=0))  # (n,)
    sample_starts = sample_ends - np.diff(sample_ends, prepend=0)
    # Hash the keys, and sort them by shard and hash.
    keys, lengths = split.keys[first], split.key_lengths[first]
    key_bytes = keys[np.arange(keys.shape[1]) < lengths[:, None]]
    key_ends = np.cumsum(lengths)
    byte_ends = key_ends[sample_ends - 1]  # (s,) of the keys of each shard
    byte_starts = np.concatenate(([0], byte_ends[:-1]))
    hashes = hash_keys(keys, lengths)
    order = np.lexsort((hashes, shard_of))
    hashes = hashes[order]
    # A shard that repeats a hash may repeat a key.
    repeats = (hashes[1:] == hashes[:-1]) & (shard_of[1:] == shard_of[:-1])
    repeating = set(shard_of[1:][repeats].tolist())
    # Compute the other columns; each shard has numbers of its own.
    offsets = np.array([offset for shard in shards for offset in shard.offsets], np.int64)
    sizes = np.array([size for shard in shards for size in shard.sizes], np.int64)
    part_ends = np.append(first[1:], len(offsets)) - row_starts[shard_of]
    key_ends -= byte_starts[shard_of]
    order -= sample_starts[shard_of]
    sample_offsets = np.insert(offsets[first], sample_ends, [shard.end_offset for shard in shards])
    part_offset = offsets + BLOCK
    # Slice the columns by shard.
    indexes: list[ShardIndex | None] = []
    bounds = zip(
        row_starts.tolist(), ends.tolist(), sample_starts.tolist(), sample_ends.tolist(),
        byte_starts.tolist(), byte_ends.tolist(), strict=True,
    )  # fmt: skip
    for position, (row, last_row, sample, last_sample, byte, last_byte) in enumerate(bounds):
        if position in repeating:
            indexes.append(None)
            continue
        rows, samples = slice(row, last_row), slice(sample, last_sample)
        names, part_name = _numbered(tuple(split.part_names[rows]))
        indexes.append(
            ShardIndex(
                part_names=names,
                part_name=part_name,
                part_offset=part_offset[rows],
                part_size=sizes[rows],
                part_ends=part_ends[samples],
                key_bytes=key_bytes[byte:last_byte],
                key_ends=key_ends[samples],
                key_hash=hashes[samples],
                key_order=order[samples],
                sample_offsets=sample_offsets[sample + position : last_sample + position + 1],
                end_offset=shards[position].end_offset,
                plain=True,
            )
        )
    return indexes


@lru_cache(maxsize=1000)  # many shards have the same names
def _numbered(names: tuple[bytes, ...]) -> tuple[tuple[str, ...], npt.NDArray[np.uint32]]:
    """Return the sorted part names of a shard's members, and the number of each member's name."""
    distinct = sorted(set(names))
    ids = {name: name_id for name_id, name in enumerate(distinct)}
    return tuple(decode_name(name) for name in distinct), np.array([ids[name] for name in names], np.uint32)
