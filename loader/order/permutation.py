"""Permutations of ``[0, n)`` that are chosen by a key and never stored.

Where an element goes is computed from the element alone, in constant time and space. The method is that of Black and
Rogaway ("Ciphers with arbitrary finite domains", 2002): a Feistel network over pairs (x, y) of ``[0, a) × [0, b)`` with
``a·b ≥ n``, walked again for the few results that are no less than n. This is no cipher: keys are short and rounds are
few, for speed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .mixing import Words, below, mix

__all__ = ["permute"]

_ROUNDS = range(6)
_SMALL = 128  # few rounds favour some permutations of so few elements: these get more
_MORE_ROUNDS = range(6, 16)

Integers = npt.NDArray[np.int64]


def permute(position: Integers, size: Integers | int, key: Words) -> Integers:
    """Give where the keyed permutation of ``[0, size)`` takes each position.

    Args:
        position: Shape (m,), each in ``[0, size)``.
        size: Elements of each position's permutation, at least 1 and below 2^62; broadcasts to (m,).
        key: Which permutation; broadcasts to (m,).

    Returns:
        Shape (m,): for one size and key, a bijection.

    Raises:
        ValueError: A position is none of its permutation.

    >>> permute(np.arange(6), 6, mix(1)).tolist()
    [2, 0, 1, 5, 4, 3]
    """
    size = np.broadcast_to(np.asarray(size, dtype=np.int64), position.shape)
    if not ((position >= 0) & (position < size)).all():
        raise ValueError("expected positions in [0, size)")
    key = np.broadcast_to(key, position.shape)
    columns = np.ceil(np.sqrt(size)).astype(np.int64)  # a: so that a·b is barely more than the size
    rows = -(-size // columns)  # b
    result = _network(position, columns, rows, key)
    outside = np.flatnonzero(result >= size)
    while len(outside):
        again = _network(result[outside], columns[outside], rows[outside], key[outside])
        result[outside] = again
        outside = outside[again >= size[outside]]
    return result


def _network(position: Integers, columns: Integers, rows: Integers, key: Words) -> Integers:
    """Permute ``[0, columns · rows)``."""
    result = _rounds(_ROUNDS, position, columns, rows, key)
    small = np.flatnonzero(columns * rows < _SMALL)
    if len(small):
        result[small] = _rounds(_MORE_ROUNDS, result[small], columns[small], rows[small], key[small])
    return result


def _rounds(numbers: range, position: Integers, columns: Integers, rows: Integers, key: Words) -> Integers:
    x, y = position % columns, position // columns
    for number in numbers[::2]:
        x += below(mix(key, y, number), columns)
        x -= columns * (x >= columns)
        y += below(mix(key, x, number + 1), rows)
        y -= rows * (y >= rows)
    return y * columns + x
