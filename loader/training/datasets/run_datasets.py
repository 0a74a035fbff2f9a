"""The opened datasets of a run, which a task encoder's ``build_…`` hooks receive, and the chains built on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ConfigError, plural
from ...metadataset.documents.leaf_plan import EntrySchedule, LeafPlan, combine_starts
from ...metadataset.plans.blend_tree import SAMPLES, LeafGroup, UnitBlend, blend_tree
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig, check_at_least
from ...pipeline.pad_ranks import PadRanksDataset
from ...pipeline.reading.order_plan import OrderPlan, SequentialPlan, ShuffledPlan
from ...pipeline.reading.planned_schedule import PlannedSchedule
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.read_together import ReaderPlace, read_together
from ...pipeline.reading.shard_reads import ShardPool
from ...pipeline.reading.source import Source
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.epochize import EpochizeDataset
from ...pipeline.stages.even_ranks import EvenRanksDataset
from ...pipeline.stages.limit import LimitDataset
from ...pipeline.stages.observers import LogSampleDataset
from .chain import ChainOptions, ColumnSize, Level, SampleStages, VolumeUnits, batched, planned
from .dataset_factory import DatasetBlendMode, LoadedDataset, SourceFactory
from .open_sources import Leaf

_MAX_WEIGHTS = 1 << 16  # each state of the run has them


def planned_schedule(plans: Sequence[LeafPlan], options: ChainOptions) -> PlannedSchedule:
    """Return the schedule of a run."""
    planned = _planned([plan.weight or 0.0 for plan in plans], [plan.schedule for plan in plans])
    samples = options.batch_samples
    if samples is None and planned.unit == "steps":
        raise ConfigError(
            "weights change at steps, and the samples of a step are not known ahead: samples are packed, grouped or "
            "generated",
            hint="count samples instead, as the reader counts them: weight: {unit: samples, at: {0: …}}",
        )
    if samples is None or planned.unit == "samples":
        return planned
    return replace(planned, batch_samples=samples, ranks=options.worker_config.world_size)


def planned_volumes(blend: UnitBlend, options: ChainOptions) -> PlannedSchedule | None:
    """Return the schedule of a blend by volume, which counts micro-batches as steps; None if its weights stay."""
    if not blend.is_scheduled:
        return None
    planned = _planned(blend.weights, blend.schedules)
    rows = [row for row in planned.weights if any(row)]
    rows = [row if any(row) else rows[0] for row in planned.weights]  # where the blend has no share
    ranks = options.worker_config.world_size if planned.unit == "steps" else 1
    return replace(planned, weights=tuple(rows), ranks=ranks)


def _planned(weights: Sequence[float], schedules: Sequence[EntrySchedule | None]) -> PlannedSchedule:
    known = [schedule for schedule in schedules if schedule is not None]
    starts = combine_starts(known)
    if len(starts) * len(weights) > _MAX_WEIGHTS:
        raise ConfigError(
            f"the weights change {plural(len(starts) - 1, 'time')} for {plural(len(weights), 'dataset')}; "
            f"expected at most {_MAX_WEIGHTS:,} weights",
            hint="change weights less often",
        )
    columns = [
        (weight,) * len(starts) if schedule is None else schedule.on(starts)
        for weight, schedule in zip(weights, schedules, strict=True)
    ]
    return PlannedSchedule(unit=known[0].unit, starts=starts, weights=tuple(zip(*columns, strict=True)))


if TYPE_CHECKING:
    from ...samples.encoding.task_encoder import TaskEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDatasets:
    """The opened datasets of a run: the argument of a task encoder's ``build_…`` hooks.

    Attributes:
        leaves: The datasets. If the mix is one of weights, the plans of all have one, else none has.
        training: Shuffle a pass over a dataset whose chain is built by hand.
        worker_config: Ranks, workers and lanes; None for :meth:`WorkerConfig.default_worker_config`.
    """

    leaves: tuple[Leaf, ...]
    training: bool = True
    worker_config: WorkerConfig | None = None

    @classmethod
    def of(
        cls, leaves: Sequence[Leaf], *, training: bool = True, worker_config: WorkerConfig | None = None
    ) -> LoadedDatasets:
        """Build from opened datasets: a mix by weights if each of several has a weight, else one by repetitions.

        Args:
            leaves: The datasets.
            training: Shuffle a pass over a dataset whose chain is built by hand.
            worker_config: Ranks, workers and lanes of the run.
        """
        if len(leaves) > 1 and all(leaf.plan.weight is not None for leaf in leaves):
            plans = [replace(leaf.plan, repetitions=None) for leaf in leaves]
        else:
            plans = [replace(leaf.plan, weight=None, blends=(), schedule=None) for leaf in leaves]
        settled = (replace(leaf, plan=plan) for leaf, plan in zip(leaves, plans, strict=True))
        return cls(leaves=tuple(settled), training=training, worker_config=worker_config)

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(leaf.source for leaf in self.leaves)

    @property
    def factories(self) -> list[SourceFactory]:
        """Datasets one by one, without their shares of the mix."""
        return [
            SourceFactory(
                leaf.source,
                place=leaf.plan.place,
                training=self.training,
                worker_config=self.worker_config,
                shuffle_over_epochs=leaf.plan.request.epochs_together,
                max_samples_per_sequence=leaf.slice_samples,
            )
            for leaf in self.leaves
        ]

    @property
    def datasets(self) -> list[LoadedDataset]:
        """Datasets one by one, for code that builds the chain by hand.

        Raises:
            ConfigError: Their weights change during the run.
        """
        if self._weights_change:
            raise ConfigError(
                "the weights of this mix change during the run, and a chain built by hand has constant weights",
                hint="build the chain with get_train_dataset, or give each dataset one weight",
            )
        is_repeated = self.blend_mode is DatasetBlendMode.SAMPLE_REPETITIONS
        return [
            LoadedDataset(
                dataset=factory,
                weight=leaf.plan.weight,
                repetitions=leaf.repetitions if is_repeated else None,
                aux=leaf.source.recipe.stores.aux,
            )
            for leaf, factory in zip(self.leaves, self.factories, strict=True)
        ]

    @property
    def blend_mode(self) -> DatasetBlendMode:
        if len(self.leaves) == 1:
            return DatasetBlendMode.NONE
        is_weighted = any(leaf.plan.weight is not None for leaf in self.leaves)
        return DatasetBlendMode.DATASET_WEIGHT if is_weighted else DatasetBlendMode.SAMPLE_REPETITIONS

    @property
    def _weights_change(self) -> bool:
        return any(leaf.plan.schedule is not None for leaf in self.leaves)

    def __iter__(self) -> Iterator[LoadedDataset]:
        return iter(self.datasets)

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, index: int) -> LoadedDataset:
        return self.datasets[index]

    @property
    def volume_tree(self) -> UnitBlend | None:
        """The tree of blends, if some weights are shares of another unit than samples."""
        if self.blend_mode is not DatasetBlendMode.DATASET_WEIGHT:
            return None
        tree = blend_tree([leaf.plan.blends for leaf in self.leaves])
        return tree if isinstance(tree, UnitBlend) else None

    def with_sample_weights(
        self, weights: Sequence[float], schedules: Sequence[EntrySchedule] | None = None
    ) -> LoadedDatasets:
        """Return the datasets with shares of the samples as weights, and with schedules of these shares."""
        changes = [None] * len(weights) if schedules is None else schedules
        leaves = (
            replace(leaf, plan=replace(leaf.plan, weight=weight, blends=(), schedule=schedule))
            for leaf, weight, schedule in zip(self.leaves, weights, changes, strict=True)
        )
        return replace(self, leaves=tuple(leaves))

    def _passes(self) -> tuple[float, ...]:
        if self.blend_mode is DatasetBlendMode.DATASET_WEIGHT:
            raise ConfigError(
                "a blend by weight has no end, and repeat=False requires one",
                hint="use blend_epochized, with repetitions instead of weights",
            )
        return tuple(leaf.repetitions for leaf in self.leaves)

    def train_chain(
        self,
        task_encoder: TaskEncoder[Any, Any, Any, Any],
        *,
        virtual_epoch_length: int = 0,
        shuffle_buffer_size: int | None = None,
        even_ranks: bool = False,
        needs_sizes: bool = True,
        **options: Any,
    ) -> SavableDataset[Any]:
        """Build the chain for training.

        With ``needs_sizes=False``, the sizes of samples in the unit of a blend may be unknown: such a chain describes a
        run, but cannot be iterated.

        Args:
            task_encoder: The hooks.
            needs_sizes: Refuse units of blends whose sizes are not known.
            **options: ``worker_config``, ``batch_size``, ``batch_drop_last``, ``packing_buffer_size`` and ``repeat``;
                these and the rest as in ``get_train_dataset``.

        Raises:
            ConfigError: An argument is out of range.
        """
        # Check the arguments.
        check_at_least(0, or_none=True, shuffle_buffer_size=shuffle_buffer_size)
        check_at_least(0, virtual_epoch_length=virtual_epoch_length)
        # Order the samples: by one plan, or by one for each group of a blend by volume.
        stages = ChainOptions(task_encoder=task_encoder, **options)
        weights = tuple(
            leaf.source.samples * leaf.repetitions if leaf.plan.weight is None else leaf.plan.weight
            for leaf in self.leaves
        )
        whole = LeafGroup(leaves=tuple(range(len(self.leaves))), weights=weights)
        tree = self.volume_tree or whole
        is_one, is_weighted = tree is whole, self.blend_mode is DatasetBlendMode.DATASET_WEIGHT
        changes = is_one and stages.repeat and self._weights_change
        schedule = planned_schedule([leaf.plan for leaf in self.leaves], stages) if changes else None

        def plan_of(group: LeafGroup) -> ShuffledPlan:
            leaves = [self.leaves[leaf_number] for leaf_number in group.leaves]
            plan = ShuffledPlan(
                slice_lengths=tuple(leaf.slice_samples for leaf in leaves),
                shuffle_buffer=shuffle_buffer_size or 0,
                epochs_together=tuple(leaf.epochs_shuffled(shuffle_buffer_size) for leaf in leaves),
                weights=group.weights,
                repetitions=None if stages.repeat else self._passes(),
                deal=stages.batch_samples if is_one else None,
                chunk=stages.chunk,
                shares=None if is_weighted else tuple(leaf.repetitions for leaf in leaves),
                schedule=schedule,
            )
            if plan.items([leaf.source.samples for leaf in leaves]) == 0:
                raise ConfigError(
                    f"repetitions [{', '.join(map(str, self._passes()))}] select no samples",
                    hint="raise the repetitions, or pass repeat=True",
                )
            return plan

        chain = build_chain(self.sources, tree, plan_of, stages, mode="train", needs_sizes=needs_sizes)
        if even_ranks and not stages.repeat:
            chain = EvenRanksDataset(chain)
        return EpochizeDataset(chain, virtual_epoch_length) if virtual_epoch_length else chain

    def val_chain(
        self,
        task_encoder: TaskEncoder[Any, Any, Any, Any],
        *,
        limit: int | None = None,
        even_ranks: bool = False,
        pad_ranks: bool = False,
        **options: Any,
    ) -> SavableDataset[Any]:
        """Build the chain for validation.

        Args:
            task_encoder: The hooks.
            **options: ``worker_config``, ``batch_size``, ``batch_drop_last`` and ``packing_buffer_size``; these and the
                rest as in ``get_val_dataset``.

        Raises:
            ConfigError: An argument is out of range.
        """
        stages = ChainOptions(task_encoder=task_encoder, repeat=False, **options)
        whole = LeafGroup(leaves=tuple(range(len(self.leaves))), weights=())
        plan = SequentialPlan(deal=stages.batch_samples)
        chain = build_chain(self.sources, whole, lambda _: plan, stages, mode="val")
        if even_ranks and pad_ranks:
            raise ConfigError(
                "even_ranks drops the rest of a pass, and pad_ranks keeps it; they exclude each other",
                hint="pass one of them",
            )
        if even_ranks:
            chain = EvenRanksDataset(chain)
        if pad_ranks:
            chain = PadRanksDataset(chain, padding=task_encoder.padding_batch, max_batches=limit)
        return chain if limit is None else LimitDataset(chain, limit)


_ITEMS = {Level.READ: "samples as they are read", Level.ENCODED: "encoded samples", Level.PACKED: "packs"}


def build_chain(
    sources: Sequence[Source],
    tree: UnitBlend | LeafGroup,
    plan_of: Callable[[LeafGroup], OrderPlan],
    options: ChainOptions,
    *,
    mode: Literal["train", "val"],
    needs_sizes: bool = True,
) -> SavableDataset[Any]:
    """Build the chain from the readers to micro-batches: one reader, or one for each group of a blend by volume."""
    readers = sum(1 for _ in tree.groups()) if isinstance(tree, UnitBlend) else 1
    pool = ShardPool(readers=readers, sources=len(sources))
    stages = SampleStages(tuple(sources), options)
    units = VolumeUnits(sources, options.task_encoder, needs_sizes)

    def build(entry: UnitBlend | LeafGroup) -> tuple[SavableDataset[Any], Level]:
        if isinstance(entry, UnitBlend):
            return _blend(entry, [build(inner) for inner in entry.entries], stages, units, options)
        leaves = sources[entry.leaves[0] : entry.leaves[0] + len(entry.leaves)]
        config, first = options.worker_config, entry.leaves[0]
        groups = None if options.plan is None else options.plan.of(leaves)
        reader = ReadDataset(leaves, plan_of(entry), worker_config=config, first_source=first, pool=pool, groups=groups)
        return reader, Level.READ

    if options.plan is not None and isinstance(tree, UnitBlend):
        raise ConfigError(
            f"a blend counts {tree.unit!r}, so that its order follows from sizes that are read, and groups are planned "
            "before",
            hint="blend by samples, or pass no balance, packing or batch_cost",
        )
    # Build the tree from its readers up.
    chain, level = build(tree)
    # Let the readers below the outermost blend fetch their samples in common reads.
    if isinstance(chain, BlendDataset) and (places := [*_reader_places(chain)]):
        chain.begin = partial(read_together, places, sources, pool)
    if options.plan is None:
        chain = batched(stages.lift(chain, level, Level.PACKED), options)
    else:
        chain = planned(stages.lift(chain, level, Level.ENCODED), options.plan, options)
    return LogSampleDataset(chain, mode) if options.worker_config.should_log(1) else chain


def _reader_places(stage: SavableDataset[Any], steps: tuple[tuple[str, int], ...] = ()) -> Iterator[ReaderPlace]:
    if isinstance(stage, BlendDataset):
        for input_number, upstream in enumerate(stage.inputs):
            yield from _reader_places(upstream, (*steps, (stage.key, input_number)))
        return
    while not isinstance(stage, ReadDataset):
        stage = stage.inputs[0]
        if isinstance(stage, BlendDataset):
            yield from _reader_places(stage, steps)
            return
    plan = stage.plan
    if len(stage.sources) == 1 and isinstance(plan, ShuffledPlan) and not plan.is_sequential:
        yield ReaderPlace(steps, stage.key, plan, stage.first_source, stage.sources[0])


def _blend(
    blend: UnitBlend,
    entries: Sequence[tuple[SavableDataset[Any], Level]],
    stages: SampleStages,
    units: VolumeUnits,
    options: ChainOptions,
) -> tuple[BlendDataset[Any], Level]:
    # Find what the blend counts, and the level of the items that it measures.
    below = max(level for _, level in entries)
    if blend.unit == SAMPLES:
        size, blend_level = None, below
    else:
        leaves = [leaf for group in blend.groups() for leaf in group.leaves]
        size, blend_level = units.size(blend.unit, leaves)
        if blend_level is Level.PACKED and options.packing_buffer_size is None:
            blend_level = Level.ENCODED
    if blend_level < below:
        raise ConfigError(
            f"a blend counts {blend.unit!r} in {_ITEMS[blend_level]}, and a blend below it counts {_ITEMS[below]}",
            hint=f"count {blend.unit!r} later, or give both blends one unit",
        )
    # Bring all inputs to this level, and blend them.
    chains = [stages.lift(chain, level, blend_level) for chain, level in entries]
    schedule = planned_volumes(blend, options)
    pairs = zip(chains, blend.weights if schedule is None else [1.0] * len(chains), strict=True)
    stage: BlendDataset[Any] = BlendDataset(
        *pairs, size=size, unit=None if size is None else blend.unit, schedule=schedule, name="blend"
    )
    # Metrics are measured by the stage whose results they take. Columns have the sizes of samples before all hooks.
    stage.counts_sizes = isinstance(size, ColumnSize)
    stage.counts_volumes = size is not None and not stage.counts_sizes
    stage.depth = max(chain.depth for chain in chains)  # later stages have the keys that they have without blends
    return stage, blend_level
