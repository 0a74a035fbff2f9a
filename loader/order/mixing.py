"""Integers that look random and are a function of what names them.

numpy's own streams may change between its versions and would then silently reorder a run, so the few lines of
arithmetic are our own, and golden values in the tests fix them. The mixer is the finaliser of splitmix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", 2014).

For arrays of up to a thousand words, calling numpy costs as much as the arithmetic: so names that many numbers share
are hashed once (``extend`` goes on from there), and arrays are changed in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Words", "extend", "extend_integer", "mix"]

Words = npt.NDArray[np.uint64]
"""An array of 64-bit words of any shape; shapes broadcast."""

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31
_MASK = 0xFFFFFFFFFFFFFFFF

# Arrays without dimensions, which numpy's functions take more quickly than scalars.
_GOLDEN_WORD, _FIRST_WORD, _SECOND_WORD = (np.array(word, dtype=np.uint64) for word in (_GOLDEN, _FIRST, _SECOND))
_NO_NAME = np.zeros(1, dtype=np.uint64)  # not a scalar, about whose wrap-around numpy would warn
_SHIFT_WORDS = tuple(np.array(bits, dtype=np.uint64) for bits in _SHIFTS)


def mix(*names: npt.NDArray[np.integer[Any]] | int) -> Words:
    """Hash some integers, in order, to one word.

    Args:
        names: What the number is for: seed, purpose, lane, epoch …; arrays broadcast against each other.

    >>> hex(int(mix(0))), hex(int(mix(1, 2)))
    ('0xe220a8397b1dcdaf', '0xbcd9dbb49673066b')
    """
    integers = [name for name in names if isinstance(name, int)]
    if len(integers) == len(names):  # a single word is quicker without numpy
        return np.array(extend_integer(0, *integers), dtype=np.uint64)
    mixed = extend(_NO_NAME, *names)
    return mixed if any(isinstance(name, np.ndarray) and name.ndim for name in names) else mixed.reshape(())


def extend_integer(word: int, *names: int) -> int:
    """Do as :func:`extend`, for a single word."""
    for name in names:
        word = ((word ^ (name & _MASK)) + _GOLDEN) & _MASK
        word = ((word ^ (word >> _SHIFTS[0])) * _FIRST) & _MASK
        word = ((word ^ (word >> _SHIFTS[1])) * _SECOND) & _MASK
        word ^= word >> _SHIFTS[2]
    return word


def extend(word: Words, *names: npt.NDArray[np.integer[Any]] | int) -> Words:
    """Hash more names: ``extend(mix(a), b, c)`` is ``mix(a, b, c)``.

    Args:
        word: What the names before gave; at least one dimension.
        names: As in :func:`mix`.
    """
    for name in names:
        word = np.bitwise_xor(word, _word(name))
        np.add(word, _GOLDEN_WORD, out=word)
        _finish(word, np.empty_like(word))
    return word


def _word(name: npt.NDArray[np.integer[Any]] | int) -> Words:
    if isinstance(name, int):
        return np.array(name & _MASK, dtype=np.uint64)
    return name.view(np.uint64) if name.dtype.itemsize == 8 else name.astype(np.uint64)


def _finish(word: Words, scratch: Words) -> None:
    """Change words in place, by the lines of :func:`extend_integer`."""
    np.right_shift(word, _SHIFT_WORDS[0], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
    np.multiply(word, _FIRST_WORD, out=word)
    np.right_shift(word, _SHIFT_WORDS[1], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
    np.multiply(word, _SECOND_WORD, out=word)
    np.right_shift(word, _SHIFT_WORDS[2], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
