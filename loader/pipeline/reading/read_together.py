"""Order, locate and read samples of many readers of a lane at once.

To order and locate a few samples takes as long as a thousand: the time of some calls of numpy. A blend that counts
volumes has a reader for each of its datasets, and opens it when its first sample is due. So the first of these readers
orders the first samples of all. Later, a reader that has none left locates its next samples together with those that
the other readers will need soon, in proportion to those that they took so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import EnergonError
from ...order import SourceOrders
from ..contract.lane import Lane, child_seed
from ..contract.running import State
from .dataset_source import DatasetSource
from .order_plan import ShuffledPlan
from .sample_chunk import SampleChunk
from .shard_reads import ShardPool
from .source import Source

_MAX_POSITIONS, _MIN_EACH, _MAX_EACH = 1 << 14, 4, 128  # that are ordered before the readers are opened
_MIN_READERS = 16  # fewer are faster one by one
_FIRST_SAMPLES = 1 << 10  # that all readers locate one by one, when they are opened
_MIN_SAMPLES, _MAX_SAMPLES = 1 << 12, 1 << 14  # that are located at a time, later
_MAX_BYTES = 4 << 20  # that a lane reads at a time
_MAX_LEFT = 0.5  # of the samples that a reader should have, so that it gets more


class ReaderPlace(NamedTuple):
    """A reader below a blend."""

    steps: tuple[tuple[str, int], ...]  # the key and the input's number of each blend on the way, from the outermost
    key: str  # key of the reader in states
    plan: ShuffledPlan  # its order
    number: int  # number of its only dataset in the chain
    source: Source  # this dataset

    @property
    def path(self) -> str:
        return "".join(f"{origin}/" for _, origin in self.steps)

    def position(self, state: State) -> int:
        for key, origin in self.steps:
            state = state.get(key, {}).get(str(origin), {})
        taken: int = state.get(self.key, 0)
        return taken

    def seed(self, seed: int) -> int:
        for _, origin in self.steps:
            seed = child_seed(seed, origin)
        return seed


def read_together(
    places: Sequence[ReaderPlace], sources: Sequence[Source], pool: ShardPool, lane: Lane, state: State
) -> None:
    """Let readers below a blend order and locate samples together, from the time when it is opened for a lane.

    Args:
        places: The readers.
        sources: The datasets of the chain.
        pool: Their open shards.
        lane: The lane of the outermost blend.
        state: Its state.
    """
    lane.shared[LaneReaders] = LaneReaders(places, sources, pool, lane, state)


class LaneReaders:
    """The readers of one lane, by their paths."""

    def __init__(
        self,
        places: Sequence[ReaderPlace],
        sources: Sequence[Source],
        pool: ShardPool,
        lane: Lane,
        state: State,
    ) -> None:
        self._places = places
        self._sources = cast("Sequence[DatasetSource]", sources)
        self._pool = pool
        self._lane = (lane.number, lane.count, lane.seed)
        self._numbers = {lane.path + each.path: row for row, each in enumerate(places)}
        self._state: State | None = state
        self._first: dict[int, tuple[int, IntArray, IntArray]] = {}  # first positions, epochs and samples from them
        self._readers: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._sparse: set[int] = set()  # numbers of datasets
        self._datasets = np.array([each.number for each in places])
        self._seen = np.zeros(len(places), np.int64)  # positions of the readers, when samples were located last
        self._taken = np.zeros(len(places))  # samples of each reader up to there, older ones less
        self._samples = _MIN_SAMPLES

    @cached_property
    def _orders(self) -> SourceOrders:
        _, lanes, seed = self._lane
        orders = [
            each.plan.source_order(each.source.samples, each.seed(seed), each.plan.tables([each.source]))
            for each in self._places
        ]
        return SourceOrders(tuple(orders), lanes)

    @property
    def first_samples(self) -> int:
        return max(_MIN_EACH, _FIRST_SAMPLES // len(self._places))

    def take_first(self, path: str, position: int) -> tuple[IntArray, IntArray] | None:
        """Return the epochs and numbers of the first samples of a reader from a position on; None if not known."""
        if self._state is not None:
            self._order_first(self._state)
            self._state = None
        start, *located = self._first.pop(self._numbers.get(path, -1), (-1,))
        return (located[0], located[1]) if start == position else None

    def _order_first(self, state: State) -> None:
        each = min(_MAX_EACH, max(_MIN_EACH, _MAX_POSITIONS // len(self._places)))
        starts = np.array([reader_place.position(state) for reader_place in self._places])
        numbers = np.repeat(np.arange(len(starts)), each)
        positions = (starts[:, None] + np.arange(each)).ravel()
        epochs, samples = self._orders.locate(numbers, self._lane[0], positions)
        rows = zip(starts.tolist(), epochs.reshape(-1, each), samples.reshape(-1, each), strict=True)
        self._first = dict(enumerate(rows))

    def join(self, path: str, reader: Any, *, is_sparse: bool) -> bool:
        """Let a reader that is opened get its samples together with others; return False if it is not one of these."""
        reader_number = self._numbers.get(path)
        if reader_number is None:
            return False
        self._readers[reader_number] = reader
        self._seen[reader_number] = reader.position
        if is_sparse:
            self._sparse.add(self._places[reader_number].number)
        return True

    def locate_more(self) -> None:
        """Locate the next samples of readers that have few left, unless there are few readers, or they fail."""
        if len(self._readers) < _MIN_READERS:
            return
        numbers, readers = zip(*sorted(self._readers.items()), strict=True)
        try:
            self._locate(np.array(numbers), readers)
        except EnergonError:  # its own reader finds the error again
            return
        self._samples = min(2 * self._samples, _MAX_SAMPLES)

    def _locate(self, numbers: IntArray, readers: Sequence[Any]) -> None:
        # Choose the readers that have few samples left, and how many each one gets.
        position = np.array([reader.position for reader in readers])
        located = np.array([reader.located for reader in readers])
        wanted = self._wanted(numbers, position)
        left = located - position
        chosen = np.flatnonzero(left <= wanted * _MAX_LEFT)
        count = wanted[chosen] - left[chosen]
        starts, ends = located[chosen], np.cumsum(count)
        # Order the next samples of all of them by one call.
        rows = np.repeat(numbers[chosen], count)
        positions = np.arange(len(rows)) + np.repeat(starts - (ends - count), count)
        epoch, sample = self._orders.locate(rows, self._lane[0], positions)
        zeros = np.zeros(len(rows), np.int64)
        index, excluded = sample, zeros.astype(bool)
        parts = [
            (readers[lane_reader], slice(end - rows_of, end), range(start, start + rows_of))
            for lane_reader, rows_of, end, start in zip(
                chosen.tolist(), count.tolist(), ends.tolist(), starts.tolist(), strict=True
            )
        ]
        # Map them to the numbers in the indexes, and mark the excluded ones.
        for lane_reader, mine, _ in parts:
            index[mine] = lane_reader.table.index_numbers(zeros[mine], sample[mine])
            is_excluded = lane_reader.table.excluded(zeros[mine], index[mine])
            if is_excluded is not None:
                excluded[mine] = is_excluded
        # Locate and read them as one chunk, and hand each reader its part.
        chunk = SampleChunk(
            self._sources,
            self._pool.shards,
            self._datasets[rows],
            index,
            excluded if excluded.any() else None,
            sparse=self._sparse,
        )
        samples = chunk.read_parts(
            [(own_positions, lane_reader.begin) for lane_reader, _, own_positions in parts], coalesced_bytes=_MAX_BYTES
        )
        for (lane_reader, mine, own_positions), some in zip(parts, samples, strict=True):
            is_excluded = excluded[mine] if excluded[mine].any() else None
            lane_reader.add_samples(
                some, own_positions, (zeros[mine], epoch[mine], chunk.size_bytes[mine], is_excluded)
            )

    def _wanted(self, numbers: IntArray, position: IntArray) -> IntArray:
        self._taken[numbers] += position - self._seen[numbers]
        self._seen[numbers] = position
        total = max(_FIRST_SAMPLES, float(self._taken.sum()))  # before, others may not be open yet
        shares = self._taken[numbers] / total
        if total > 2 * _MAX_SAMPLES:
            self._taken /= 2
        return 1 + np.ceil(shares * self._samples).astype(np.int64)
