"""Build the chain of a run whose weights are shares of volumes: a tree of blends above the chains of its leaves.

Each blend counts the items that it yields. So the chain of each leaf has the stages whose results are counted: the
reader for sizes from columns, decoding and encoding for a metric, and packing for a metric of packs. Leaves that are
mixed by shares of their samples are one reader, as in a run without units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...errors import ConfigError
from ...metadataset.plans.blend_units import SAMPLES, LeafGroup, UnitBlend
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.order_plan import OrderPlan, ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.read_together import ReaderPlace, ReadTogether
from ...pipeline.reading.shard_reads import ShardPool
from ...pipeline.reading.source import Source
from ...pipeline.stages.blend import BlendDataset
from .chain import ChainOptions, Level, SampleStages, batched
from .scheduled_weights import planned_volumes
from .volume_units import ColumnSize, VolumeUnits

_ITEMS = {Level.READ: "samples as they are read", Level.ENCODED: "encoded samples", Level.PACKED: "packs"}


def build_volume_chain(
    sources: Sequence[Source],
    tree: UnitBlend,
    plan_of: Callable[[LeafGroup], OrderPlan],
    options: ChainOptions,
    *,
    needs_sizes: bool = True,
) -> SavableDataset[Any]:
    """Build the chain from the readers to micro-batches.

    Args:
        sources: The datasets.
        tree: The blends above them.
        plan_of: Returns the order of a group's samples.
        options: Options of the stages.
        needs_sizes: Refuse units whose sizes are not known.

    Raises:
        ConfigError: A unit is not known; or a blend would count samples, and one below it packs.
    """
    pool = ShardPool(readers=sum(1 for _ in tree.groups()), sources=len(sources))
    chain, level = _Builder(sources, plan_of, options, pool, needs_sizes=needs_sizes).blend(tree)
    places = [*_reader_places(chain)]
    if places:
        chain.begin = ReadTogether(places, sources, pool).begin
    return batched(SampleStages(sources, options).lift(chain, level, Level.PACKED), options)


def _reader_places(stage: SavableDataset[Any], steps: tuple[tuple[str, int], ...] = ()) -> Iterator[ReaderPlace]:
    """Yield the readers of one shuffled dataset below a blend."""
    if isinstance(stage, BlendDataset):
        for number, upstream in enumerate(stage.inputs):
            yield from _reader_places(upstream, (*steps, (stage.key, number)))
        return
    while not isinstance(stage, ReadDataset):
        stage = stage.inputs[0]
        if isinstance(stage, BlendDataset):
            yield from _reader_places(stage, steps)
            return
    plan = stage.plan
    if len(stage.sources) == 1 and isinstance(plan, ShuffledPlan) and not plan.is_sequential:
        yield ReaderPlace(steps, stage.key, plan, stage.first_source, stage.sources[0])


class _Builder:
    def __init__(
        self,
        sources: Sequence[Source],
        plan_of: Callable[[LeafGroup], OrderPlan],
        options: ChainOptions,
        pool: ShardPool,
        *,
        needs_sizes: bool,
    ) -> None:
        self._sources = tuple(sources)
        self._plan_of = plan_of
        self._options = options
        self._stages = SampleStages(self._sources, options)
        self._units = VolumeUnits(self._sources, options.task_encoder, needs_sizes=needs_sizes)
        self._pool = pool

    def blend(self, blend: UnitBlend) -> tuple[BlendDataset[Any], Level]:
        """Return a blend, and the level of its items."""
        entries = [self._entry(entry) for entry in blend.entries]
        below = max(level for _, level in entries)
        if blend.unit == SAMPLES:
            size, own = None, below
        else:
            leaves = [leaf for group in blend.groups() for leaf in group.leaves]
            size, own = self._units.size(blend.unit, leaves)
            if own is Level.PACKED and self._options.packing_buffer_size is None:
                own = Level.ENCODED
        if own < below:
            raise ConfigError(
                f"a blend counts {blend.unit!r} in {_ITEMS[own]}, and a blend below it counts {_ITEMS[below]}",
                hint=f"count {blend.unit!r} later, or give both blends one unit",
            )
        chains = [self._stages.lift(chain, level, own) for chain, level in entries]
        schedule = planned_volumes(blend, self._options)
        pairs = zip(chains, blend.weights if schedule is None else [1.0] * len(chains), strict=True)
        stage: BlendDataset[Any] = BlendDataset(
            *pairs, size=size, unit=None if size is None else blend.unit, schedule=schedule, name="blend"
        )
        # Metrics are measured by the stage whose results they take. Columns have the sizes of samples before all hooks.
        stage.counts_sizes = isinstance(size, ColumnSize)
        stage.counts_volumes = size is not None and not stage.counts_sizes
        stage.depth = max(chain.depth for chain in chains)  # later stages have the keys that they have without blends
        return stage, own

    def _entry(self, entry: UnitBlend | LeafGroup) -> tuple[SavableDataset[Any], Level]:
        if isinstance(entry, UnitBlend):
            return self.blend(entry)
        first, count = entry.leaves[0], len(entry.leaves)
        reader = ReadDataset(
            self._sources[first : first + count],
            self._plan_of(entry),
            worker_config=self._options.worker_config,
            first_source=first,
            pool=self._pool,
        )
        return reader, Level.READ
