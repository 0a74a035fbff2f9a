"""Encode the columns of an index to few bytes, a block of shards at a time, and decode them quickly: by numpy and zlib.

What a tar file implies is not stored: a part begins where the one before it ends, and a key is often the next number.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray
from ..index.key_hash import hash_ragged
from ..index.layout import ShardEntry
from ..index.shard_index import ShardIndex, ShardRows, scan_facts
from ..tar.header import BLOCK

COLUMNS = ("parts", "part_name", "part_size", "part_block", "key_length", "keys")

MAX_ROWS = 1 << 27
"""Most rows of a block, so that a small file cannot fill the memory."""

_TRIED_BYTES = 1 << 18  # of keys, by which their form is chosen
_AS_WRITTEN, _BY_POSITION, _AS_STEPS = range(3)  # forms of keys


class BlockRows(NamedTuple):
    """The numbers of rows of a block, by which the sizes of its columns are known before they are decompressed."""

    samples: int
    parts: int
    key_bytes: int


def encode_block(shards: Sequence[ShardRows], part_names: Mapping[str, int]) -> tuple[BlockRows, list[bytes]]:
    """Encode the rows of some shards.

    Args:
        part_names: The number of each part name.

    Returns:
        The numbers of rows, and the bytes of each of :data:`COLUMNS`.
    """
    ids = [np.array([part_names[name] for name in rows.part_names], np.int64)[rows.part_name] for rows in shards]
    sizes = _joined(shards, "part_size")
    key_bytes = _joined(shards, "key_bytes").astype(np.uint8)
    lengths = np.concatenate([np.diff(rows.key_ends.astype(np.int64), prepend=0) for rows in shards])
    columns = (
        np.concatenate([np.diff(rows.part_ends.astype(np.int64), prepend=0) for rows in shards]),
        np.concatenate(ids),
        sizes,
        np.diff(_joined(shards, "part_block"), prepend=0) - _steps(sizes),
        lengths,
    )
    encoded = [*map(_encode_numbers, columns), _encode_keys(key_bytes, lengths)]
    return BlockRows(len(lengths), len(sizes), len(key_bytes)), encoded


def decode_block(
    rows: BlockRows, encoded: Sequence[bytes], shards: Sequence[ShardEntry], part_names: Sequence[str]
) -> Iterator[ShardIndex]:
    """Decode the index of each shard of a block, which is not checked yet.

    Raises:
        ValueError: The bytes are no columns of so many rows.
    """
    # Decode the columns of all shards, and hash the keys together.
    counts = [rows.samples, *[rows.parts] * 3, rows.samples]
    parts, name, size, block, length = map(_decode_numbers, encoded, counts)
    totals = (int(parts.sum()), int(length.sum()), sum(shard.samples for shard in shards))
    if min(parts.min(initial=0), length.min(initial=0)) < 0 or totals != (rows.parts, rows.key_bytes, rows.samples):
        raise ValueError("its columns have other numbers of rows")
    keys, key_ends = _decode_keys(encoded[-1], length, rows.key_bytes), np.cumsum(length)
    hashes = hash_ragged(keys, key_ends)
    offset = np.cumsum(block + _steps(size)) * BLOCK
    part_ends = np.cumsum(parts)
    # Cut the rows of each shard out of them.
    first = 0
    for shard in shards:
        samples = slice(first, first := first + shard.samples)
        row, byte = (int(ends[samples.start - 1]) if samples.start else 0 for ends in (part_ends, key_ends))
        row_ends, byte_ends = part_ends[samples] - row, key_ends[samples] - byte
        used = slice(row, row + int(row_ends[-1]) if len(row_ends) else row)
        order = np.argsort(hashes[samples])
        yield ShardIndex(
            part_names=tuple(part_names),
            part_name=name[used].astype(np.uint32),
            part_offset=offset[used],
            part_size=size[used],
            part_ends=row_ends,
            key_bytes=keys[byte : byte + int(byte_ends[-1]) if len(byte_ends) else byte],
            key_ends=byte_ends,
            key_hash=hashes[samples][order],
            key_order=order,
            sample_offsets=np.empty(0, np.int64),
            **scan_facts(shard),
        )


def _joined(shards: Sequence[ShardRows], column: str) -> IntArray:
    return np.concatenate([getattr(rows, column) for rows in shards]).astype(np.int64)


def _steps(size: IntArray) -> IntArray:
    """Return how many blocks after the contents of the part before it each part begins if nothing is between them."""
    return np.concatenate([[0], 1 + (size[:-1] + (BLOCK - 1)) // BLOCK])[: len(size)]


# ------------------------------------------------------------------------------------------------------- columns


def _encode_numbers(values: IntArray) -> bytes:
    """Encode integers: the number of bytes of each, then all first bytes, all second bytes …, compressed."""
    width = next(width for width in (1, 2, 4, 8) if (values == values.astype(f"<i{width}")).all())
    planes = values.astype(f"<i{width}").view(np.uint8).reshape(-1, width).T
    return bytes([width]) + zlib.compress(planes.tobytes())


def _decode_numbers(data: bytes, count: int) -> IntArray:
    width = data[0] if data else 0
    if width not in (1, 2, 4, 8):
        raise ValueError(f"expected numbers of 1, 2, 4 or 8 bytes, found {width}")
    planes = np.frombuffer(decompress(data[1:], count * width), np.uint8).reshape(width, count)
    return np.ascontiguousarray(planes.T).view(f"<i{width}").ravel().astype(np.int64)


def _encode_keys(keys: npt.NDArray[np.uint8], lengths: IntArray) -> bytes:
    """Encode keys in the form that compresses best; all but the first form need keys of one length."""
    forms = [_AS_WRITTEN]
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        forms += [_BY_POSITION, _AS_STEPS]
    width = int(lengths[0]) if len(forms) > 1 else 1
    tried = keys[: _TRIED_BYTES // width * width]
    best = min(forms, key=lambda form: len(zlib.compress(_formed(tried, width, form), 1)))
    return bytes([best]) + zlib.compress(_formed(keys, width, best))


def _formed(keys: npt.NDArray[np.uint8], width: int, form: int) -> bytes:
    if form == _AS_WRITTEN:
        return keys.tobytes()
    table = keys.reshape(-1, width).T  # the letters of all keys at each position
    return (table if form == _BY_POSITION else np.diff(table, axis=1, prepend=np.uint8(0))).tobytes()


def _decode_keys(data: bytes, lengths: IntArray, size_bytes: int) -> npt.NDArray[np.uint8]:
    form = data[0] if data else -1
    keys = np.frombuffer(decompress(data[1:], size_bytes), np.uint8)
    if form == _AS_WRITTEN:
        return keys
    if form not in (_BY_POSITION, _AS_STEPS) or not size_bytes or (lengths != lengths[0]).any():
        raise ValueError(f"keys cannot have form {form}")
    table = keys.reshape(int(lengths[0]), -1)
    return np.ascontiguousarray((np.cumsum(table, axis=1, dtype=np.uint8) if form == _AS_STEPS else table).T).ravel()


def decompress(data: bytes | memoryview, size_bytes: int) -> bytes:
    """Decompress data of a known size; more is never decompressed.

    Raises:
        ValueError: The data are of another size, or no compressed data.
    """
    stream: Any = zlib.decompressobj()
    try:
        found = stream.decompress(data, size_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(found) != size_bytes or not stream.eof or stream.unused_data:
        raise ValueError(f"expected {size_bytes:,} bytes, found {'more' if len(found) > size_bytes else len(found)}")
    return bytes(found)
