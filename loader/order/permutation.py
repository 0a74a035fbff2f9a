"""Permutations of ``[0, n)`` that are chosen by a key and computed, not stored.

The place of an element is computed from the element alone, in constant time and space. The method is cycle walking by
Black and Rogaway ("Ciphers with arbitrary finite domains", 2002): a Feistel network over pairs (x, y) of
``[0, a) × [0, b)`` with ``a·b ≥ n``, applied again to the few results of n or more. It is no cipher: keys are short and
rounds are few, for speed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray

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
    """
    for key in keys:
        word = np.bitwise_xor(word, _word(key))
        np.add(word, _GOLDEN_WORD, out=word)
        # The lines of extend_integer, in place.
        scratch = np.right_shift(word, _SHIFT_WORDS[0])
        np.bitwise_xor(word, scratch, out=word)
        np.multiply(word, _FIRST_WORD, out=word)
        np.right_shift(word, _SHIFT_WORDS[1], out=scratch)
        np.bitwise_xor(word, scratch, out=word)
        np.multiply(word, _SECOND_WORD, out=word)
        np.right_shift(word, _SHIFT_WORDS[2], out=scratch)
        np.bitwise_xor(word, scratch, out=word)
    return word


def _word(key: npt.NDArray[np.integer[Any]] | int) -> Words:
    if isinstance(key, int):
        return np.array(key & _MASK, dtype=np.uint64)
    return key.view(np.uint64) if key.dtype.itemsize == 8 else key.astype(np.uint64)


_ROUNDS = 6
_SMALL_SIZE = 128  # below this size, few rounds favour some permutations, so more rounds are applied
_SMALL_ROUNDS = 16
_MAX_SCALAR = 8  # up to this many positions, Python integers are faster than numpy
_HALF = np.array(32, dtype=np.uint64)
_ROUND_NUMBERS = tuple(np.array(round_number, dtype=np.uint64) for round_number in range(_SMALL_ROUNDS))


def permute(position: IntArray, size: IntArray | int, key: Words) -> IntArray:
    """Move each position by the keyed permutation of ``[0, size)``.

    Args:
        position: Shape (m,), each in ``[0, size)``.
        size: Number of elements of each position's permutation, at least 1; broadcasts to (m,).
        key: Keys of the permutations; broadcasts to (m,).

    Returns:
        Shape (m,): for one size and key, a bijection.

    Raises:
        ValueError: A position is outside of its permutation.

    >>> permute(np.arange(6), 6, mix(1)).tolist()
    [2, 0, 1, 5, 4, 3]
    """
    size = np.asarray(size, dtype=np.int64)
    if not ((position >= 0) & (position < size)).all():
        raise ValueError("expected positions in [0, size)")
    # The network permutes a grid that is barely larger than the size.
    columns = np.ceil(np.sqrt(size)).astype(np.int64)  # a, so that a·b is barely more than the size
    rows = -(-size // columns)  # b
    # Adding zeros broadcasts faster than numpy's function for it.
    zeros = np.zeros(len(position), dtype=np.int64)
    size, columns, rows = size + zeros, columns + zeros, rows + zeros
    network = _Network(columns.view(np.uint64), rows.view(np.uint64), mix(key) + zeros.view(np.uint64))
    bound = size.view(np.uint64)  # a·b of the largest sizes has 64 bits
    # Few positions are permuted one by one: numpy's fixed cost for each round would be higher.
    if len(position) > _MAX_SCALAR:
        result = _permute(network, position.view(np.uint64))
        outside = np.flatnonzero(result >= bound)
    else:
        result, outside = position.astype(np.uint64), np.arange(len(position))
    # Positions outside of the size are permuted again until they are inside, which keeps the result a permutation.
    while len(outside) > _MAX_SCALAR:
        moved = _permute(network.select(outside), result[outside])
        result[outside] = moved
        outside = outside[moved >= bound[outside]]
    for at in outside.tolist():
        result[at] = _walk(*(int(column[at]) for column in (result, size, *network)))
    return result.view(np.int64)


def permute_integer(position: int, size: int, key: int) -> int:
    """Move a single position as :func:`permute` does.

    Args:
        position: Position in ``[0, size)``.
        size: Number of elements, at least 1.
        key: Key of the permutation, a word.

    >>> [permute_integer(position, 6, int(mix(1))) for position in range(6)]
    [2, 0, 1, 5, 4, 3]
    """
    columns = math.ceil(math.sqrt(size))  # rounded as numpy rounds it
    return _walk(position, size, columns, -(-size // columns), extend_integer(0, key))


class _Network(NamedTuple):
    """Permutations of ``[0, columns · rows)``, each of the same shape (m,) as the positions."""

    columns: Words  # a
    rows: Words  # b
    key: Words  # hash of the key, the common start of the hashes of all rounds

    def select(self, index: IntArray) -> _Network:
        return _Network(*(column[index] for column in self))


def _permute(network: _Network, position: Words, numbers: range = range(_ROUNDS)) -> Words:
    """Move positions by the rounds of these numbers; in small networks by more of them."""
    y, x = np.divmod(position, network.columns)
    for round_number in numbers[::2]:
        _shift(x, y, network.columns, network.key, round_number)
        _shift(y, x, network.rows, network.key, round_number + 1)
    y *= network.columns
    y += x
    if numbers.stop == _SMALL_ROUNDS:
        return y
    small = np.flatnonzero(network.columns * network.rows < _SMALL_SIZE)
    if len(small):
        y[small] = _permute(network.select(small), y[small], range(_ROUNDS, _SMALL_ROUNDS))
    return y


def _walk(position: int, size: int, columns: int, rows: int, key: int) -> int:
    rounds = _SMALL_ROUNDS if columns * rows < _SMALL_SIZE else _ROUNDS
    while True:
        y, x = divmod(position, columns)
        for round_number in range(0, rounds, 2):
            x = (x + _below(extend_integer(key, y, round_number), columns)) % columns
            y = (y + _below(extend_integer(key, x, round_number + 1), rows)) % rows
        position = y * columns + x
        if position < size:
            return position


def _shift(moved: Words, by: Words, bound: Words, key: Words, round_number: int) -> None:
    """Rotate coordinates in place within ``[0, bound)``, by a hash of the other coordinates."""
    word = extend(key, by, _ROUND_NUMBERS[round_number])
    np.right_shift(word, _HALF, out=word)
    np.multiply(word, bound, out=word)
    np.right_shift(word, _HALF, out=word)
    np.add(moved, word, out=moved)
    # Values below 0 wrap around to the largest words, so the smaller of the two is the one in range.
    np.minimum(moved, np.subtract(moved, bound, out=word), out=moved)


def _below(word: int, bound: int) -> int:
    """Map a word evenly to ``[0, bound)``, for bounds below 2^32."""
    return ((word >> 32) * bound) >> 32
