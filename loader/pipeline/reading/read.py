"""Read the bytes of samples in the order of a plan: the first stage of every chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from ...cached_property import cached_property
from ...errors import ConfigError, SkipSample, TrustError
from ...order import LaneOrder, MixHistory, worker_share
from ...samples.decoding.decoder import AnyDecoder, whole_sample_decoder
from ...samples.types import CrudeSample
from ..contract.item_id import ItemId
from ..contract.lane import Lane, set_restore_key
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, IteratedDataset, Running, SavableDataset, State
from ..contract.state_schema import COUNT
from ..contract.worker_config import WorkerConfig
from ..measuring.counts import DECODE, STORAGE
from ..measuring.item_sources import datasets_of
from ..measuring.recorder import register, skipped_items
from .joined_source import OpenJoins
from .lane_reader import LaneReader
from .lane_samples import LaneSamples, counted_reader
from .order_plan import OrderPlan, ShuffledPlan
from .read_ahead import READ_AHEAD_BYTES, ReadAhead
from .read_together import LaneReaders
from .sample_chunk import OpenSources
from .shard_reads import ShardPool
from .source import Raw, Source


class DecodeDataset(SavableDataset[Any]):
    """Decode samples and fill their fields.

    Args:
        sources: The datasets by their numbers in raw samples; by default the reader's.
    """

    traits = StageTraits(one_to_one=True, never_more=True)

    def __init__(
        self,
        dataset: SavableDataset[Raw],
        *,
        sources: Sequence[Source] | None = None,
        names_sources: bool = False,
    ) -> None:
        super().__init__(dataset, name="decode")
        read_sources = tuple(dataset.read_sources)
        self.sources: tuple[Source, ...] = read_sources if sources is None else tuple(sources)
        self.names_sources = names_sources
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its samples, for statistics
        self._own = read_sources or self.sources  # the others are decoded by other stages

    def settings(self) -> dict[str, Any]:
        decoders = {_decoder_name(source.decoder) for source in self._own}
        return {"decoder": decoders.pop()} if len(decoders) == 1 else {}

    @property
    def joins(self) -> bool:
        return any(source.is_join for source in self._own)

    def open(self, lane: Lane, state: State) -> Running:
        return _DecodeRunning(self, lane, state)


def _decoder_name(decoder: AnyDecoder | None) -> str:
    """Return a decoder's name for comparison with saved states; the ``repr`` of a function has an address."""
    if whole_sample_decoder(decoder) is None:
        return repr(decoder)
    return str(getattr(decoder, "__qualname__", type(decoder).__qualname__))


class _DecodeRunning:
    def __init__(self, definition: DecodeDataset, lane: Lane, state: State) -> None:
        self._upstream = definition.inputs[0].open(lane, state)
        self._sources = definition.sources
        self._names_sources = definition.names_sources
        self._lane, self._number, self._context = lane, lane.number, lane.context
        self._stage = lane.path + definition.key
        # Attributes of this object, so that they can be replaced while calls are timed.
        self._read = self._upstream.next
        self._build: Callable[[Any, tuple[Any, ...]], Any] = self._build_any
        if definition.joins:
            self._build = self._build_joined
        elif len(self._sources) == 1 and not definition.names_sources:
            self._build = self._sources[0].build
        self._failures = lane.failures
        self._skips = lane.failures.skips_of("load_sample or sample_loader")
        self.state = self._upstream.state
        self._skipped = skipped_items(lane)
        register(lane, STORAGE, self, "_read")
        register(lane, DECODE, self, "_build", result_sizes=definition.size_metrics)

    def _build_any(self, raw: Raw, restore_key: tuple[Any, ...]) -> Any:
        sample = self._sources[raw[0]].build(raw, restore_key)
        if self._names_sources and isinstance(sample, CrudeSample):
            sample.source = raw[0]
        return sample

    def _build_joined(self, raw: Raw, restore_key: tuple[Any, ...]) -> Any:
        """Build a sample where some are joined: a user's joiner may not have copied the key."""
        sample = self._build_any(raw, restore_key)
        set_restore_key(sample, self._stage, self._lane, restore_key[-1])
        return sample

    def next(self) -> tuple[Any, ItemId]:
        raw, item_id = self._read()
        if raw is SKIPPED:
            return raw, item_id
        try:
            sample = self._build(raw, (self._stage, self._number, self._context.batch_index, item_id))
        except (ConfigError, TrustError):
            raise
        except SkipSample:
            self._skipped.append(item_id)
            self._skips.add()
            return SKIPPED, item_id
        except Exception as error:
            self._skipped.append(item_id)
            datasets = datasets_of(self._lane, item_id)
            self._failures.failed("decode", error, self._failed_sample(raw), datasets=datasets)
            return SKIPPED, item_id
        # Most samples follow a success, which needs no note.
        if self._skips.count or self._failures.pending:
            self._skips.count = 0
            self._failures.succeeded("decode", datasets_of(self._lane, item_id))
        return sample, item_id

    def _failed_sample(self, raw: Raw) -> dict[str, Any]:
        return self._sources[raw.source].named(raw)

    def load(self, item_id: ItemId) -> Any:
        raw = self._upstream.load(item_id)
        if raw is SKIPPED:
            return raw
        try:
            return self._build(raw, (self._stage, self._number, self._context.batch_index, item_id))
        except Exception as error:
            self._failures.note_rebuilt(error, "decode", self._failed_sample(raw))
            raise


