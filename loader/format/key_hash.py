"""A 64-bit hash of keys: the same on every machine and in every version, since it is written to disk.

Each key is read as little-endian 64-bit words, the last one padded with zeros, and every word is mixed in by the
finaliser of splitmix64 (Steele, Lea, Flood 2014). It spreads keys; it is no protection against chosen ones, so whoever
looks a key up compares the key itself too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["hash_key", "hash_keys"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


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


def hash_key(key: bytes) -> int:
    """Hash one key.

    >>> hex(hash_key(b"000123"))
    '0x11387ee9641c3579'
    """
    width = max(8, (len(key) + 7) & -8)
    padded = np.frombuffer(key.ljust(width, b"\0"), dtype=np.uint8).reshape(1, width)
    return int(hash_keys(padded, np.array([len(key)]))[0])
