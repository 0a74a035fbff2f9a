"""Arrange the columns of a tar shard's index so that they compress to few bytes and decode quickly.

What a tar file implies is not stored: a part begins where the one before it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays import IntArray
from ..index.key_hash import hash_ragged
from ..index.layout import ShardEntry
from ..index.shard_index import ShardIndex, ShardRows, scan_facts
from ..tar.header import BLOCK


def encode_shard(rows: ShardRows, part_names: Mapping[str, int]) -> bytes:
    """Encode the rows of a shard, to be compressed.

    Args:
        part_names: The number of each part name.
    """
    ids = np.array([part_names[name] for name in rows.part_names], np.int64)
    size, block = rows.part_size.astype(np.int64), rows.part_block.astype(np.int64)
    columns: tuple[Any, ...] = (
        np.diff(rows.part_ends.astype(np.int64), prepend=0),
        ids[rows.part_name] if len(ids) else ids,
        size,
        np.diff(block, prepend=0) - _steps(size),
        np.diff(rows.key_ends.astype(np.int64), prepend=0),
    )
    return b"".join([*map(_encode_numbers, columns), rows.key_bytes.tobytes()])


def decode_shard(data: bytes, shard: ShardEntry, part_names: Sequence[str]) -> ShardIndex:
    """Decode the index of a shard, whose numbers are not checked yet.

    Raises:
        ValueError: The data are of another shard.
    """
    # The number of rows of each column follows from the columns before it.
    parts, start = _decode_numbers(data, 0, shard.samples)
    rows = int(parts.sum())
    name, start = _decode_numbers(data, start, rows)
    size, start = _decode_numbers(data, start, rows)
    block, start = _decode_numbers(data, start, rows)
    lengths, start = _decode_numbers(data, start, shard.samples)
    keys, key_ends = np.frombuffer(data, np.uint8, offset=start), np.cumsum(lengths)
    if lengths.min(initial=0) < 0 or int(lengths.sum()) != len(keys):
        raise ValueError(f"expected {int(lengths.sum()):,} bytes of keys, found {len(keys):,}")
    # Hash the keys, and sort the hashes.
    hashes = hash_ragged(keys, key_ends)
    order = np.argsort(hashes)
    return ShardIndex(
        part_names=tuple(part_names),
        part_name=name.astype(np.uint32),
        part_offset=np.cumsum(block + _steps(size)) * BLOCK,
        part_size=size,
        part_ends=np.cumsum(parts),
        key_bytes=keys,
        key_ends=key_ends,
        key_hash=hashes[order],
        key_order=order,
        sample_offsets=np.empty(0, np.int64),
        **scan_facts(shard),
    )


def _steps(size: IntArray) -> IntArray:
    """Return how many blocks after the contents of the part before it each part begins if nothing is between them."""
    return np.concatenate([[0], 1 + (size[:-1] + (BLOCK - 1)) // BLOCK])[: len(size)]


def _encode_numbers(values: IntArray) -> bytes:
    """Encode integers: the number of bytes of each, then all first bytes, all second bytes, and so on."""
    width = next(width for width in (1, 2, 4, 8) if (values == values.astype(f"<i{width}")).all())
    return bytes([width]) + values.astype(f"<i{width}").view(np.uint8).reshape(-1, width).T.tobytes()


def _decode_numbers(data: bytes, start: int, count: int) -> tuple[IntArray, int]:
    """Return integers that begin at a byte, and the byte after them."""
    width = data[start] if start < len(data) else 0
    end = start + 1 + count * width
    if width not in (1, 2, 4, 8) or count < 0 or end > len(data):
        raise ValueError(f"expected {count:,} numbers of 1, 2, 4 or 8 bytes, found {width}")
    planes = np.frombuffer(data, np.uint8, count * width, start + 1).reshape(width, count)
    return np.ascontiguousarray(planes.T).view(f"<i{width}").ravel().astype(np.int64), end
