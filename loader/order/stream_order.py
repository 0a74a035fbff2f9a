"""What the pipeline knows of an order: each lane is a stream of samples, any stretch of which can be asked for."""

from __future__ import annotations

from typing import Protocol

from .leaf_shuffle import Integers

__all__ = ["LaneOrder", "Located", "StreamOrder", "check_lane", "check_range"]

Located = tuple[Integers, Integers, Integers]
"""The leaf, the epoch and the sample number at some positions, each an array of shape (positions,)."""


class LaneOrder(Protocol):
    """One lane's stream of samples."""

    @property
    def length(self) -> int | None:
        """How many samples the lane has in the pass; None: it goes on for ever."""

    def locate(self, start: int, stop: int) -> Located:
        """Give the samples at the positions ``[start, stop)`` of the lane's stream.

        Raises:
            ValueError: Not ``0 <= start <= stop <= length``.
        """


class StreamOrder(Protocol):
    """The streams of all lanes of a run: frozen, compares by value, pickles, and opens at no cost of its size."""

    @property
    def lanes(self) -> int:
        """L, the lanes of the run."""

    @property
    def batches(self) -> int | None:
        """How many micro-batches a pass has, where that is known ahead (a ``DealtPass``); else None."""

    def lane(self, number: int) -> LaneOrder:
        """Give the stream of a lane in ``[0, lanes)``."""


def check_range(start: int, stop: int, length: int | None) -> None:
    """Refuse positions that a lane does not have.

    Raises:
        ValueError: Not ``0 <= start <= stop <= length``.
    """
    if not 0 <= start <= stop or (length is not None and stop > length):
        limit = "" if length is None else f" <= {length}"
        raise ValueError(f"expected 0 <= start <= stop{limit}, found [{start}, {stop})")


def check_lane(number: int, lanes: int) -> None:
    """Refuse a lane that a run does not have.

    Raises:
        ValueError: Not ``0 <= number < lanes``.
    """
    if not 0 <= number < lanes:
        raise ValueError(f"expected a lane in [0, {lanes}), found {number}")
