"""Read the bytes of samples in the order of a plan: the first stage of every chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from ...cached_property import cached_property
from ...format.records.folder_index import RecordIndex
from ...format.records.row_file import CACHED_BYTES
from ...order import LaneOrder, MixHistory, PlannedLane, WindowPlan, groups_of_block, worker_share
from ..contract.lane import Lane
from ..contract.running import StageTraits
from ..contract.stage import IteratedDataset, Running, SavableDataset, State
from ..contract.state_schema import COUNT
from ..contract.worker_config import WorkerConfig
from .joined_source import open_sources
from .lane_reader import LaneReader
from .lane_samples import LaneSamples, counted_reader
from .order_plan import OrderPlan, ShuffledPlan
from .planned_groups import PlannedGroups
from .read_ahead import READ_AHEAD_BYTES, ReadAhead
from .read_together import LaneReaders
from .sample_chunk import OpenSources
from .shard_reads import ShardPool
from .source import Raw, Source

_SPARSE_SHARE = 0.5  # of a dataset's samples


class ReadDataset(SavableDataset[Raw]):
    """Read samples of one or several sources, in the order of the plan.

    Attributes:
        history: The earlier mixes of a restored run; None if its mix never changed.
        window_samples: Samples of a window of a restored run whose groups are planned; 0 if they follow from the costs.
        quarantined: Samples that are passed over as excluded ones are: pairs of a source's number, and the sample's
            number in its index.
    """

    entry_schema = COUNT
    history: MixHistory | None = None
    window_samples: int = 0
    quarantined: frozenset[tuple[int, int]] = frozenset()

    def __init__(
        self,
        sources: Sequence[Source],
        plan: OrderPlan,
        *,
        worker_config: WorkerConfig | None = None,
        first_source: int = 0,
        pool: ShardPool | None = None,
        groups: PlannedGroups | None = None,
    ) -> None:
        super().__init__(worker_config=worker_config, name="read")
        self.groups = groups
        self.sources: tuple[Source, ...] = tuple(sources)
        self.read_sources = self.sources
        self.plan = plan
        self.first_source = first_source
        self.pool = pool or ShardPool(readers=1, sources=first_source + len(self.sources))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("opened", "waiting")}

    @cached_property
    def opened(self) -> OpenSources:
        """The sources in this process; all lanes share them."""
        return open_sources(
            self.sources, self.pool, self.sparse, quarantined=self.quarantined, first_source=self.first_source
        )

    def quarantine(self, samples: Iterable[tuple[int, int]]) -> None:
        """Pass over more samples from now on, given as in :attr:`quarantined`."""
        added = frozenset(samples)
        if not added <= self.quarantined:
            self.quarantined |= added
            self.__dict__.pop("opened", None)

    @property
    def sparse(self) -> frozenset[int]:
        """Sources that an epoch reads less than half of; a cache skips whole-block fetches for them."""
        shares = [min(1.0, times) for times in self.plan.epoch_repetitions(len(self.sources))]
        for row, chosen in enumerate(source.selection for source in self.sources):
            if chosen.filter is not None:
                shares[row] *= len(chosen.filter) / max(1, len(chosen.dataset))
        return frozenset(row for row, share in enumerate(shares) if share < _SPARSE_SHARE)

    @cached_property
    def waiting(self) -> WeakValueDictionary[int, ReadAhead]:
        """The lanes of this process that fetch from object stores and did not begin yet, by number."""
        return WeakValueDictionary()

    @cached_property
    def is_remote(self) -> bool:
        return any(member.folder.is_fetched for source in self.sources for member in source.members)

    @cached_property
    def sample_bytes(self) -> int:
        return max(source.folder.sample_bytes for source in self.sources)

    def ahead_bytes(self, lanes: int) -> int:
        """Return the number of bytes that a lane fetches ahead: its share of the process's."""
        config = self.worker_config
        return READ_AHEAD_BYTES * config.world_size * max(1, config.num_workers) // (lanes * self.pool.readers)

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            one_to_one=True,
            endless=self.plan.repeats,
            starts_over=self.plan.starts_over,
            buffers=bool(self.plan.tables(self.sources)),  # each lane holds a block of row groups
        )

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
        return self.plan.settings() | ({} if self.groups is None else self.groups.settings())

    def number_again(self) -> None:
        """Number the samples again, after other samples of the sources take no turn."""
        self.__dict__.pop("opened", None)
        if self.groups is not None:
            self.groups.costs.number_again()
        if isinstance(self.plan, ShuffledPlan) and self.plan.shares is not None:
            weights = tuple(
                source.samples * share for source, share in zip(self.sources, self.plan.shares, strict=True)
            )
            self.plan = replace(self.plan, weights=weights)

    def begin_on(self, ranks: int) -> None:
        if isinstance(self.plan, ShuffledPlan) and self.plan.schedule is not None:
            self.plan = replace(self.plan, schedule=replace(self.plan.schedule, ranks=ranks))

    def open(self, lane: Lane, state: State) -> Running:
        order = self.lane_order(lane.number, lanes=lane.count, seed=lane.seed, deals=lane.deals)
        if isinstance(order, PlannedLane):
            lane.shared[PlannedLane] = order
        # Rows need no announcement where the cache holds the blocks of all tables and lanes.
        tables = [*zip(self.sources, self.plan.tables(self.sources), strict=False)]
        blocks = sum(groups_of_block(table, lane.count) * table.group_bytes for _, table in tables if table is not None)
        lanes = -(-lane.count // (self.worker_config.world_size * max(1, self.worker_config.num_workers)))
        for source, table in tables:
            index = source.members[0].folder.index
            if table is not None and isinstance(index, RecordIndex):
                index.is_announced = lanes * blocks > CACHED_BYTES
        running = LaneReader(self, order, lane, state)
        together: LaneReaders | None = lane.shared.get(LaneReaders) if lane.shared else None
        if together is not None:
            running.read_with(together, lane.path, is_sparse=bool(self.sparse))
        samples: LaneSamples | None = lane.shared.get(LaneSamples) if lane.shared else None
        return running if samples is None else counted_reader(running, samples)

    def window_plan(self, lanes: int) -> WindowPlan | None:
        """Return the rule of windows of a run; None if it plans no groups."""
        if self.groups is None:
            return None
        # Windows keep the size that they began with, whatever the mix and the costs are now.
        if self.window_samples:
            return replace(self.groups.window, samples=self.window_samples)
        first = range(len(self.sources)) if self.history is None else self.history.first_sources
        return self.groups.window_of(first, lanes)

    def lane_order(self, lane: int, *, lanes: int, seed: int, deals: bool = False) -> LaneOrder:
        samples, plan, tables = [source.samples for source in self.sources], self.plan, self.plan.tables(self.sources)
        history, groups, window = self.history, self.groups, self.window_plan(lanes)
        order: LaneOrder
        if history is not None and isinstance(plan, ShuffledPlan):
            # Each mix of the run continues where the one before it ended; a window that had begun keeps its mix.
            mixes = history.mixes(plan.weights, None if plan.schedule is None else plan.schedule.in_samples)
            step = 1 if window is None else window.samples
            ends = tuple(-(-end // step) * step for end in history.ends_of(lane))
            order = plan.edited_order(samples, mixes, lanes=lanes, seed=seed, tables=tables).lane(lane, ends)
        else:
            # A mix that never changed has the order of the plan.
            if isinstance(plan, ShuffledPlan) and plan.repeats and not deals:
                plan = replace(plan, deal=None)
            order = plan.order(samples, lanes=lanes, seed=seed, tables=tables).lane(lane)
        return order if groups is None or window is None else groups.lane(order, window, seed)


def dealt_samples(dataset: SavableDataset[Any], lanes: int) -> int:
    """Return the samples of the micro-batches that lanes take in turn from the only source; 0 if they do not."""
    while len(dataset.inputs) == 1 and (isinstance(dataset, IteratedDataset) or not dataset.nests_states):
        dataset = dataset.inputs[0]
    if not isinstance(dataset, ReadDataset) or dataset.history is not None:
        return 0
    plan = dataset.plan
    if not isinstance(plan, ShuffledPlan) or plan.is_sequential:
        return 0
    return plan.chunk_samples([source.samples for source in dataset.sources], lanes) or 0
