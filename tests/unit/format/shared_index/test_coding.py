"""Columns of an index file: exact, and few bytes a sample."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loader.format.index.layout import ShardEntry
from loader.format.index.shard_index import ShardRows
from loader.format.shared_index.coding import decode_shard, encode_shard

NAMES = ("jpg", "txt", "json", "npy", "cls")
MEDIANS = (150_000, 120, 3_000, 50_000, 700)  # bytes of the parts


def shard_of(keys: Sequence[bytes], sizes: Any, gaps: Any = 0) -> tuple[ShardRows, ShardEntry]:
    """Return a shard whose parts follow one another, with some free blocks before each."""
    parts = np.asarray(sizes, np.int64).reshape(len(keys), -1)
    size = parts.ravel()
    steps = 1 + (size + 511) // 512 + np.asarray(gaps)
    block = 1 + np.cumsum(steps) - steps
    rows = ShardRows(
        part_ends=np.arange(1, len(keys) + 1) * parts.shape[1],
        key_ends=np.cumsum([len(key) for key in keys], dtype=np.int64),
        key_bytes=np.frombuffer(b"".join(keys), np.uint8),
        part_names=NAMES[: parts.shape[1]],
        part_name=np.tile(np.arange(parts.shape[1], dtype=np.uint32), len(keys)),
        part_block=block,
        part_size=size,
    )
    end = int((steps.sum() + 20) * 512)
    entry = ShardEntry(
        name="a.tar", size_bytes=end, mtime_ns=0, samples=len(keys), first_sample=0, end_offset=end, plain=True
    )
    return rows, entry


def check_round_trip(rows: ShardRows, entry: ShardEntry) -> int:
    """Encode and decode a shard; return the number of compressed bytes."""
    encoded = encode_shard(rows, {name: number for number, name in enumerate(NAMES)})
    decoded = decode_shard(encoded, entry, NAMES)
    assert (decoded.part_offset // 512).tolist() == rows.part_block.tolist()
    for name in ("part_size", "part_ends", "key_ends", "key_bytes", "part_name"):
        assert getattr(decoded, name).tolist() == getattr(rows, name).tolist(), name
    return len(zlib.compress(encoded))


KEYS: dict[str, Callable[[np.random.Generator, int], bytes]] = {
    "numbers": lambda _, number: b"%09d" % number,
    "numbers of any length": lambda _, number: b"image_%d" % number,
    "hexadecimal": lambda random, _: random.bytes(8).hex().encode(),
    "any bytes": lambda random, _: random.integers(1, 255, 16, np.uint8).tobytes(),
}


@pytest.mark.parametrize(("parts", "most"), [(2, 40), (5, 70)])
@pytest.mark.parametrize("form", KEYS)
def test_a_sample_takes_few_bytes(form: str, parts: int, most: int) -> None:
    random = np.random.default_rng(0)
    sizes = np.exp(random.normal(np.log(MEDIANS[:parts]), 0.7, (10_000, parts))).astype(np.int64)
    size_bytes = check_round_trip(*shard_of([KEYS[form](random, number) for number in range(10_000)], sizes))
    assert size_bytes / 10_000 <= most * 0.75


@given(
    samples=st.lists(
        st.tuples(st.binary(max_size=12), st.integers(0, 1 << 40), st.integers(0, 9)), min_size=1, max_size=9
    )
)
def test_any_columns_are_exact(samples: list[tuple[bytes, int, int]]) -> None:
    check_round_trip(*shard_of(*zip(*samples, strict=True)))


def test_data_of_other_lengths_are_refused() -> None:
    rows, entry = shard_of([b"a", b"b", b"c"], [5, 600, 7])
    encoded = encode_shard(rows, {"jpg": 0})
    for wrong in (*(encoded[:end] for end in range(len(encoded))), encoded + b"x", b"\3abc", b"\1\xff\xff\xff"):
        with pytest.raises(ValueError, match=r"expected -?[\d,]+ (numbers|bytes of keys)"):
            decode_shard(wrong, entry, ("jpg",))
