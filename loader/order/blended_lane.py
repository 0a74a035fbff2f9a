"""One lane's stream of several leaves: the blend says which leaf comes, the leaves' order says which sample of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .blend import BlendOrder
from .leaf_shuffle import Integers, LeafOrder
from .stream_order import Located, check_range

__all__ = ["BlendedLane", "LeafStreams", "check_leaves"]


class LeafStreams(Protocol):
    """The streams of all leaves in all lanes."""

    def locate(self, leaf: Integers, lane: int, position: Integers) -> tuple[Integers, Integers]:
        """Give the epochs and the sample numbers at some positions; all of shape (m,)."""


class BlendedLane:
    """The stream of a lane.

    Args:
        number: The lane.
        streams: The leaves' streams.
        blend: How they are blended; None for a single leaf.
        length: The samples of the pass in this lane; None: for ever.
    """

    def __init__(self, number: int, streams: LeafStreams, blend: BlendOrder | None, length: int | None) -> None:
        self._number = number
        self._streams = streams
        self._blend = blend
        self._length = length

    @property
    def length(self) -> int | None:
        return self._length

    def locate(self, start: int, stop: int) -> Located:
        check_range(start, stop, self._length)
        if self._blend is None:
            leaf, position = np.zeros(stop - start, dtype=np.int64), np.arange(start, stop)
        else:
            leaf, position = self._blend.locate(start, stop)
        return leaf, *self._streams.locate(leaf, self._number, position)


def check_leaves(leaves: Sequence[LeafOrder], shares: Sequence[float], lanes: int) -> None:
    """Refuse what is no set of leaves.

    Raises:
        ValueError: There is no lane or leaf, a leaf has no samples, or not every leaf has one share above 0.
    """
    if lanes < 1:
        raise ValueError(f"expected at least 1 lane, found {lanes}")
    if not leaves or len(leaves) != len(shares):
        raise ValueError(f"expected leaves and a number for each, found {len(leaves)} and {len(shares)}")
    if min(leaf.samples for leaf in leaves) < 1 or min(leaf.slice_length for leaf in leaves) < 1:
        raise ValueError("expected leaves of at least 1 sample, in slices of at least 1")
    shares_array = np.asarray(shares, dtype=np.float64)
    if not (np.isfinite(shares_array).all() and (shares_array > 0).all()):
        raise ValueError(f"expected numbers above 0, found {list(shares)}")
