"""Divide groups of samples among split parts, each group as a whole."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray


def parts_of_groups(sizes: IntArray, order: IntArray, ends: npt.NDArray[np.float64], needed: IntArray) -> IntArray:
    """Return the part of each group: an order of the groups is cut where the shares of the samples are reached.

    A group belongs to the part in which its middle lies. Where a part would get none that way, large groups come first
    in the order, so that the shares are kept as well as the groups allow.

    Args:
        sizes: Numbers of samples of the groups, shape (n,).
        order: The numbers of the groups in a pseudorandom order, shape (n,).
        ends: Number of samples up to the end of each part, shape (parts,).
        needed: Numbers of the parts that get a group at least, ascending; with fewer groups, the first of them do.

    >>> parts_of_groups(np.array([1, 9, 2]), np.array([0, 1, 2]), np.array([9.6, 10.8, 12.0]), np.arange(3)).tolist()
    [2, 0, 1]
    """
    parts = np.empty(len(sizes), np.int64)
    for chosen in (order, order[np.argsort(-sizes[order], kind="stable")]):
        middles = np.cumsum(sizes[chosen]) - sizes[chosen] / 2
        parts[chosen] = np.searchsorted(ends[:-1], middles, side="right")
        if np.isin(needed, parts).all():
            return parts
    # Move the cuts apart by a group where a part would be empty: from the left, then from the right.
    filled = needed[: len(sizes)]
    least = np.arange(1, len(filled) + 1)
    cuts = np.searchsorted(parts[chosen], filled, side="right")
    cuts = np.maximum.accumulate(np.maximum(cuts - least, 0)) + least
    cuts = np.minimum(cuts, len(sizes) - len(filled) + least)
    parts[chosen] = np.repeat(filled, np.diff(cuts, prepend=0))
    return parts
