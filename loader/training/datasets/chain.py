"""Build the chain of stages, from the reader to micro-batches, in the order in which samples pass them.

Only requested stages are built: a hook that the task encoder does not override costs no call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isnan
from typing import Any

from ...cached_property import cached_property
from ...errors import ConfigError
from ...format.columns.column import Column
from ...format.columns.column_files import open_column
from ...format.documents.messages import nearest_hint
from ...pipeline.contract.hook import makes_several
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig, check_at_least, check_integers
from ...pipeline.reading.decode import DecodeDataset
from ...pipeline.reading.planned_groups import PlannedGroups
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.source import Raw, RawRow, Source
from ...pipeline.stages.batch import BatchDataset, PlannedGroupsDataset
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.cook import CookSample, cooking_hooks, uses_stores
from ...pipeline.stages.group_batch import GroupBatchDataset
from ...pipeline.stages.map import MapDataset
from ...pipeline.stages.packing import PackingDataset
from ...samples.batching.pack import concat_pack, sequence_length
from ...samples.encoding.size_metric import After, SizeMetric, size_metrics
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from ...samples.hooks import is_default, is_library_hook
from .planning import MeasuredPacks


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Options of the stages above the reader: arguments of ``get_train_dataset`` and ``get_val_dataset``.

    Attributes:
        batch_size: Samples of a micro-batch; None yields single samples.
        packing_buffer_size: Samples that ``select_samples_to_pack`` chooses from; None does not pack.
        planning: The micro-batches or packs that are planned from costs; None plans none.
    """

    task_encoder: TaskEncoder[Any, Any, Any, Any]
    worker_config: WorkerConfig
    batch_size: int | None
    batch_drop_last: bool = False
    packing_buffer_size: int | None = None
    repeat: bool = True
    planning: PlannedGroups | None = None

    def __post_init__(self) -> None:
        check_at_least(1, or_none=True, batch_size=self.batch_size, packing_buffer_size=self.packing_buffer_size)
        for name in ("select_samples_to_pack", "pack_selected_samples"):
            is_given = self.planning is None and self.packing_buffer_size is not None
            if is_given and is_default(getattr(self.task_encoder, name)):
                raise ConfigError(
                    f"samples are to be packed, but {type(self.task_encoder).__name__} does not define {name}",
                    hint="define it, or pass packing_buffer_size=None",
                )

    @property
    def groups(self) -> bool:
        return not is_default(self.task_encoder.batch_group_criterion)

    @property
    def plan(self) -> PlannedGroups | None:
        """The groups that are planned before samples are read."""
        return None if self.planning is None or self.planning.kind == "buffer" else self.planning

    @property
    def chunk(self) -> int:
        """Number of samples that lanes take in turn, if they share a stream."""
        if self.plan is not None:
            return self.plan.window.group_samples or 1
        return self.packing_buffer_size or self.batch_size or 1

    @property
    def batch_samples(self) -> int | None:
        """Number of samples that make a micro-batch; None if it is not known ahead."""
        is_known = not any(map(makes_several, sample_hooks(self.task_encoder)))
        if self.packing_buffer_size is not None or self.groups or not is_known:
            return None
        if self.planning is not None and self.planning.window.group_samples is None:
            return None
        return self.batch_size or 1


def checked_count(name: str, given: int | None, *, may_be_minus_1: bool = False) -> int | None:
    """Check an argument that is None or at least 1."""
    check_integers({name: given})
    if given is not None and given < 1 and not (may_be_minus_1 and given == -1):
        expected = f"{name} to be -1, None or at least 1" if may_be_minus_1 else f"{name} of at least 1, or None"
        raise ConfigError(f"expected {expected}, found {given}")
    return given


def planned(chain: SavableDataset[Any], planning: PlannedGroups, options: ChainOptions) -> SavableDataset[Any]:
    """Add the stages that join planned groups: to micro-batches, or to packs and micro-batches of packs."""
    encoder = options.task_encoder
    if options.groups:
        raise ConfigError(
            f"{type(encoder).__name__}.batch_group_criterion groups samples after they are read, and groups are "
            "planned before",
            hint="drop the method, or pass no balance, packing or batch_cost; padded=True groups samples of like cost",
        )
    if planning.kind == "packs":
        pack = _final_packer(encoder)
        packs = PlannedGroupsDataset[Any](chain, pack, name="pack_selected_samples")
        metrics = _metrics(encoder, "encode")
        if pack is concat_pack and len(planning.formulas) == 1:
            metrics = dict.fromkeys(planning.formulas, sequence_length) | metrics
        packs.size_metrics = metrics
        return batched(packs, options)
    batches = PlannedGroupsDataset[Any](chain, encoder.batch, drop_last=options.batch_drop_last, name="batch")
    batches.size_metrics = _metrics(encoder, "encode")
    return _with_encoded_batches(batches, encoder)


