"""Ascending numbers as a short text, which a state holds."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

import numpy as np

from ..arrays import IntArray

_MAX_PLANES = 5  # bytes of a gap: a source has fewer than 2^40 samples


def pack_numbers(numbers: IntArray) -> str:
    """Return ascending numbers as their count and the compressed gaps between them; no numbers as an empty text.

    >>> pack_numbers(np.arange(1000, 2000)).partition(":")[0]
    '1000'
    """
    if not len(numbers):
        return ""
    gaps = np.diff(numbers, prepend=-1).astype("<u8").view(np.uint8).reshape(-1, 8)
    # Bytes of one significance follow one another, since they resemble each other; most gaps have one byte.
    used = int(np.flatnonzero(gaps.any(axis=0))[-1]) + 1
    return f"{len(numbers)}:{b64encode(zlib.compress(gaps.T[:used].tobytes(), 9)).decode()}"


def count_packed(packed: str) -> int:
    """Return how many numbers a text holds."""
    return int(packed.partition(":")[0] or 0)


def unpack_numbers(packed: str, stop: int) -> IntArray:
    """Return the numbers in a text of :func:`pack_numbers`.

    Args:
        stop: All numbers are below it. It bounds the memory that a hostile text takes.

    Raises:
        ValueError: The text is damaged.

    >>> unpack_numbers(pack_numbers(np.array([0, 3, 400])), 401).tolist()
    [0, 3, 400]
    """
    if not packed:
        return np.empty(0, np.int64)
    count = count_packed(packed)
    if not 0 < count <= stop:
        raise ValueError(f"expected excluded samples of {stop}, found {count}")
    # Unpack as many bytes as such numbers have.
    unpacker = zlib.decompressobj()
    try:
        planes = unpacker.decompress(b64decode(packed.partition(":")[2], validate=True), count * _MAX_PLANES + 1)
    except zlib.error as error:
        raise ValueError(f"the numbers of excluded samples are damaged: {error}") from error
    used, rest = divmod(len(planes), count)
    if rest or not 0 < used <= _MAX_PLANES or not unpacker.eof:
        raise ValueError(f"expected the gaps between excluded samples ({count}), found {len(planes)} bytes")
    # Join the bytes of each gap, and add the gaps up.
    gaps = np.zeros((count, 8), np.uint8)
    gaps[:, :used] = np.frombuffer(planes, np.uint8).reshape(used, count).T
    steps = gaps.view("<i8").ravel().astype(np.int64)
    if steps.min() < 1 or steps.sum(dtype=np.float64) > stop:
        raise ValueError(f"expected ascending numbers of excluded samples below {stop}")
    return np.cumsum(steps) - 1
