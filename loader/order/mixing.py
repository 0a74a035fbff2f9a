"""Hash integers to random-looking words: random numbers as a function of their purpose, seed and position.

numpy's random streams may change between its versions and would then silently reorder a run. So the few lines of
arithmetic are written out here, and golden values in the tests fix them. The mixer is the finaliser of splitmix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).

For arrays of up to a thousand words, calling numpy costs as much as the arithmetic. So keys that many numbers share are
hashed once (``extend`` continues from there), and arrays are changed in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
"""An array of 64-bit words of any shape; shapes broadcast."""

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFTS = 30, 27, 31
_MASK = 0xFFFFFFFFFFFFFFFF

# Arrays without dimensions: numpy's functions accept them faster than scalars.
_GOLDEN_WORD, _FIRST_WORD, _SECOND_WORD = (np.array(word, dtype=np.uint64) for word in (_GOLDEN, _FIRST, _SECOND))
_ZERO = np.zeros(1, dtype=np.uint64)  # one dimension: numpy warns if a scalar wraps around
_SHIFT_WORDS = tuple(np.array(bits, dtype=np.uint64) for bits in _SHIFTS)


def mix(*keys: npt.NDArray[np.integer[Any]] | int) -> Words:
    """Hash integers, in order, to one word.

    Args:
        keys: Integers that identify the number: seed, purpose, lane, epoch …; arrays broadcast against each other.

    >>> hex(int(mix(0))), hex(int(mix(1, 2)))
    ('0xe220a8397b1dcdaf', '0xbcd9dbb49673066b')
    """
    integers = [key for key in keys if isinstance(key, int)]
    if len(integers) == len(keys):  # a single word is faster without numpy
        return np.array(extend_integer(0, *integers), dtype=np.uint64)
    mixed = extend(_ZERO, *keys)
    return mixed if any(isinstance(key, np.ndarray) and key.ndim for key in keys) else mixed.reshape(())


def extend_integer(word: int, *keys: int) -> int:
    """Hash further keys into a single word, as :func:`extend` does."""
    for key in keys:
        word = ((word ^ (key & _MASK)) + _GOLDEN) & _MASK
        word = ((word ^ (word >> _SHIFTS[0])) * _FIRST) & _MASK
        word = ((word ^ (word >> _SHIFTS[1])) * _SECOND) & _MASK
        word ^= word >> _SHIFTS[2]
    return word


def extend(word: Words, *keys: npt.NDArray[np.integer[Any]] | int) -> Words:
    """Hash further keys into words: ``extend(mix(a), b, c)`` is ``mix(a, b, c)``.

    Args:
        word: Hash of the keys before; at least one dimension.
        keys: Keys, as in :func:`mix`.
    """
    for key in keys:
        word = np.bitwise_xor(word, _word(key))
        np.add(word, _GOLDEN_WORD, out=word)
        _finish(word, np.empty_like(word))
    return word


def _word(key: npt.NDArray[np.integer[Any]] | int) -> Words:
    if isinstance(key, int):
        return np.array(key & _MASK, dtype=np.uint64)
    return key.view(np.uint64) if key.dtype.itemsize == 8 else key.astype(np.uint64)


def _finish(word: Words, scratch: Words) -> None:
    """Mix words in place, as the lines of :func:`extend_integer` do."""
    np.right_shift(word, _SHIFT_WORDS[0], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
    np.multiply(word, _FIRST_WORD, out=word)
    np.right_shift(word, _SHIFT_WORDS[1], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
    np.multiply(word, _SECOND_WORD, out=word)
    np.right_shift(word, _SHIFT_WORDS[2], out=scratch)
    np.bitwise_xor(word, scratch, out=word)
