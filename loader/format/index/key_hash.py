"""Hashes of keys, the same on all machines."""

from __future__ import annotations

from struct import iter_unpack

import numpy as np
import numpy.typing as npt

_GOLDEN_ONE = 0x9E3779B97F4A7C15
_GOLDEN = np.uint64(_GOLDEN_ONE)
_MASK = (1 << 64) - 1


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_keys(keys: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash n keys at once.

    Args:
        keys: Shape (n, w), w a multiple of 8; zero after each key's end.
        lengths: Shape (n,): bytes of each key, at most w.

    Returns:
        Hashes of shape (n,).
    """
    words = np.ascontiguousarray(keys).view("<u8")  # (n, w / 8)
    hashes = _mix(lengths.astype(np.uint64) + _GOLDEN)
    for column in range(words.shape[1]):
        mixed = _mix((hashes ^ words[:, column]) + _GOLDEN)
        hashes = np.where(lengths > 8 * column, mixed, hashes)
    return hashes


def hash_ragged(key_bytes: npt.NDArray[np.uint8], key_ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash concatenated keys, thousands at a time, because each batch is padded to its longest key."""
    lengths = np.diff(key_ends, prepend=0)
    hashes = np.empty(len(key_ends), np.uint64)
    for start in range(0, len(key_ends), 16384):
        stop = min(start + 16384, len(key_ends))
        some = lengths[start:stop]
        width = max(8, (int(some.max()) + 7) & -8)
        padded = np.zeros((stop - start, width), np.uint8)
        first = int(key_ends[start] - lengths[start])
        padded[np.arange(width) < some[:, None]] = key_bytes[first : int(key_ends[stop - 1])]
        hashes[start:stop] = hash_keys(padded, some)
    return hashes


def hash_key(key: bytes) -> int:
    """Hash one key.

    >>> hex(hash_key(b"000123"))
    '0x11387ee9641c3579'
    """
    # With Python integers, because numpy takes twenty times as long for one key; calls of a function would add half.
    words = ((0,), *iter_unpack("<Q", key.ljust((len(key) + 7) & -8, b"\0")))
    state = len(key)
    for (word,) in words:
        state = ((state ^ word) + _GOLDEN_ONE) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
