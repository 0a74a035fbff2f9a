"""Samples read by their numbers: the bottom of a chain from which single samples are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...order import SequentialPass
from ..contract.lane import ItemId, Lane, position_of
from ..contract.stage import Running, State
from ..contract.worker_config import WorkerConfig
from .order_plan import SequentialPlan
from .read import ReadDataset
from .source import Raw, Source

__all__ = ["PickDataset"]


class PickDataset(ReadDataset):
    """Read samples of leaves that follow one another, by their numbers, counted from 0 over all leaves.

    It is a reader that nobody steps: what stands above it makes single samples again, by ``load``, and this finds their
    bytes. Numbers that are needed together are found together.

    Args:
        leaves: The datasets.
        worker_config: Of a single rank without workers.
    """

    def __init__(self, sources: Sequence[Source], *, worker_config: WorkerConfig) -> None:
        super().__init__(sources, SequentialPlan(), worker_config=worker_config)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "picking"}

    @cached_property
    def picking(self) -> _Picking:
        """What this process reads with."""
        return _Picking(self)

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - it stands nowhere
        return self.picking


class _Picking:
    """The reader at work.

    Args:
        definition: The reader.
    """

    def __init__(self, definition: PickDataset) -> None:
        self._sources = definition.sources
        self._order = SequentialPass(tuple(source.samples for source in definition.sources), lanes=1)
        self._table, self._rows = definition.opened
        self._found: Iterator[tuple[Raw, int]] = iter(())

    def find(self, positions: Sequence[int]) -> None:
        """Find the bytes of samples that will be loaded next, in this order, each once."""
        source, index = self._index(positions)
        self._found = self._rows.read(positions, source, index, None, _begin)

    def place_of(self, position: int) -> str:
        """Say where a sample lies, without reading it."""
        source, index = self._index([position])
        return self._sources[int(source[0])].place_of(int(index[0]))

    def _index(self, positions: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Give leaves and numbers in their indexes."""
        source, _, sample = self._order.locate(np.array(positions, dtype=np.int64))
        return source, self._table.index_numbers(source, sample)

    def load(self, item_id: ItemId) -> Any:
        position = position_of(item_id)
        raw, found = next(self._found, (None, -1))
        if found != position:
            self.find([position])
            raw, _ = next(self._found)
        return raw

    def next(self) -> NoReturn:
        raise StopIteration

    def state(self) -> State:
        return {}


def _begin(position: int) -> None:
    """Note nothing: no process watches this one."""
