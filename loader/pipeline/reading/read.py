"""Read the bytes of samples, lane by lane, in the order of a plan: the first stage of every chain.

The order returns the samples of several chunks of positions at a time, a chunk of samples is located in the index
together, and each sample takes one positioned read. Chunks start small so that the first batch comes early; their size
does not affect the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any, Protocol, cast

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import StateError
from ...order import (
    GONE,
    DealtOrder,
    EditedOrder,
    FinitePass,
    LaneOrder,
    Mix,
    MixHistory,
    PrebatchedPass,
    RepeatedOrder,
    SequentialPass,
    SourceOrder,
    StreamOrder,
    mix,
    worker_share,
)
from ..contract.item_id import ItemId, position_of
from ..contract.lane import RULES, Lane
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..contract.state_schema import COUNT
from ..contract.worker_config import WorkerConfig
from .joined_source import JoinedSource, RowReader
from .sample_chunk import ChunkReader, SourceTable
from .shard_reads import OpenShards
from .source import Raw, ShardSource, Source

__all__ = ["OrderPlan", "ReadDataset", "SequentialPlan", "ShuffledPlan"]

_FIRST_CHUNK, _MAX_CHUNK, _GROWTH = 32, 1024, 4
_CHUNKS_ORDERED = 4  # at a time: the fixed cost of the order is that of about a thousand positions
_REBUILT_TOGETHER = 256  # positions
_SOURCE = 21  # purpose of the random numbers: part of their seed


class ReadDataset(SavableDataset[Raw]):
    """Read samples of one or several sources, in the order of the plan.

    Args:
        sources: The datasets.
        plan: The order.
        worker_config: Ranks, workers and lanes of the run.

    Attributes:
        history: The earlier mixes of a restored run; None if its mix never changed.
    """

    entry_schema = COUNT
    history: MixHistory | None = None

    def __init__(
        self, sources: Sequence[Source], plan: OrderPlan, *, worker_config: WorkerConfig | None = None
    ) -> None:
        super().__init__(worker_config=worker_config, name="read")
        self.sources = tuple(sources)
        self.plan = plan

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "opened"}

    @cached_property
    def opened(self) -> tuple[SourceTable, ChunkReader | RowReader]:
        """The table of samples, and their reader; all lanes of a process share them."""
        shards = OpenShards()
        if any(isinstance(source, JoinedSource) for source in self.sources):
            return SourceTable(self.sources), RowReader(self.sources, shards)
        return SourceTable(self.sources), ChunkReader(cast("Sequence[ShardSource]", self.sources), shards)

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

    def nominal_items(self, worker: int, workers: int) -> int:
        samples = [source.samples for source in self.sources]
        return worker_share(samples, self.plan.epoch_repetitions(len(samples)), worker=worker, workers=workers)

    def settings(self) -> dict[str, Any]:
        return self.plan.settings()

    def adopt_measurements(self, saved: Any) -> None:
        settings = saved[1]
        if not (isinstance(self.plan, ShuffledPlan) and self.plan.measured and settings.get("measured")):
            return
        weights = settings["weights"]
        found = tuple(weights) if isinstance(weights, list) else (weights,) * len(self.sources)
        if [*map(_without_path, saved[2:])] != [_without_path(source.identity()) for source in self.sources]:
            return
        if len(found) == len(self.sources) and all(isinstance(one, float) and one > 0 for one in found):
            self.plan = replace(self.plan, weights=found)

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
        if self.history is not None and self.key in state and state[self.key] < self.history.ends_of(lane.number)[-1]:
            raise StateError(
                f"this state is damaged: lane {lane.number} is at position {state[self.key]}, before the last change "
                "of the mix"
            )
        return _ReadRunning(self, order, lane, state)

    def lane_order(self, number: int, *, lanes: int, seed: int, rules: int = RULES) -> LaneOrder:
        """Return the stream of a lane.

        Raises:
            StateError: The mix changed at a position of the lane that is not known on this rank.
        """
        samples = [source.samples for source in self.sources]
        if self.history is None or not isinstance(self.plan, ShuffledPlan):
            return self.plan.order(samples, lanes=lanes, seed=seed, rules=rules).lane(number)
        mixes = self.history.mixes(self.plan.weights)
        return _edited(self.plan, tuple(samples), lanes, seed, mixes).lane(number, self.history.ends_of(number))


class _ReadRunning:
    def __init__(self, definition: ReadDataset, order: LaneOrder, lane: Lane, state: State) -> None:
        self._order = order
        self._table, self._rows = definition.opened
        self._begin = lane.last_sample.note_position
        self._key = definition.key
        self._position: int = state.get(self._key, 0)  # of the next sample
        self._samples: Iterator[tuple[Any, int]] = iter(())  # of the current chunk
        self._ordered = range(self._position, self._position)  # positions whose order is known
        self._found: tuple[IntArray, IntArray]  # their sources, and numbers in the indexes
        self._size = _FIRST_CHUNK
        self._first_rebuilt = -1  # first of the positions that the last load() located
        self._rebuilt: tuple[IntArray, IntArray]  # their sources, and numbers in the indexes

    def next(self) -> tuple[Any, ItemId]:
        while True:
            for item in self._samples:  # returns after one item
                self._position = item[1] + 1
                return item
            self._samples = self._chunk()

    def _chunk(self) -> Iterator[tuple[Any, int]]:
        """Locate the samples of the next chunk.

        Raises:
            StopIteration: The pass is over.
        """
        start = self._position
        if start == self._ordered.stop:
            self._order_more()
        rows = slice(start - self._ordered.start, start - self._ordered.start + self._size)
        self._size = min(self._size * _GROWTH, _MAX_CHUNK)
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


# --------------------------------------------------------------------------------------------------------- order plans


class OrderPlan(Protocol):
    """The order of a reader's samples."""

    @property
    def repeats(self) -> bool:
        """True if the order has no end."""

    @property
    def starts_over(self) -> bool:
        """True if each iteration starts a new pass."""

    def order(self, samples: Sequence[int], *, lanes: int, seed: int, rules: int = RULES) -> StreamOrder:
        """Return the order of sources with these numbers of samples, by the rules of the run."""

    def items(self, samples: Sequence[int]) -> int | None:
        """Return the number of samples of a pass; None without end."""

    def round_samples(self, samples: Sequence[int]) -> int:
        """Return the number of samples until each one has come."""

    def epoch_repetitions(self, sources: int) -> Sequence[float]:
        """Return how often a sample of each source comes in an epoch."""

    def settings(self) -> dict[str, Any]:
        """Return the arguments as plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlan:
    """The order of training.

    Args:
        slice_lengths: Length of a slice, for each source.
        shuffle_buffer: Number of samples that are shuffled freely.
        epochs_together: ``shuffle_over_epochs_multiplier``, for each source.
        weights: Share of a blend without end, for each source.
        repetitions: Repetitions of a sample in a pass, for each source; None for a blend without end.
        deal: Samples of a micro-batch, if the lanes take whole micro-batches of one pass in turn; None splits the pass
            into one stream per lane.
        measured: True if the weights were computed from measured samples; a restored run keeps those of its state.
        chunk: Samples of a chunk, if the lanes take chunks of an order that is not shuffled in turn; None splits it
            into one part per lane.
        shares: Repetitions of a sample of each source in a nominal epoch of an order without end; None: 1 each.
    """

    slice_lengths: tuple[int, ...]
    shuffle_buffer: int
    epochs_together: tuple[int | None, ...]
    weights: tuple[float, ...]
    repetitions: tuple[float, ...] | None = None
    deal: int | None = None
    measured: bool | None = None
    chunk: int | None = None
    shares: tuple[float, ...] | None = None

    @property
    def repeats(self) -> bool:
        return self.repetitions is None

    @property
    def is_sequential(self) -> bool:
        """True if nothing is shuffled."""
        return self.shuffle_buffer <= 1 and all(together is None for together in self.epochs_together)

    @property
    def starts_over(self) -> bool:
        return False

    def order(self, samples: Sequence[int], *, lanes: int, seed: int, rules: int = RULES) -> StreamOrder:
        return _shuffled(self, tuple(samples), lanes, seed, rules)

    def items(self, samples: Sequence[int]) -> int | None:
        return None if self.repetitions is None else _pass_samples(samples, self.repetitions)

    def round_samples(self, samples: Sequence[int]) -> int:
        if self.repetitions is not None:
            return sum(samples)
        total = sum(self.weights)
        return ceil(max(count * total / weight for count, weight in zip(samples, self.weights, strict=True) if weight))

    def epoch_repetitions(self, sources: int) -> Sequence[float]:
        return self.repetitions or self.shares or (1.0,) * sources

    def settings(self) -> dict[str, Any]:
        # Shares do not affect the order, and the chunk follows from the settings of later stages.
        settings = asdict(self) | {"chunk": None, "shares": None}
        return {name: _collapsed(value) for name, value in settings.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialPlan:
    """The order of validation: the sources one after another, in the order of their shards.

    Args:
        deal: As in :class:`ShuffledPlan`.
    """

    deal: int | None = None

    @property
    def repeats(self) -> bool:
        return False

    @property
    def starts_over(self) -> bool:
        return True

    def order(
        self,
        samples: Sequence[int],
        *,
        lanes: int,
        seed: int,  # noqa: ARG002 - not shuffled
        rules: int = RULES,  # noqa: ARG002 - always the same
    ) -> StreamOrder:
        order = SequentialPass(tuple(samples), lanes)
        return order if self.deal is None else PrebatchedPass(order, self.deal)

    def items(self, samples: Sequence[int]) -> int | None:
        return sum(samples)

    def round_samples(self, samples: Sequence[int]) -> int:
        return sum(samples)

    def epoch_repetitions(self, sources: int) -> Sequence[float]:
        return (1.0,) * sources

    def settings(self) -> dict[str, Any]:
        return {} if self.deal is None else {"deal": self.deal}


@lru_cache(maxsize=64)  # shared by all lanes of a process
def _shuffled(plan: ShuffledPlan, samples: tuple[int, ...], lanes: int, seed: int, rules: int) -> StreamOrder:
    sources = _source_orders(plan, samples, seed, range(len(samples)))
    chunk = plan.chunk if rules and plan.is_sequential else None
    streams = lanes if chunk is None else 1
    order: RepeatedOrder | FinitePass
    if plan.repetitions is None:
        order = RepeatedOrder(sources, plan.weights, streams, seed)
    else:
        order = FinitePass(sources, plan.repetitions, streams, seed)
    if chunk is not None:
        return DealtOrder(order, lanes, chunk)
    return PrebatchedPass(order, plan.deal) if isinstance(order, FinitePass) and plan.deal is not None else order


@lru_cache(maxsize=64)
def _edited(plan: ShuffledPlan, samples: tuple[int, ...], lanes: int, seed: int, mixes: tuple[Mix, ...]) -> EditedOrder:
    return EditedOrder(_source_orders(plan, samples, seed, mixes[-1].origins), mixes, lanes, seed)


def _source_orders(
    plan: ShuffledPlan, samples: Sequence[int], seed: int, origins: Sequence[int]
) -> tuple[SourceOrder, ...]:
    return tuple(
        SourceOrder(
            samples=count,
            slice_length=length,
            shuffle_buffer=plan.shuffle_buffer,
            epochs_together=together,
            seed=int(mix(seed, _SOURCE, origin)),
        )
        for origin, count, length, together in zip(
            origins, samples, plan.slice_lengths, plan.epochs_together, strict=True
        )
    )


def _without_path(source: Any) -> dict[str, Any]:
    return {name: value for name, value in source.items() if name != "path"}


def _pass_samples(samples: Sequence[int], repetitions: Sequence[float]) -> int:
    total = 0
    for count, times in zip(samples, repetitions, strict=True):
        whole = int(times)
        total += whole * count + round((times - whole) * count)
    return total


def _collapsed(value: Any) -> Any:
    """Replace a tuple of equal values, one for each source, by the value."""
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value