def build_single_samples(reader: ReadDataset, encoder: TaskEncoder[Any, Any, Any, Any]) -> SavableDataset[Any]:
    """Build the chain up to encoded samples, without packing."""
    options = ChainOptions(task_encoder=encoder, worker_config=reader.worker_config, batch_size=None)
    return SampleStages(reader.sources, options).lift(reader, Level.READ, Level.ENCODED)


class Level(IntEnum):
    """Kind of the items of a stage."""

    READ = 0
    ENCODED = 1
    PACKED = 2


@dataclass(eq=False)
class SampleStages:
    """Builds the stages from readers to encoded samples and packs.

    Args:
        sources: The datasets of all readers, by their numbers in raw samples.
    """

    sources: Sequence[Source]
    options: ChainOptions

    def lift(self, chain: SavableDataset[Any], level: Level, to: Level) -> SavableDataset[Any]:
        options, encoder = self.options, self.options.task_encoder
        packs = options.packing_buffer_size is not None
        if level < Level.ENCODED <= to:
            chain = self._samples(chain)
            if options.planning is not None and options.planning.kind == "packs":
                chain = _mapped(chain, encoder.preencode_sample, "preencode_sample")
                chain = _mapped(chain, encoder.postencode_sample, "postencode_sample")
            elif packs:
                chain = _mapped(chain, encoder.preencode_sample, "preencode_sample")
            else:
                for name, hook in encoding_hooks(encoder):
                    below, chain = chain, _mapped(chain, hook, name)
                    if name != "encode_sample":
                        # Earlier versions did not build these stages: stages above keep the keys of saved states.
                        chain.depth = below.depth
        if level < Level.PACKED <= to and options.packing_buffer_size is not None:
            chain = packed(chain, encoder, options.packing_buffer_size, options.planning)
        return chain

    def _samples(self, reader: SavableDataset[Any]) -> SavableDataset[Any]:
        cook = self._cook
        names_sources = cook is not None and bool(cook.stores)
        decode = DecodeDataset(reader, sources=self.sources, names_sources=names_sources)
        return decode if cook is None else MapDataset(decode, cook, name="cook")

    @cached_property
    def _cook(self) -> CookSample | None:
        """The function that cooks the samples of all readers; None if no source is crude, or nothing cooks."""
        encoder = self.options.task_encoder
        cooks = encoder.cookers or not is_library_hook(encoder.cook_crude_sample)
        if not (cooks and any(source.recipe.is_crude for source in self.sources)):
            return None
        stores = [source.recipe.stores for source in self.sources]
        return CookSample(encoder, dict(enumerate(stores)) if uses_stores(encoder, stores) else {})


def encoding_hooks(encoder: TaskEncoder[Any, Any, Any, Any]) -> list[tuple[str, Callable[..., Any]]]:
    """Return the names and hooks that encode samples without packing, in the order of their calls.

    ``preencode_sample`` is ``encode_sample`` unless it is overridden. An encoder that overrides both has separate code
    for runs without packing: there only ``encode_sample`` is called.
    """
    encode, pre, post = encoder.encode_sample, encoder.preencode_sample, encoder.postencode_sample
    if not is_default(encode):
        hooks = [("encode_sample", encode)] + ([("postencode_sample", post)] if pre == encode else [])
    else:
        hooks = [("preencode_sample", pre), ("postencode_sample", post)]
    return [(name, hook) for name, hook in hooks if not is_default(hook)]


def sample_hooks(encoder: TaskEncoder[Any, Any, Any, Any]) -> list[Callable[..., Any]]:
    """Return the hooks that may make several of one sample, before packing."""
    return cooking_hooks(encoder) + [hook for _, hook in encoding_hooks(encoder)]


