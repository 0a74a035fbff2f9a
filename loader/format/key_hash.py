"""A 64-bit hash of keys: the same on every machine and in every version, since it is written to disk.

Each key is read as little-endian 64-bit words, the last one padded with zeros, and every word is mixed in by the
finaliser of splitmix64 (Steele, Lea, Flood 2014). It spreads keys; it is no protection against chosen ones, so whoever
looks a key up compares the key itself too.
"""

from __future__ import annotations

from struct import iter_unpack

import numpy as np
import numpy.typing as npt

__all__ = ["hash_key", "hash_keys", "hash_ragged"]

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
        keys: Shape (n, w), w a multiple of 8; zero behind each key's end.
        lengths: Shape (n,), bytes of each key, at most w.

    Returns:
        Shape (n,).
    """
    words = np.ascontiguousarray(keys).view("<u8")  # (n, w / 8)
    hashes = _mix(lengths.astype(np.uint64) + _GOLDEN)
    for column in range(words.shape[1]):
        mixed = _mix((hashes ^ words[:, column]) + _GOLDEN)
        hashes = np.where(lengths > 8 * column, mixed, hashes)
    return hashes


def hash_ragged(key_bytes: npt.NDArray[np.uint8], key_ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Hash keys that lie behind each other, some thousands at a time since they are padded to the longest."""
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
    # Plain integers: numpy takes twenty times as long for one key.
    state = _mix_one(len(key) + _GOLDEN_ONE)
    for (word,) in iter_unpack("<Q", key.ljust((len(key) + 7) & -8, b"\0")):
        state = _mix_one((state ^ word) + _GOLDEN_ONE)
    return state


def _mix_one(x: int) -> int:
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
