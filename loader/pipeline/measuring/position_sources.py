"""The sources of a reader's samples by their positions, computed from the order when statistics ask for them."""

from __future__ import annotations

from typing import Protocol

from ...arrays import IntArray
from ...errors import StateError
from ...order import LaneOrder
from .item_sources import NO_SOURCE

_BLOCK = 256  # positions that are located together
_MAX_BLOCKS = 64


class _Reader(Protocol):
    def lane_order(self, number: int, *, lanes: int, seed: int) -> LaneOrder: ...


class _Lane(Protocol):
    count: int
    seed: int


class ReaderSources:
    """The sources of a reader's samples.

    Args:
        reader: The reader.
        lane: The lane for which it is opened; it gives the seed of the order.
        first: The number of the reader's first source.
        sources: Number of its sources.
    """

    __slots__ = ("_blocks", "_count", "_first", "_orders", "_reader", "_seed", "only")

    def __init__(self, reader: _Reader, lane: _Lane, *, first: int, sources: int) -> None:
        self._reader = reader
        self._count, self._seed = lane.count, lane.seed
        self._first = first
        self.only = first if sources == 1 else None
        self._orders: dict[int, LaneOrder | None] = {}
        self._blocks: dict[tuple[int, int], list[int]] = {}

    def at(self, lane: int, position: int) -> int:
        """Return the number of the source of a sample; :data:`.NO_SOURCE` if it is not known."""
        if self.only is not None:
            return self.only
        number, row = divmod(position, _BLOCK)
        block = self._blocks.get((lane, number))
        if block is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            block = self._blocks[lane, number] = self._located(lane, number * _BLOCK)
        source = block[row] if row < len(block) else -1
        return NO_SOURCE if source < 0 else self._first + source  # negative: its dataset left the mix

    def _located(self, lane: int, start: int) -> list[int]:
        if lane not in self._orders:
            self._orders[lane] = self._order(lane)
        order = self._orders[lane]
        if order is None:
            return []
        stop = start + _BLOCK if order.length is None else min(start + _BLOCK, order.length)
        source: IntArray = order.locate(start, stop)[0]
        found: list[int] = source.tolist()
        return found

    def _order(self, lane: int) -> LaneOrder | None:
        try:
            return self._reader.lane_order(lane, lanes=self._count, seed=self._seed)
        except StateError:  # the mix was edited, and this rank does not know where in that lane
            return None