def _mapped(chain: SavableDataset[Any], hook: Callable[..., Any], name: str) -> SavableDataset[Any]:
    return chain if is_default(hook) else MapDataset(chain, hook, name=name)


def packed(
    chain: SavableDataset[Any],
    encoder: TaskEncoder[Any, Any, Any, Any],
    buffer_size: int,
    planning: PlannedGroups | None = None,
) -> SavableDataset[Any]:
    """Add the stages that pack samples: by the hooks, or by a packer that is named."""
    post, select = encoder.postencode_sample, encoder.select_samples_to_pack
    if planning is not None:
        metrics = size_metrics(encoder)
        select = MeasuredPacks(planning.window, {cost: metrics[cost].function for cost in planning.formulas})
    packing = PackingDataset[Any](
        chain,
        buffer_size,
        pre_packer=select,
        final_packer=encoder.pack_selected_samples if planning is None else _final_packer(encoder),
        sample_encoder=None if is_default(post) else post,
    )
    packing.selection.size_metrics = _metrics(encoder, "encode")
    return packing


def _final_packer(encoder: TaskEncoder[Any, Any, Any, Any]) -> Callable[[list[Any]], Any]:
    return concat_pack if is_default(encoder.pack_selected_samples) else encoder.pack_selected_samples


def _metrics(encoder: TaskEncoder[Any, Any, Any, Any], after: After) -> dict[str, Callable[[Any], float]]:
    if type(encoder) is DefaultTaskEncoder:
        return {}
    return {name: metric.function for name, metric in size_metrics(encoder).items() if metric.after == after}


def batched(chain: SavableDataset[Any], options: ChainOptions) -> SavableDataset[Any]:
    """Add the stages that make micro-batches."""
    encoder = options.task_encoder
    # Metrics measure what those of blends do; encoded samples that are packed are measured before.
    packs = options.packing_buffer_size is not None or options.planning is not None
    metrics = _metrics(encoder, "packing" if packs else "encode")
    if options.batch_size is None and not options.groups:
        _measure_items(chain, metrics)
        return chain
    batches: GroupBatchDataset[Any] | BatchDataset[Any]
    if options.groups or options.batch_size is None:
        criterion = encoder.batch_group_criterion
        batches = GroupBatchDataset(
            chain, options.batch_size, criterion, batcher=encoder.batch, drop_last=options.batch_drop_last
        )
    else:
        batches = BatchDataset(
            chain,
            options.batch_size,
            encoder.batch,
            drop_last=options.batch_drop_last,
            at_positions=not options.repeat and options.batch_samples is not None,
            name="batch",
        )
    batches.size_metrics = metrics
    return _with_encoded_batches(batches, encoder)


def _with_encoded_batches(
    batches: SavableDataset[Any], encoder: TaskEncoder[Any, Any, Any, Any]
) -> SavableDataset[Any]:
    if is_default(encoder.encode_batch):
        return batches
    encoded = MapDataset[Any](batches, encoder.encode_batch, name="encode_batch")
    encoded.takes_batches = True
    return encoded


def _measure_items(stage: SavableDataset[Any], metrics: dict[str, Callable[[Any], float]]) -> None:
    """Let statistics measure the items of a chain that makes no micro-batches, where they are made."""
    if isinstance(stage, BlendDataset):
        for upstream in stage.inputs:
            _measure_items(upstream, metrics)
    elif isinstance(stage, MapDataset | DecodeDataset):
        stage.size_metrics = metrics


_MAX_NAMED = 5  # datasets, in a message


