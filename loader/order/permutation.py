"""Permutations of ``[0, n)`` that are chosen by a key and computed, not stored.

The place of an element is computed from the element alone, in constant time and space. The method is cycle walking by
Black and Rogaway ("Ciphers with arbitrary finite domains", 2002): a Feistel network over pairs (x, y) of
``[0, a) × [0, b)`` with ``a·b ≥ n``, applied again to the few results of n or more. It is no cipher: keys are short and
rounds are few, for speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from .mixing import Words, extend, extend_integer, mix

_ROUNDS = 6
_SMALL_SIZE = 128  # below this size, few rounds favour some permutations, so more rounds are applied
_SMALL_ROUNDS = 16
_MAX_SCALAR = 8  # up to this many positions, Python integers are faster than numpy
_HALF = np.array(32, dtype=np.uint64)
_ROUND_NUMBERS = tuple(np.array(number, dtype=np.uint64) for number in range(_SMALL_ROUNDS))


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
    columns = np.ceil(np.sqrt(size)).astype(np.int64)  # a, so that a·b is barely more than the size
    rows = -(-size // columns)  # b
    # Adding zeros broadcasts faster than numpy's function for it.
    zeros = np.zeros(len(position), dtype=np.int64)
    size, columns, rows = size + zeros, columns + zeros, rows + zeros
    network = _Network(columns.view(np.uint64), rows.view(np.uint64), mix(key) + zeros.view(np.uint64))
    bound = size.view(np.uint64)  # a·b of the largest sizes has 64 bits
    if len(position) > _MAX_SCALAR:
        result = network.permute(position.view(np.uint64))
        outside = np.flatnonzero(result >= bound)
    else:
        result, outside = position.astype(np.uint64), np.arange(len(position))
    while len(outside) > _MAX_SCALAR:
        moved = network.select(outside).permute(result[outside])
        result[outside] = moved
        outside = outside[moved >= bound[outside]]
    for at in outside.tolist():
        result[at] = network.walk(at, int(result[at]), int(size[at]))
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


@dataclass(frozen=True, slots=True)
class _Network:
    """Permutations of ``[0, columns · rows)``, each of the same shape (m,) as the positions.

    Attributes:
        columns: a.
        rows: b.
        key: Hash of the key, the common start of the hashes of all rounds.
    """

    columns: Words
    rows: Words
    key: Words

    def select(self, index: IntArray) -> _Network:
        return _Network(self.columns[index], self.rows[index], self.key[index])

    def permute(self, position: Words) -> Words:
        """Move each position once."""
        result = _rounds(self, range(_ROUNDS), position)
        small = np.flatnonzero(self.columns * self.rows < _SMALL_SIZE)
        if len(small):
            result[small] = _rounds(self.select(small), range(_ROUNDS, _SMALL_ROUNDS), result[small])
        return result

    def walk(self, at: int, position: int, size: int) -> int:
        """Move one position by the ``at``-th permutation, until it is below the size."""
        return _walk(position, size, int(self.columns[at]), int(self.rows[at]), int(self.key[at]))


def _walk(position: int, size: int, columns: int, rows: int, key: int) -> int:
    rounds = _SMALL_ROUNDS if columns * rows < _SMALL_SIZE else _ROUNDS
    while True:
        y, x = divmod(position, columns)
        for number in range(0, rounds, 2):
            x = (x + _below(extend_integer(key, y, number), columns)) % columns
            y = (y + _below(extend_integer(key, x, number + 1), rows)) % rows
        position = y * columns + x
        if position < size:
            return position


def _rounds(network: _Network, numbers: range, position: Words) -> Words:
    y, x = np.divmod(position, network.columns)
    for number in numbers[::2]:
        _shift(x, y, network.columns, network.key, number)
        _shift(y, x, network.rows, network.key, number + 1)
    y *= network.columns
    y += x
    return y


def _shift(moved: Words, by: Words, bound: Words, key: Words, number: int) -> None:
    """Rotate coordinates in place within ``[0, bound)``, by a hash of the other coordinates."""
    word = extend(key, by, _ROUND_NUMBERS[number])
    np.right_shift(word, _HALF, out=word)
    np.multiply(word, bound, out=word)
    np.right_shift(word, _HALF, out=word)
    np.add(moved, word, out=moved)
    # Values below 0 wrap around to the largest words, so the smaller of the two is the one in range.
    np.minimum(moved, np.subtract(moved, bound, out=word), out=moved)


def _below(word: int, bound: int) -> int:
    """Map a word evenly to ``[0, bound)``, for bounds below 2^32."""
    return ((word >> 32) * bound) >> 32
