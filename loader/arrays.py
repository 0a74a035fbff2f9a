"""Numpy arrays of the positions and numbers of samples."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
"""Positions, numbers and offsets of samples; shape (n,) unless stated otherwise."""


def numbers_in(ranges: Iterable[range]) -> IntArray:
    """Return the numbers of some ranges in their order, shape (n,)."""
    return np.concatenate([np.empty(0, np.int64), *(np.arange(some.start, some.stop) for some in ranges)])
