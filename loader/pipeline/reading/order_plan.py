"""The orders of a reader: shuffled for training, in sequence for validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar

from ...format.records.row_groups import RowGroupEnds
from ...order import (
    SLICES_PER_LANE,
    WITH_REPLACEMENT,
    DealtOrder,
    EditedOrder,
    FinitePass,
    Mix,
    PrebatchedPass,
    RepeatedOrder,
    SequentialPass,
    SourceOrder,
    StreamOrder,
    has_blocks,
    mix,
    pass_samples,
)
from .planned_schedule import PlannedSchedule
from .source import Source

_SOURCE = 21  # purpose of the random numbers: part of their seed
_MAX_ROUND = 1 << 62

Tables = tuple[RowGroupEnds | None, ...]
"""The row groups of each source that is shuffled by blocks of them; empty if no source is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledPlan:
    """The order of training.

    Args:
        slice_lengths: Length of a slice, for each source.
        shuffle_buffer: Number of samples that are shuffled freely.
        epochs_together: ``shuffle_over_epochs_multiplier``, for each source.
        weights: Share of a blend without end, for each source.
        repetitions: Repetitions of a sample in a pass, for each source; None for a blend without end.
        deal: Samples of a micro-batch, if the lanes take whole micro-batches in turn: of a pass, or of the epochs of a
            single source that is too small for a share in each lane. None gives each lane a stream of its own.
        chunk: Samples of a chunk, if the lanes take chunks of an order that is not shuffled in turn; None splits it
            into one part per lane.
        shares: Repetitions of a sample of each source in a nominal epoch of an order without end, if ``weights`` follow
            from them; None: 1 each.
        schedule: Weights that change during the run; ``weights`` apply in its first stretch. None: no change.
    """

    slice_lengths: tuple[int, ...]
    shuffle_buffer: int
    epochs_together: tuple[int | None, ...]
    weights: tuple[float, ...]
    repetitions: tuple[float, ...] | None = None
    deal: int | None = None
    chunk: int | None = None
    shares: tuple[float, ...] | None = None
    schedule: PlannedSchedule | None = None
    starts_over: ClassVar[bool] = False

    @property
    def repeats(self) -> bool:
        """True if the order has no end."""
        return self.repetitions is None

    @property
    def is_sequential(self) -> bool:
        return self.shuffle_buffer <= 1 and all(together is None for together in self.epochs_together)

    def chunk_samples(self, samples: Sequence[int], lanes: int) -> int | None:
        """Return the samples of the chunks that lanes take from one stream; None if each lane has its own stream."""
        if self.is_sequential:
            return self.chunk
        # A share of so few samples would make a lane repeat some before another lane has had all.
        is_plain = self.repeats and self.schedule is None and self.epochs_together != (WITH_REPLACEMENT,)
        return self.deal if is_plain and len(samples) == 1 and samples[0] < SLICES_PER_LANE * lanes else None

    def tables(self, sources: Sequence[Source]) -> Tables:
        """Return the row groups of the sources that this plan shuffles by blocks of them."""
        tables = [source.turns.row_groups if source.members[0].folder.holds_values else None for source in sources]
        pairs = zip(tables, self.epochs_together, strict=True)
        chosen = tuple(
            table if table is not None and has_blocks(table, together) else None for table, together in pairs
        )
        return chosen if any(table is not None for table in chosen) else ()

    def order(self, samples: Sequence[int], *, lanes: int, seed: int, tables: Tables = ()) -> StreamOrder:
        """Return the order of sources with these numbers of samples."""
        return _shuffled_order(self, tuple(samples), lanes, seed, tables)

    def source_order(self, samples: int, seed: int, tables: Tables) -> SourceOrder:
        """Return the order of the only source, with this number of samples."""
        return _source_orders(self, (samples,), seed, (0,), tables)[0]

    def edited_order(
        self, samples: Sequence[int], mixes: Sequence[Mix], *, lanes: int, seed: int, tables: Tables = ()
    ) -> EditedOrder:
        return _edited_order(self, tuple(samples), tuple(mixes), lanes, seed=seed, tables=tables)

    def items(self, samples: Sequence[int]) -> int | None:
        """Return the number of samples of a pass; None without end."""
        return None if self.repetitions is None else sum(pass_samples(samples, self.repetitions))

    def round_samples(self, samples: Sequence[int]) -> int:
        """Return the number of samples until each one has come."""
        if self.repetitions is not None:
            return sum(samples)
        first, weights = 0, self.weights
        if self.schedule is not None:  # the last stretch has no end
            first, weights = self.schedule.in_samples.starts[-1], self.schedule.weights[-1]
        return first + samples_of_round(samples, weights)

    def epoch_repetitions(self, sources: int) -> Sequence[float]:
        """Return how often a sample of each source comes in an epoch."""
        return self.repetitions or self.shares or (1.0,) * sources

    def settings(self) -> dict[str, Any]:
        # Shares do not affect the order, and the chunk follows from the settings of later stages.
        schedule = None if self.schedule is None else self.schedule.settings()
        deal = None if self.repeats else self.deal  # a state says whether lanes of an endless run deal
        others = {"chunk": None, "deal": deal, "shares": None, "schedule": schedule}
        settings = asdict(replace(self, schedule=None)) | others
        return {name: _collapsed(value) for name, value in settings.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialPlan:
    """The order of validation: the sources one after another, in the order of their shards."""

    deal: int | None = None
    repeats: ClassVar[bool] = False
    starts_over: ClassVar[bool] = True

    def tables(self, sources: Sequence[Source]) -> Tables:  # noqa: ARG002 - not shuffled
        return ()

    def order(
        self,
        samples: Sequence[int],
        *,
        lanes: int,
        seed: int,  # noqa: ARG002 - not shuffled
        tables: Tables = (),  # noqa: ARG002
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


OrderPlan = ShuffledPlan | SequentialPlan
"""The order of a reader's samples; the methods of both are documented in the first. ``starts_over``: each iteration
starts a new pass."""


def samples_of_round(samples: Sequence[int], weights: Sequence[float]) -> int:
    """Return the number of samples until each one of some inputs has come, at most 2^62.

    Args:
        weights: Its weight, in any unit; an input of weight 0 does not count.
    """
    largest = max(weights)  # dividing by it first keeps the sum of large weights finite
    shares = [weight / largest for weight in weights]  # that of a tiny weight may underflow to 0
    total = sum(shares)
    rounds = [
        count * total / share if share else _MAX_ROUND
        for count, share, weight in zip(samples, shares, weights, strict=True)
        if weight
    ]
    return ceil(min(_MAX_ROUND, max(rounds)))


@lru_cache(maxsize=64)  # shared by all lanes of a process
def _shuffled_order(plan: ShuffledPlan, samples: tuple[int, ...], lanes: int, seed: int, tables: Tables) -> StreamOrder:
    sources = _source_orders(plan, samples, seed, range(len(samples)), tables)
    # Lanes that take chunks share one stream; otherwise, each lane has a stream of its own.
    chunk = plan.chunk_samples(samples, lanes)
    streams = lanes if chunk is None else 1
    if chunk is not None and not plan.is_sequential:  # an epoch of few samples is a permutation of single samples
        sources = tuple(replace(source, slice_length=1) for source in sources)
    # A schedule, an endless mix and a pass each have their own kind of order.
    order: RepeatedOrder | EditedOrder | FinitePass
    if plan.schedule is not None:
        first = Mix(tuple(range(len(samples))), plan.weights, plan.schedule.in_samples)
        order = EditedOrder(sources, (first,), streams, seed)
    elif plan.repetitions is None:
        order = RepeatedOrder(sources, plan.weights, streams, seed)
    else:
        order = FinitePass(sources, plan.repetitions, streams, seed)
    if chunk is not None:
        return DealtOrder(order, lanes, chunk)
    return PrebatchedPass(order, plan.deal) if isinstance(order, FinitePass) and plan.deal is not None else order


@lru_cache(maxsize=64)
def _edited_order(
    plan: ShuffledPlan, samples: tuple[int, ...], mixes: tuple[Mix, ...], lanes: int, *, seed: int, tables: Tables
) -> EditedOrder:
    return EditedOrder(_source_orders(plan, samples, seed, mixes[-1].origins, tables), mixes, lanes, seed)


def _source_orders(
    plan: ShuffledPlan, samples: Sequence[int], seed: int, origins: Sequence[int], tables: Tables
) -> tuple[SourceOrder, ...]:
    return tuple(
        SourceOrder(
            samples=count,
            slice_length=length,
            shuffle_buffer=plan.shuffle_buffer,
            epochs_together=together,
            seed=int(mix(seed, _SOURCE, origin)),
            row_groups=table,
        )
        for origin, count, length, together, table in zip(
            origins, samples, plan.slice_lengths, plan.epochs_together, tables or (None,) * len(samples), strict=True
        )
    )


def _collapsed(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value