class ColumnSize:
    """Function that returns the size of a raw sample from a column of its dataset."""

    def __init__(self, sources: Sequence[Source], unit: str) -> None:
        self._sources = sources
        self.__name__ = unit
        self._columns: dict[int, Column] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_columns": {}}

    def __call__(self, raw: Raw) -> float:
        sample_number: int
        if isinstance(raw, RawRow):
            primary = raw.members[0]
            if primary is None:
                raise ConfigError(
                    f"column {self.__name__!r} has no value for row {raw.number} of a join, which has no sample of its "
                    "primary dataset, and a blend counts it",
                    at=self._sources[raw.source].request.ref.path,
                    hint=f"add a method {self.__name__}(self, sample) with @sample_size_metric to the task encoder",
                )
            sample_number = primary.number
        else:
            sample_number = raw.number
        return self.size(raw.source, sample_number)

    def size(self, source: int, number: int) -> float:
        """Return the size of a sample.

        Args:
            number: Its number in the index; for a join, in the index of the primary dataset.
        """
        column = self._columns.get(source) or self._open(source)
        value = column.values[number].item()
        is_masked = column.valid is not None and not column.valid[number]
        if is_masked or isnan(value) or value == column.record.missing:
            dataset = self._sources[source].selection.first
            raise ConfigError(
                f"column {self.__name__!r} has no value for sample {dataset.full_key(number)!r}, and a blend counts it",
                at=dataset.path,
                hint=f"write it for all samples: {write_command(dataset.path, self.__name__)}",
            )
        return float(value)

    def _open(self, source: int) -> Column:
        dataset = self._sources[source].selection.first
        column = open_column(dataset.storage, dataset.index, self.__name__)
        column.check_numbers("a blend", at=dataset.path)
        self._columns[source] = column
        return self._columns[source]


def write_command(path: str, unit: str) -> str:
    """Return the command that writes the sizes of a dataset's samples as a column.

    >>> write_command("/data/books", "tokens")
    'energon stats /data/books --write tokens --tokenizer tokenizer.json'
    """
    tokenizer = " --tokenizer tokenizer.json" if unit.rpartition(".")[2] == "tokens" else ""
    return f"energon stats {path} --write {unit}{tokenizer}"


class UnknownSize:
    """Placeholder of a function that returns the size of a sample, in the chain of a run that is only described."""

    def __init__(self, unit: str) -> None:
        self.__name__ = unit

    def __call__(self, value: Any) -> float:  # noqa: ARG002 - has the arguments of a metric
        raise ConfigError(
            f"the order of this run depends on the sizes of its samples in {self.__name__!r}, which are not known",
            hint="pass the task encoder of the run, which has the metric (--task-encoder module:Class); or write "
            f"columns of the sizes: {write_command('PATH', self.__name__)}",
        )


@dataclass(eq=False)
class VolumeUnits:
    """The units of a run's blends."""

    sources: Sequence[Source]
    encoder: object
    needs_sizes: bool

    @cached_property
    def _metrics(self) -> dict[str, SizeMetric]:
        return size_metrics(self.encoder)

    def size(self, unit: str, leaves: Sequence[int]) -> tuple[Callable[[Any], Any], Level]:
        """Return the function that measures items in a unit, and the items that it takes."""
        # A metric of the task encoder measures items after its hooks.
        metric = self._metrics.get(unit)
        if metric is not None:
            return metric.function, Level.PACKED if metric.after == "packing" else Level.ENCODED
        # Otherwise the sizes are in columns of the datasets.
        lacking = [*self._lacking(unit, leaves)]
        if not lacking:
            return ColumnSize(self.sources, unit), Level.READ
        if not self.needs_sizes:
            return UnknownSize(unit), Level.READ
        # Neither is there: name what could be written.
        known = ", ".join(map(repr, self._metrics)) or "none"
        names = ", ".join(lacking[:_MAX_NAMED]) + (", …" if len(lacking) > _MAX_NAMED else "")
        column = re.sub(r"[^A-Za-z0-9_]", "_", unit)
        if column != unit:
            raise ConfigError(
                f"a blend has the unit {unit!r}, which can be no metric and no column",
                hint=f"write the columns, {write_command(lacking[0], unit)}, and name them: "
                f"blend_weight_unit: {column}",
            )
        raise ConfigError(
            f"a blend has the unit {unit!r}, which is not a metric of {type(self.encoder).__name__}; known are {known}."
            f" Nor is it a column of all its datasets: missing in {len(lacking)} of {len(leaves)}: {names}"
            f"{nearest_hint(unit, self._metrics)}",
            hint=f"add a method {unit}(self, sample) with @sample_size_metric to the task encoder, or write the "
            f"columns: {write_command(lacking[0], unit)}",
        )

    def _lacking(self, unit: str, leaves: Sequence[int]) -> Iterator[str]:
        seen: set[str] = set()
        for leaf in leaves:
            dataset = self.sources[leaf].selection.first
            path = dataset.ref.path
            if path not in seen and unit not in dataset.documents.column_names():
                yield path
            seen.add(path)
