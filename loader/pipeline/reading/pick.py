"""Read single samples by their numbers, and map these numbers around excluded samples, for random access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...order import SequentialPass
from ..contract.item_id import ItemId, position_of
from ..contract.lane import Lane
from ..contract.stage import Running, State
from ..contract.worker_config import WorkerConfig
from .order_plan import SequentialPlan
from .read import ReadDataset
from .source import Raw, Source


class PickDataset(ReadDataset):
    """Read samples by number, counted from 0 over consecutive sources.

    Its ``next`` is never called: the stages above rebuild single samples by ``load``, and this reader returns their
    bytes. Announce numbers that are needed together with ``picking.find``, so that one search locates all of them.

    Args:
        sources: The datasets.
        worker_config: That of a single rank without workers.
    """

    def __init__(self, sources: Sequence[Source], *, worker_config: WorkerConfig) -> None:
        super().__init__(sources, SequentialPlan(), worker_config=worker_config)

    @property
    def sparse(self) -> frozenset[int]:
        """All sources: callers may pick few samples."""
        return frozenset(range(len(self.sources)))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "picking"}

    @cached_property
    def picking(self) -> _Picking:
        """The reader of this process."""
        return _Picking(self)

    def open(self, lane: Lane, state: State) -> Running:  # noqa: ARG002 - has no position
        return self.picking


class _Picking:
    """The running reader.

    Args:
        definition: The reader.
    """

    def __init__(self, definition: PickDataset) -> None:
        self._sources = definition.sources
        self._order = SequentialPass(tuple(source.samples for source in definition.sources), lanes=1)
        self._table = definition.opened
        self._found: Iterator[tuple[Raw, int]] = iter(())

    def find(self, positions: Sequence[int]) -> None:
        """Locate the samples that will be loaded next, in this order, each once."""
        source, index = self._index(positions)
        self._found = self._table.chunk(source, index, None).read(positions, bool)

    def place_of(self, position: int) -> str:
        """Describe the location of a sample, without reading it."""
        source, index = self._index([position])
        return self._sources[int(source[0])].place_of(int(index[0]))

    def _index(self, positions: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Return the sources of samples, and their numbers in the indexes."""
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


def excluded_positions(sources: Sequence[Source]) -> IntArray:
    """Return the positions of all excluded samples, ascending, counted over consecutive sources."""
    first = 0
    found = [np.empty(0, dtype=np.int64)]
    for source in sources:
        found.extend(first + part for part in positions_in(source, source.excluded))
        first += source.samples
    return np.sort(np.concatenate(found))


def positions_in(source: Source, numbers: IntArray) -> list[IntArray]:
    """Return the positions of samples in a source, in pieces; those that it does not have are omitted.

    Args:
        source: The source.
        numbers: Numbers in the index, ascending.
    """
    if not len(numbers):
        return []
    if source.filter is not None:
        numbers = source.filter.find(numbers)  # the rows of the filter, in which its ranges count
    begin, start = source.ranges
    stop = start + np.diff(begin, append=source.samples)
    low, high = np.searchsorted(numbers, start), np.searchsorted(numbers, stop)
    rows = np.flatnonzero(high > low).tolist()
    return [numbers[low[row] : high[row]] - start[row] + begin[row] for row in rows]


def positions_without(excluded: IntArray, numbers: IntArray) -> IntArray:
    """Return the positions of samples whose numbers do not count excluded samples.

    >>> positions_without(np.array([0, 3]), np.arange(4)).tolist()
    [1, 2, 4, 5]
    """
    before = excluded - np.arange(len(excluded))  # number of other samples before each excluded one
    positions: IntArray = numbers + np.searchsorted(before, numbers, side="right")
    return positions


def replacements(excluded: IntArray, total: int) -> IntArray:
    """Return for each excluded sample the next one that is not, wrapping around at the end.

    >>> replacements(np.array([0, 3, 4, 6]), 7).tolist()
    [1, 5, 5, 1]
    """
    runs = np.cumsum(np.diff(excluded, prepend=-2) != 1) - 1  # number of the run of neighbours that each sample is in
    ends = np.flatnonzero(np.diff(excluded, append=total + 1) != 1)
    following = excluded[ends] + 1
    following[following == total] = positions_without(excluded, np.zeros(1, dtype=np.int64))[0]
    return np.asarray(following[runs], dtype=np.int64)