_SPARSE_SHARE = 0.5  # of a dataset's samples


class ReadDataset(SavableDataset[Raw]):
    """Read samples of one or several sources, in the order of the plan.

    Attributes:
        history: The earlier mixes of a restored run; None if its mix never changed.
        quarantined: Samples that are passed over as excluded ones are: pairs of a source's number, and the sample's
            number in its index.
    """

    entry_schema = COUNT
    history: MixHistory | None = None
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
        # Files of the members of joins need numbers that no other reader uses.
        joins = [source for source in self.sources if source.is_join]
        first, kind = self.first_source, OpenJoins if joins else OpenSources
        if joins:
            first = self.pool.reserve(len(self.sources) + sum(len(join.members) for join in joins))
        return kind(
            self.sources,
            self.pool.shards,
            self.sparse,
            quarantined=self.quarantined,
            first=(self.first_source, first),
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
        repetitions = self.plan.epoch_repetitions(len(self.sources))
        return frozenset(
            row
            for row, (source, times) in enumerate(zip(self.sources, repetitions, strict=True))
            if min(1.0, times) * source.selection.kept_share < _SPARSE_SHARE
        )

    @cached_property
    def waiting(self) -> WeakValueDictionary[int, ReadAhead]:
        """The lanes of this process that fetch from object stores and did not begin yet, by number."""
        return WeakValueDictionary()

    @cached_property
    def is_remote(self) -> bool:
        return any(member.folder.traits.is_fetched for source in self.sources for member in source.members)

    @cached_property
    def sample_bytes(self) -> int:
        return max(source.folder.sample_bytes for source in self.sources)

    def ahead_bytes(self, lanes: int) -> int:
        """Return the number of bytes that a lane fetches ahead: its share of the process's."""
        config = self.worker_config
        return READ_AHEAD_BYTES * config.world_size * max(1, config.num_workers) // (lanes * self.pool.readers)

    @property
    def traits(self) -> StageTraits:
        return StageTraits(one_to_one=True, endless=self.plan.repeats, starts_over=self.plan.starts_over)

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

    def number_again(self) -> None:
        """Number the samples again, after other samples of the sources take no turn."""
        self.__dict__.pop("opened", None)
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
        running = LaneReader(self, order, lane, state)
        together: LaneReaders | None = lane.shared.get(LaneReaders) if lane.shared else None
        if together is not None:
            running.read_with(together, lane.path, is_sparse=bool(self.sparse))
        samples: LaneSamples | None = lane.shared.get(LaneSamples) if lane.shared else None
        return running if samples is None else counted_reader(running, samples)

    def lane_order(self, lane: int, *, lanes: int, seed: int, deals: bool = False) -> LaneOrder:
        samples = [source.samples for source in self.sources]
        # A mix that never changed has the order of the plan.
        if self.history is None or not isinstance(self.plan, ShuffledPlan):
            plan = self.plan
            if isinstance(plan, ShuffledPlan) and plan.repeats and not deals:
                plan = replace(plan, deal=None)
            return plan.order(samples, lanes=lanes, seed=seed).lane(lane)
        # Each mix of the run continues where the one before it ended.
        schedule = None if self.plan.schedule is None else self.plan.schedule.in_samples
        mixes = self.history.mixes(self.plan.weights, schedule)
        order = self.plan.edited_order(samples, mixes, lanes=lanes, seed=seed)
        return order.lane(lane, self.history.ends_of(lane))


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
