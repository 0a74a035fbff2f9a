"""The seeds of epochs, as seed page 002 draws them: ``numpy.random.default_rng(seed).integers(0, 2**31 - 1, epochs)``.

What a numpy generator draws may change between numpy's versions, which would reorder a run; only its bit generators
are promised to stay. So integers are made of their bits here, by the method that numpy has used since 1.17 (Lemire,
"Fast random integer generation in an interval", 2019).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["epoch_seeds"]

_BOUND = np.uint64(2**31 - 1)
_MASK = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_UNEVEN = np.uint64(2**32 % (2**31 - 1))  # products whose lower half is below this would make some numbers likelier


def epoch_seeds(seed: int, epochs: int) -> npt.NDArray[np.int64]:
    """Give a seed for each epoch; those of a longer run begin like those of a shorter one.

    Args:
        seed: Of the run, at least 0.
        epochs: How many.

    Returns:
        Shape (epochs,), in ``[0, 2^31 - 1)``.

    >>> epoch_seeds(42, 3).tolist()
    [191664963, 1662057957, 1405681631]
    """
    bits = np.random.PCG64(seed)
    found = np.empty(0, dtype=np.uint64)
    while len(found) < epochs:
        words = np.atleast_1d(bits.random_raw((epochs - len(found) + 1) // 2))
        halves = np.stack([words & _MASK, words >> _HALF], axis=1).ravel()  # the lower one comes first
        products = halves * _BOUND
        found = np.concatenate([found, products[(products & _MASK) >= _UNEVEN] >> _HALF])
    return found[:epochs].astype(np.int64)
