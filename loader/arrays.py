"""Types of numpy arrays that all layers use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
"""Positions, numbers and offsets of samples; shape (n,) unless stated otherwise."""
