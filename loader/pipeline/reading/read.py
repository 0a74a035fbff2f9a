"""From positions to the bytes of samples: the bottom of every chain.

The order says which samples come next, some chunks of positions at a time; one look-up a chunk finds their bytes; one
positioned read a sample gets them. Chunks start small, so that the first batch comes soon; they change nothing about
the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...arrays import IntArray
from ...cached_property import cached_property
from ...order import LaneOrder
from ..contract.lane import ItemId, Lane, position_of
from ..contract.stage import Running, SavableDataset, State
from ..contract.state_schema import COUNT
from ..contract.worker_config import WorkerConfig
from .joined_rows import JoinedRows
from .open_shards import OpenShards
from .order_plan import OrderPlan
from .source import Raw, Source
from .source_table import SourceTable

__all__ = ["ReadDataset"]

_FIRST_CHUNK, _MOST_CHUNK, _GROWTH = 32, 1024, 4
_CHUNKS_ORDERED = 4  # together: what the order costs once is as much as for a thousand positions
_FOUND_AGAIN = 256  # positions


class ReadDataset(SavableDataset[Raw]):
    """Read samples of one or several leaves, in the order that the plan says.

    Args:
        leaves: The datasets.
        plan: The order.
        worker_config: How the run is spread.
    """

    entry_schema = COUNT

    def __init__(
        self, sources: Sequence[Source], plan: OrderPlan, *, worker_config: WorkerConfig | None = None
    ) -> None:
        super().__init__(worker_config=worker_config, name="read")
        self.sources = tuple(sources)
        self.plan = plan

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "opened"}

    @cached_property
    def opened(self) -> tuple[SourceTable, JoinedRows]:
        """What all lanes of this process share: where samples are, and what reads them."""
        return SourceTable(self.sources), JoinedRows(self.sources, OpenShards())

    @property
    def repeats(self) -> bool:
        return self.plan.repeats

    @property
    def starts_over(self) -> bool:
        return self.plan.starts_over

    @property
    def keeps_positions(self) -> bool:
        return True

    @property
    def items(self) -> int | None:
        return self.plan.items([source.samples for source in self.sources])

    def settings(self) -> dict[str, Any]:
        return self.plan.settings()

    def identity(self) -> list[Any]:
        return [*super().identity(), *(source.identity() for source in self.sources)]

    def lines(self) -> Iterator[str]:
        first, *_ = super().lines()
        yield first
        for place, source in enumerate(self.sources):
            end = "└─ " if place == len(self.sources) - 1 else "├─ "
            yield f"{end}{source.describe()}"

    def open(self, lane: Lane, state: State) -> Running:
        order = self.plan.order([source.samples for source in self.sources], lanes=lane.count, seed=lane.seed)
        return _ReadRunning(self, order.lane(lane.number), lane, state)


class _ReadRunning:
    def __init__(self, definition: ReadDataset, order: LaneOrder, lane: Lane, state: State) -> None:
        self._order = order
        self._table, self._rows = definition.opened
        self._begin = lane.last_sample.note_position
        self._key = definition.key
        self._position: int = state.get(self._key, 0)  # of the next sample
        self._samples: Iterator[tuple[Any, int]] = iter(())  # of the chunk
        self._ordered = range(self._position, self._position)  # positions whose samples are known
        self._found: tuple[IntArray, IntArray]  # their leaves and numbers in the indexes
        self._size = _FIRST_CHUNK
        self._first_again = -1  # of the positions that the last load found
        self._again: tuple[IntArray, IntArray]

    def next(self) -> tuple[Any, ItemId]:
        while True:
            for item in self._samples:  # of which this takes one
                self._position = item[1] + 1
                return item
            self._samples = self._chunk()

    def _chunk(self) -> Iterator[tuple[Any, int]]:
        """Find the bytes of the samples that come next.

        Raises:
            StopIteration: There are none.
        """
        start = self._position
        if start == self._ordered.stop:
            self._order_more()
        rows = slice(start - self._ordered.start, start - self._ordered.start + self._size)
        self._size = min(self._size * _GROWTH, _MOST_CHUNK)
        source, index = self._found[0][rows], self._found[1][rows]
        positions = self._ordered[rows]
        return self._rows.read(positions, source, index, self._table.excluded(source, index), self._begin)

    def _order_more(self) -> None:
        start, length = self._position, self._order.length
        stop = start + self._size * _CHUNKS_ORDERED
        ordered = range(start, stop if length is None else min(stop, length))
        if not ordered:
            raise StopIteration
        source, _, sample = self._order.locate(start, ordered.stop)
        self._found = source, self._table.index_numbers(source, sample)
        self._ordered = ordered

    def state(self) -> State:
        return {self._key: self._position}

    def load(self, item_id: ItemId) -> Any:
        position = position_of(item_id)
        first = position - position % _FOUND_AGAIN
        if first != self._first_again:
            # Samples that wait in a buffer are near each other in the stream: they are found together.
            stop = first + _FOUND_AGAIN
            if self._order.length is not None:
                stop = min(stop, self._order.length)
            source, _, sample = self._order.locate(first, stop)
            self._again = source, self._table.index_numbers(source, sample)
            self._first_again = first
        row = slice(position - first, position - first + 1)
        source, index = (column[row] for column in self._again)
        return next(self._rows.read((position,), source, index, self._table.excluded(source, index), self._begin))[0]
