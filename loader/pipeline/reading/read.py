"""Read the bytes of samples, lane by lane, in the order of a plan: the first stage of every chain.

The order returns the samples of several chunks of positions at a time, a chunk of samples is located in the index
together, and each sample takes one positioned read. Chunks start small so that the first batch comes early; their size
does not affect the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import EnergonError, StateError
from ...order import GONE, LaneOrder, MixHistory, worker_share
from ..contract.item_id import ItemId, position_of
from ..contract.lane import RULES, Lane
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..contract.state_schema import COUNT
from ..contract.worker_config import WorkerConfig
from ..measuring.counts import STORAGE, Counts
from ..measuring.source_counter import SourceCounter
from .fetched_ranges import MEMBER_BYTES
from .joined_source import JoinedSource, RowReader
from .lane_samples import CountedReader, LaneSamples
from .order_plan import OrderPlan, ShuffledPlan
from .ordered_together import OrderedTogether
from .position_sources import ReaderSources
from .read_ahead import READ_AHEAD_BYTES, FetchedChunk, ReadAhead
from .sample_chunk import ChunkReader, SourceTable
from .shard_reads import ShardPool
from .source import Raw, ShardSource, Source

__all__ = ["ReadDataset"]

_FIRST_CHUNK, _MAX_CHUNK, _GROWTH = 32, 1024, 4
_MANY_SOURCES, _MAX_CHUNK_OF_MANY = 16, 4096  # so that some samples of each are located, and read, together
_CHUNKS_ORDERED = 4  # at a time: the fixed cost of the order is that of about a thousand positions
_CHUNKS_JOINED = 4  # to ranges that are fetched
_REBUILT_TOGETHER = 256  # positions
_SPARSE_SHARE = 0.5  # of a dataset's samples


class ReadDataset(SavableDataset[Raw]):
    """Read samples of one or several sources, in the order of the plan.

    Args:
        sources: The datasets.
        plan: The order.
        worker_config: Ranks, workers and lanes of the run.
        first_source: Added to the numbers of the sources in raw samples, if several readers supply one decoder.
        pool: The open shards, if several readers share them.

    Attributes:
        history: The earlier mixes of a restored run; None if its mix never changed.
        source_seeds: For each source of such a run that continues the stream of another chain, the seed of its order;
            None for the others.
        quarantined: Samples that are passed over as excluded ones are: pairs of a source's number, and the sample's
            number in its index.
    """

    entry_schema = COUNT
    history: MixHistory | None = None
    source_seeds: tuple[int | None, ...] = ()
    quarantined: frozenset[tuple[int, int]] = frozenset()

    def __init__(
        self,
        sources: Sequence[Source],
        plan: OrderPlan,
        *,
        worker_config: WorkerConfig | None = None,
        first_source: int = 0,
        pool: ShardPool | None = None,
    ) -> None:
        super().__init__(worker_config=worker_config, name="read")
        self.sources = tuple(sources)
        self.plan = plan
        self.first_source = first_source
        self.pool = pool or ShardPool(readers=1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("opened", "waiting")}

    @cached_property
    def opened(self) -> tuple[SourceTable, ChunkReader | RowReader]:
        """The table of samples, and their reader; all lanes of a process share them."""
        table = SourceTable(self.sources, self.quarantined)
        joins = [source for source in self.sources if isinstance(source, JoinedSource)]
        first_file = self.pool.reserve(len(self.sources) + sum(len(join.members) for join in joins))
        arguments = {"first_source": self.first_source, "first_file": first_file}
        if joins:
            return table, RowReader(self.sources, self.pool.shards, self.sparse, **arguments)
        sources = cast("Sequence[ShardSource]", self.sources)
        return table, ChunkReader(sources, self.pool.shards, self.sparse, **arguments)

    def quarantine(self, samples: Iterable[tuple[int, int]]) -> None:
        """Pass over more samples from now on, given as in :attr:`quarantined`."""
        added = frozenset(samples)
        if not added <= self.quarantined:
            self.quarantined |= added
            self.__dict__.pop("opened", None)

    @property
    def sparse(self) -> frozenset[int]:
        """Numbers of the sources of which an epoch reads less than half: a cache fetches no whole blocks of them."""
        repetitions = self.plan.epoch_repetitions(len(self.sources))
        return frozenset(
            number
            for number, (source, times) in enumerate(zip(self.sources, repetitions, strict=True))
            if min(1.0, times) * source.kept_share < _SPARSE_SHARE
        )

    @cached_property
    def waiting(self) -> WeakValueDictionary[int, ReadAhead]:
        """The lanes of this process that fetch from object stores and did not begin yet, by number."""
        return WeakValueDictionary()

    @cached_property
    def is_remote(self) -> bool:
        """True if samples are in object stores, and so are fetched ahead."""
        return any(source.is_remote for source in self.sources)

    @cached_property
    def sample_bytes(self) -> int:
        """Average size of the samples of the dataset with the largest ones."""
        return max(source.sample_bytes for source in self.sources)

    def ahead_bytes(self, lanes: int) -> int:
        """Return the number of bytes that a lane fetches ahead: its share of those of the process."""
        config = self.worker_config
        return READ_AHEAD_BYTES * config.world_size * max(1, config.num_workers) // (lanes * self.pool.readers)

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

    @property
    def round_samples(self) -> int:
        return self.plan.round_samples([source.samples for source in self.sources])

    def lane_bound(self, lane: int, lanes: int) -> int | None:
        if self.plan.repeats:
            return None
        return self.lane_order(lane, lanes=lanes, seed=self.worker_config.seed_offset).length

    def nominal_items(self, worker: int, workers: int) -> int:
        samples = [source.samples for source in self.sources]
        return worker_share(samples, self.plan.epoch_repetitions(len(samples)), worker=worker, workers=workers)

    def settings(self) -> dict[str, Any]:
        return self.plan.settings()

    def with_weights(self, weights: Sequence[float]) -> ReadDataset:
        """Return a copy with other weights of the sources, whose plan is one of training."""
        reader = copy(self)
        reader.plan = replace(cast("ShuffledPlan", self.plan), weights=tuple(weights))
        return reader

    def shown_settings(self) -> dict[str, Any]:
        settings = self.settings()
        if isinstance(self.plan, ShuffledPlan) and self.plan.schedule is not None:
            settings["schedule"] = str(self.plan.schedule)
        return settings

    def begin_on(self, ranks: int) -> None:
        if isinstance(self.plan, ShuffledPlan) and self.plan.schedule is not None:
            self.plan = replace(self.plan, schedule=replace(self.plan.schedule, ranks=ranks))

    def identity(self) -> list[Any]:
        return [*super().identity(), *(source.identity() for source in self.sources)]

    def lines(self) -> Iterator[str]:
        first, *_ = super().lines()
        yield first
        for place, source in enumerate(self.sources):
            end = "└─ " if place == len(self.sources) - 1 else "├─ "
            yield f"{end}{source.describe()}"

    def open(self, lane: Lane, state: State) -> Running:
        order = self.lane_order(lane.number, lanes=lane.count, seed=lane.seed, rules=lane.rules)
        running = _ReadRunning(self, order, lane, state)
        known = OrderedTogether.take(lane, state.get(self.key, 0)) if lane.shared else None
        if known is not None:
            running.use_order(*known)
        samples: LaneSamples | None = lane.shared.get(LaneSamples) if lane.shared else None
        return running if samples is None else CountedReader(running, samples)

    def lane_order(self, number: int, *, lanes: int, seed: int, rules: int = RULES) -> LaneOrder:
        """Return the stream of a lane.

        Raises:
            StateError: The mix changed at a position of the lane that is not known on this rank.
        """
        samples = [source.samples for source in self.sources]
        if self.history is None or not isinstance(self.plan, ShuffledPlan):
            return self.plan.order(samples, lanes=lanes, seed=seed, rules=rules).lane(number)
        schedule = None if self.plan.schedule is None else self.plan.schedule.in_samples
        mixes = self.history.mixes(self.plan.weights, schedule)
        order = self.plan.edited_order(samples, mixes, lanes=lanes, seed=seed, source_seeds=self.source_seeds)
        return order.lane(number, self.history.ends_of(number), self.history.start_of(number))


class _SizedChunk(FetchedChunk, Protocol):
    @property
    def size_bytes(self) -> IntArray:
        """Shape (n,): the bytes of each sample; -1 if they are not one range."""


class _ReadRunning:
    def __init__(self, definition: ReadDataset, order: LaneOrder, lane: Lane, state: State) -> None:
        self._order = order
        self._table, self._rows = definition.opened
        self._begin = lane.last_sample.note_positions_at(lane.path)
        self._key = definition.key
        self._was_edited = definition.history is not None
        self._position: int = state.get(self._key, 0)  # of the next sample
        self._samples: Iterator[tuple[Any, int]] = iter(())  # of the current chunk
        self._ordered = range(self._position, self._position)  # positions whose order is known
        self._found: tuple[IntArray, IntArray, IntArray]  # their sources, numbers in the indexes, and epochs
        self._size, self._max_size = _FIRST_CHUNK, _MAX_CHUNK
        if len(definition.sources) >= _MANY_SOURCES:
            self._max_size = _MAX_CHUNK_OF_MANY
        self._located = self._position  # position of the next sample to locate
        self._ahead: ReadAhead | None = None
        if definition.is_remote:
            ahead_bytes = definition.ahead_bytes(lane.count)
            joined = 2 * ahead_bytes // (definition.sample_bytes + MEMBER_BYTES)
            self._max_size = min(_MAX_CHUNK, max(1, joined // _CHUNKS_JOINED))
            self._size = min(_FIRST_CHUNK, self._max_size)
            self._ahead = ReadAhead(
                self._locate_chunk,
                ahead_bytes=ahead_bytes,
                samples_joined=_CHUNKS_JOINED * self._max_size,
                begin=self._begin,
            )
            definition.waiting[lane.number] = self._ahead
        self._waiting = definition.waiting
        self._recorder = lane.recorder
        if lane.recorder is not None:
            sources, first = definition.sources, lane.recorder.first_source(definition)
            self._counter = SourceCounter(
                first, self._position, lambda source: sources[source].sample_bytes, sources=len(sources)
            )
            lane.readers = ReaderSources(definition, lane, first=first, sources=len(sources))
            lane.recorder.add_reader(self)
        self._first_rebuilt = -1  # first of the positions that the last load() located
        self._rebuilt: tuple[IntArray, IntArray]  # their sources, and numbers in the indexes

    @property
    def position(self) -> int:
        """The position of the next sample."""
        return self._position

    def use_order(self, epochs: IntArray, samples: IntArray) -> None:
        """Use the order of the next samples of the only source, which is known already."""
        source = np.zeros(len(samples), dtype=np.int64)
        self._found = source, self._table.index_numbers(source, samples), epochs
        self._ordered = range(self._position, self._position + len(samples))

    def next(self) -> tuple[Any, ItemId]:
        while True:
            try:
                for item in self._samples:  # returns after one item
                    self._position = item[1] + 1
                    return item
            except BaseException:
                self._start_again()
                raise
            self._samples = self._next_chunk()

    def _next_chunk(self) -> Iterator[tuple[Any, int]]:
        recorder = self._recorder
        if recorder is None:
            return self._chunk() if self._ahead is None else self._fetched(self._ahead)
        begin_ns = perf_counter_ns()
        try:
            return self._chunk() if self._ahead is None else self._fetched(self._ahead)
        except BaseException:
            self.count_samples(recorder.counts)  # the end of the pass, after which this iterator is dropped
            raise
        finally:
            recorder.add_always(STORAGE, begin_ns)

    def count_samples(self, counts: Counts) -> None:
        """Add the samples that were yielded since the last call."""
        self._counter.count(self._position, counts)

    def _start_again(self) -> None:
        """Read on from the sample that failed, if there is a next call."""
        self._located = self._position
        if self._ahead is not None:
            self._ahead.clear()

    def _chunk(self) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        chunk, positions = self._locate_chunk()
        try:
            return chunk.read(positions, self._begin)
        except BaseException:
            self._located = positions.start
            raise

    def _fetched(self, ahead: ReadAhead) -> Iterator[tuple[Any, int]]:
        """Return the samples of the next chunk; before the first one, let the lanes that come next fetch theirs.

        Raises:
            StopIteration: The pass is over.
        """
        ahead.start()
        for number, other in list(self._waiting.items()):
            self._waiting.pop(number, None)
            with suppress(EnergonError):  # its own lane finds the error again
                other.start()
        return ahead.next()

    def _locate_chunk(self) -> tuple[_SizedChunk, range]:
        """Return the next chunk and its positions.

        Raises:
            StopIteration: The pass is over.
        """
        start = self._located
        if start not in self._ordered:
            self._order_more()
        rows = slice(start - self._ordered.start, start - self._ordered.start + self._size)
        self._size = min(self._size * _GROWTH, self._max_size)
        source, index, epoch = (column[rows] for column in self._found)
        positions = self._ordered[rows]
        excluded = self._table.excluded(source, index)
        # If this fails, the next call finds the error again, or reads these samples.
        chunk = self._rows.chunk(source, index, excluded)
        if self._recorder is not None:
            self._counter.add_chunk(positions, source, epoch, chunk.size_bytes, excluded)
            if self._counter.is_full:
                self.count_samples(self._recorder.counts)
        self._located = positions.stop
        return chunk, positions

    def _order_more(self) -> None:
        start, length = self._located, self._order.length
        stop = start + self._size * _CHUNKS_ORDERED
        ordered = range(start, stop if length is None else min(stop, length))
        if not ordered:
            raise StopIteration
        source, epoch, sample = self._order.locate(start, ordered.stop)
        if self._was_edited:
            known = _before_gone(source)
            source, epoch, sample, ordered = source[:known], epoch[:known], sample[:known], ordered[:known]
        self._found = source, self._table.index_numbers(source, sample), epoch
        self._ordered = ordered

    def state(self) -> State:
        return {self._key: self._position}

    def load(self, item_id: ItemId) -> Any:
        position = position_of(item_id)
        first = position - position % _REBUILT_TOGETHER
        if first != self._first_rebuilt:
            # Samples of a buffer have positions close to each other: locate their neighbourhood once.
            stop = first + _REBUILT_TOGETHER
            if self._order.length is not None:
                stop = min(stop, self._order.length)
            source, _, sample = self._order.locate(first, stop)
            self._rebuilt = source, self._table.index_numbers(source, sample)
            self._first_rebuilt = first
        row = slice(position - first, position - first + 1)
        source, index = (column[row] for column in self._rebuilt)
        if source[0] == GONE:
            return SKIPPED
        return next(self._rows.read((position,), source, index, self._table.excluded(source, index), self._begin))[0]


def _before_gone(source: IntArray) -> int:
    """Return the number of positions before the first one whose dataset left the mix.

    Raises:
        StateError: It is the first position.
    """
    gone = np.flatnonzero(source == GONE)
    if not len(gone):
        return len(source)
    if gone[0] == 0:
        raise StateError(
            "a sample of this micro-batch is of a dataset that has left the mix of the run",
            hint="rebuild it from a state before that change of the mix, with the documents of that time",
        )
    return int(gone[0])
