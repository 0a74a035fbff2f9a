"""The public ``permute``: apply a seed's permutation to an index, in constant time and space.

It wraps ``permutation.py`` for seed page 002: arguments are checked, and may be integers of any type.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import IntArray
from .permutation import permute as _permute, permute_integer

_MAX_LENGTH = 2**63 - 1  # of len()
_MAX_SEED = 2**64 - 1


def permute(index: int, length: int, seed: int) -> int:
    """Return the place of an index in the seed's permutation of ``[0, length)``.

    ``[permute(i, n, seed) for i in range(n)]`` contains each number below ``n`` once. Nothing is stored, and a call
    takes as long for ``n = 2**63 - 1`` as for ``n = 1000``: some 20 µs.

    The values are fixed: the same on every machine, and in every version of this library and of numpy.

    Args:
        index: Integer in ``[0, length)``.
        length: Number of elements of the permutation, 1 to 2^63 - 1.
        seed: Seed of the permutation, 0 to 2^64 - 1.

    Raises:
        ValueError: An argument is not an integer, or out of range.

    >>> [permute(index, 6, 1) for index in range(6)]
    [1, 5, 3, 2, 4, 0]
    """
    length = checked_integer(length, "length", minimum=1, maximum=_MAX_LENGTH)
    index = checked_integer(index, "index", maximum=length - 1)
    return permute_integer(index, length, checked_integer(seed, "seed", maximum=_MAX_SEED))


def permute_array(index: npt.ArrayLike, length: int, seed: npt.ArrayLike) -> IntArray:
    """Apply :func:`permute` to many indices at once: some 0.2 µs each.

    Args:
        index: Integers in ``[0, length)``, of any shape.
        length: Number of elements of the permutation, 1 to 2^63 - 1.
        seed: Seed of the permutation; or one for each index, of a shape that broadcasts to theirs.

    Returns:
        Array of the shape of ``index``.

    Raises:
        ValueError: An argument has values that are not integers, or out of range.

    >>> permute_array(np.arange(6), 6, seed=1).tolist()
    [1, 5, 3, 2, 4, 0]
    """
    length = checked_integer(length, "length", minimum=1, maximum=_MAX_LENGTH)
    places = _integers(index, "index", maximum=length - 1)
    seeds = np.broadcast_to(_integers(seed, "seed", maximum=_MAX_SEED), places.shape)
    moved = _permute(places.ravel().astype(np.int64), length, seeds.ravel().astype(np.uint64))
    return moved.reshape(places.shape)


def _integers(values: Any, name: str, *, maximum: int) -> npt.NDArray[np.integer[Any]]:
    if isinstance(values, int | np.integer) or np.ndim(values) == 0:
        return np.array(checked_integer(values, name, maximum=maximum), dtype=np.uint64)
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.uint64)  # numpy makes a float array of an empty list
    if array.dtype.kind not in "iu":
        raise ValueError(f"expected {name} to hold integers, found {array.dtype}")
    for extreme in (array.min(), array.max()):
        checked_integer(extreme, name, maximum=maximum)
    return array


def checked_integer(value: Any, name: str, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Convert a value to an ``int`` in a range.

    Args:
        value: An ``int`` or an integer-like value: a numpy integer, a tensor of one integer. A ``bool`` is refused.
        name: Name of the value in messages.
        minimum: Smallest allowed value.
        maximum: Largest allowed value; None for no limit.

    Raises:
        ValueError: It is not an integer, or out of range.

    >>> checked_integer(np.int32(7), "seed")
    7
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise ValueError(f"expected {name} to be an integer, found {type(value).__name__} {value!r}")
    integer = operator.index(value)
    if integer < minimum or (maximum is not None and integer > maximum):
        allowed = f"at least {minimum}" if maximum is None else f"in [{minimum}, {maximum}]"
        raise ValueError(f"expected {name} to be {allowed}, found {integer}")
    return integer


_BOUND = np.uint64(2**31 - 1)
_MASK = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_MIN_LOWER_HALF = np.uint64(
    2**32 % (2**31 - 1)
)  # smaller lower halves of products are rejected: they would bias the result


def epoch_seeds(seed: int, epochs: int) -> npt.NDArray[np.int64]:
    """Return a seed for each epoch. The seeds of a longer run start with the seeds of a shorter one.

    Args:
        seed: Seed of the run, at least 0.
        epochs: Number of epochs.

    Returns:
        Array of shape (epochs,), in ``[0, 2^31 - 1)``.

    >>> epoch_seeds(42, 3).tolist()
    [191664963, 1662057957, 1405681631]
    """
    bits = np.random.PCG64(seed)
    seeds = np.empty(0, dtype=np.uint64)
    while len(seeds) < epochs:
        words = np.atleast_1d(bits.random_raw((epochs - len(seeds) + 1) // 2))
        halves = np.stack([words & _MASK, words >> _HALF], axis=1).ravel()  # the lower one comes first
        products = halves * _BOUND
        seeds = np.concatenate([seeds, products[(products & _MASK) >= _MIN_LOWER_HALF] >> _HALF])
    return seeds[:epochs].astype(np.int64)
