"""Integers that look random and are a function of what names them.

numpy's own streams may change between its versions and would then silently reorder a run, so the few lines of
arithmetic are our own, and golden values in the tests fix them. The mixer is the finaliser of splitmix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Words", "below", "mix"]

Words = npt.NDArray[np.uint64]
"""An array of 64-bit words of any shape; shapes broadcast."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def mix(*names: npt.NDArray[np.integer[Any]] | int) -> Words:
    """Hash some integers, in order, to one word.

    Args:
        names: What the number is for: seed, purpose, lane, epoch …; arrays broadcast against each other.

    >>> hex(int(mix(0))), hex(int(mix(1, 2)))
    ('0xe220a8397b1dcdaf', '0xbcd9dbb49673066b')
    """
    words = [_word(name) for name in names]
    mixed = np.zeros(1, dtype=np.uint64)  # not a scalar, about whose wrap-around numpy would warn
    for word in words:
        mixed = _finish((mixed ^ word) + _GOLDEN)
    return mixed if any(word.ndim for word in words) else mixed.reshape(())


def _word(name: npt.NDArray[np.integer[Any]] | int) -> Words:
    if isinstance(name, int):
        return np.array(name & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    return name.astype(np.uint64, copy=False)


def _finish(word: Words) -> Words:
    word = (word ^ (word >> _SHIFTS[0])) * _FIRST
    word = (word ^ (word >> _SHIFTS[1])) * _SECOND
    return word ^ (word >> _SHIFTS[2])


def below(word: Words, bound: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """Map words evenly to ``[0, bound)``.

    Args:
        word: Any words.
        bound: At least 1 and below 2^32; broadcasts.
    """
    return (((word >> _HALF) * np.asarray(bound).astype(np.uint64)) >> _HALF).astype(np.int64)
