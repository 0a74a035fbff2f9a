"""Arrange the columns of an index, a block of shards at a time, so that they compress to few bytes and decode quickly.

What a tar file implies is not stored: a part begins where the one before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...arrays import IntArray
from ..index.key_hash import hash_ragged
from ..index.layout import ShardEntry
from ..index.shard_index import ShardIndex, ShardRows, scan_facts
from ..tar.header import BLOCK

COLUMNS = ("parts", "part_name", "part_size", "part_block", "key_length", "keys")


def encode_block(shards: Sequence[ShardRows], part_names: Mapping[str, int]) -> list[bytes]:
    """Encode the rows of some shards; return the bytes of each of :data:`COLUMNS`, which are not compressed yet.

    Args:
        part_names: The number of each part name.
    """
    ids = [np.array([part_names[name] for name in rows.part_names], np.int64)[rows.part_name] for rows in shards]
    size, block = (_joined(shards, name) for name in ("part_size", "part_block"))
    parts, lengths = (
        np.concatenate([np.diff(getattr(rows, ends).astype(np.int64), prepend=0) for rows in shards])
        for ends in ("part_ends", "key_ends")
    )
    columns = (parts, np.concatenate(ids), size, np.diff(block, prepend=0) - _steps(size), lengths)
    return [*map(_encode_numbers, columns), b"".join(rows.key_bytes.tobytes() for rows in shards)]


def decode_block(
    encoded: Sequence[bytes], shards: Sequence[ShardEntry], part_names: Sequence[str]
) -> Iterator[ShardIndex]:
    """Decode the index of each shard of a block, which is not checked yet.

    Raises:
        ValueError: The bytes are no columns, or columns of other shards.
    """
    # Decode the columns of all shards, and hash the keys together.
    parts, name, size, block, length = map(_decode_numbers, encoded[:-1])
    keys = np.frombuffer(encoded[-1], np.uint8)
    samples = sum(shard.samples for shard in shards)
    expected = (samples, samples, int(parts.sum()), len(size), len(size), int(length.sum()))
    lengths = (len(parts), len(length), len(size), len(block), len(name), len(keys))
    if min(parts.min(initial=0), length.min(initial=0)) < 0 or lengths != expected:
        raise ValueError("its columns have other numbers of rows")
    part_ends, key_ends = np.cumsum(parts), np.cumsum(length)
    hashes = hash_ragged(keys, key_ends)
    offset = np.cumsum(block + _steps(size)) * BLOCK
    # Cut the rows of each shard out of them.
    first = row = byte = 0
    for shard in shards:
        here = slice(first, first := first + shard.samples)
        row_ends, byte_ends = part_ends[here], key_ends[here]
        rows = slice(row, row := int(row_ends[-1]) if shard.samples else row)
        text = slice(byte, byte := int(byte_ends[-1]) if shard.samples else byte)
        order = np.argsort(hashes[here])
        yield ShardIndex(
            part_names=tuple(part_names),
            part_name=name[rows].astype(np.uint32),
            part_offset=offset[rows],
            part_size=size[rows],
            part_ends=row_ends - rows.start,
            key_bytes=keys[text],
            key_ends=byte_ends - text.start,
            key_hash=hashes[here][order],
            key_order=order,
            sample_offsets=np.empty(0, np.int64),
            **scan_facts(shard),
        )


def _joined(shards: Sequence[ShardRows], column: str) -> IntArray:
    return np.concatenate([getattr(rows, column) for rows in shards]).astype(np.int64)


def _steps(size: IntArray) -> IntArray:
    """Return how many blocks after the contents of the part before it each part begins if nothing is between them."""
    return np.concatenate([[0], 1 + (size[:-1] + (BLOCK - 1)) // BLOCK])[: len(size)]


def _encode_numbers(values: IntArray) -> bytes:
    """Encode integers: the number of bytes of each, then all first bytes, and so on."""
    width = next(width for width in (1, 2, 4, 8) if (values == values.astype(f"<i{width}")).all())
    return bytes([width]) + values.astype(f"<i{width}").view(np.uint8).reshape(-1, width).T.tobytes()


def _decode_numbers(data: bytes) -> IntArray:
    width = data[0] if data else 0
    if width not in (1, 2, 4, 8) or (len(data) - 1) % width:
        raise ValueError(f"expected numbers of 1, 2, 4 or 8 bytes, found {width}")
    planes = np.frombuffer(data, np.uint8, offset=1).reshape(width, -1)
    return np.ascontiguousarray(planes.T).view(f"<i{width}").ravel().astype(np.int64)
