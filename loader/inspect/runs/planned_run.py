"""A training run: the datasets, the order of their samples, the lanes and the steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import ConfigError, StateError, plural
from ...metadataset.plans.plan_node import RepeatedLeafWarning
from ...order import GONE, LaneOrder, PlannedLane, RepeatedOrder, StreamOrder, default_lanes
from ...pipeline.contract.rank_stage import cut_rank_stages
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.order_plan import ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.sample_chunk import OpenSources
from ...pipeline.reading.source import Source
from ...pipeline.stages.batch import BatchDataset, groups_of_batch
from ...pipeline.stages.blend import BlendDataset
from ...samples.encoding.task_encoder import TaskEncoder
from ...training.datasets.get_datasets import get_train_dataset
from ...training.datasets.planned_encoder import PlannedEncoder
from ...training.states import RunState, RunSteps
from .volume_mix import VolumeMix, blends_in, first_blend, readers_in


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The arguments of a training run that determine its samples.

    Attributes:
        batch_size: Samples of a micro-batch; None for single samples.
        shuffle_buffer_size: As of ``get_train_dataset``.
        max_samples_per_sequence: As of ``get_train_dataset``.
        shuffle_over_epochs_multiplier: As of ``get_train_dataset``.
        packing_buffer_size: As of ``get_train_dataset``. Without a ``task_encoder``, samples are not packed, but the
            number of lanes is the one of a run that packs.
        seed_offset: As of ``WorkerConfig``.
        lanes: Number of lanes; None for the default of a new run. A restored run keeps the number that it began with.
        task_encoder: The hooks of the run, for runs whose micro-batches are rebuilt; None: only the order counts.
        planning: Arguments of ``get_train_dataset`` that plan micro-batches or packs.
    """

    path: str
    batch_size: int | None = 1
    world_size: int = 1
    num_workers: int = 0
    split_part: str = "train"
    shuffle_buffer_size: int | None = None
    max_samples_per_sequence: int | None = None
    shuffle_over_epochs_multiplier: int | None = 1
    packing_buffer_size: int | None = None
    seed_offset: int = 0
    lanes: int | None = None
    filter_name: str | None = None
    trust_code: bool = False
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None
    planning: Mapping[str, Any] = field(default_factory=dict, hash=False)


def request_of(
    state: RunState, dataset: str | None, *, trust_code: bool, task_encoder: TaskEncoder[Any, Any, Any, Any] | None
) -> RunRequest:
    """Return the arguments that a state's description of the chain has."""
    readers = list(readers_of(state.dataset))
    if not readers:
        raise StateError(
            "expected a run with one reader, found 0",
            hint="chains of users that read in several places are traced by the debug log: worker_debug_path",
        )
    # Find the dataset.
    sources = [source for read in readers for source in read[2:] if isinstance(source, Mapping)]
    stages = dict(stages_of(state.dataset))
    names = {str(source.get("path")) for source in sources}
    if dataset is None and (len(sources) != 1 or len(names) != 1):
        raise ConfigError(
            f"the run mixes {plural(len(sources), 'dataset')}, and its state does not name the metadataset",
            hint="pass it as --dataset",
        )
    # Take the arguments from the settings of the stages.
    settings = {name: _common([read[1].get(name) for read in readers]) for name in readers[0][1]}
    plan = settings.get("plan")
    together, slices = settings.get("epochs_together"), settings.get("slice_lengths")
    filters = {source.get("filter") for source in sources}
    request = RunRequest(
        path=dataset or names.pop(),
        batch_size=_size(stages, "batch_size"),
        packing_buffer_size=_size(stages, "buffer_size") if task_encoder is not None else None,
        world_size=state.ranks,
        split_part=str(sources[0].get("split_part") or "train"),
        shuffle_buffer_size=settings.get("shuffle_buffer"),
        max_samples_per_sequence=slices if isinstance(slices, int) else None,
        shuffle_over_epochs_multiplier=together if not isinstance(together, list) else 1,
        seed_offset=state.seed,
        lanes=state.lanes,
        trust_code=trust_code,
        task_encoder=task_encoder,
        planning={} if plan is None else _planning_of(plan, packs="pack_selected_samples" in stages),
    )
    return replace(request, filter_name=filters.pop()) if dataset is None else request


def _planning_of(plan: Mapping[str, Any], *, packs: bool) -> dict[str, Any]:
    """Return the arguments that plan groups, from the reader's description of them."""
    planning = {"plan_window": plan["window"], "padded": plan.get("padded", False)}
    if "capacity" not in plan:
        return planning | {"balance": dict(plan["costs"])}
    planning["oversized"] = plan["oversized"]
    limits = dict(zip(plan["costs"], plan["capacity"], strict=True))
    return planning | ({"packing": plan["packer"], "pack_capacity": limits} if packs else {"batch_cost": limits})


def readers_of(identity: Any) -> Iterator[list[Any]]:
    """Yield the descriptions of the readers in the description of a chain."""
    if isinstance(identity, list | tuple) and identity:
        if identity[0] == "read" and len(identity) > 1 and isinstance(identity[1], Mapping):
            yield list(identity)
        else:
            for part in identity:
                yield from readers_of(part)


def _common(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else values


def _size(stages: Mapping[str, Mapping[str, Any]], name: str) -> int | None:
    return next((settings[name] for settings in stages.values() if isinstance(settings.get(name), int)), None)


def stages_of(identity: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and settings of the stages in the description of a chain, the outermost first."""
    if isinstance(identity, list | tuple) and len(identity) > 1 and isinstance(identity[0], str):
        yield identity[0], identity[1] if isinstance(identity[1], Mapping) else {}
        for part in identity[2:]:
            yield from stages_of(part)


def order_stages(identity: Any) -> Any:
    """Return the description of the readers and blends of a chain, without the other stages."""
    if isinstance(identity, list | tuple) and identity:
        if identity[0] == "read":
            return identity
        inner = [order_stages(part) for part in identity[2:]]
        return [*identity[:2], *inner] if identity[0] == "blend" else next(iter(inner), None)
    return identity


def order_of_blends(identity: Any) -> str:
    """Return how blends count sizes: by ``"columns"`` before decoding, or by ``"metrics"`` after it."""
    names = [name for name, _ in stages_of(identity)]
    return "columns" if names.index("decode") < names.index("blend") else "metrics"


_BATCHES_TOGETHER = 1024  # micro-batches that are located in one call of numpy
_PLANNED_LANES = 64  # kept, since each keeps the last windows that it planned: about a megabyte
_FIRST_POSITIONS, _MAX_POSITIONS, _GROWTH = 1 << 8, 1 << 18, 4  # at a time


class PlannedRun:
    """An endless training run.

    Without the hooks of the run, no sample is skipped, packed or generated.

    Attributes:
        readers: The stages that read and their seeds, by the origins of the inputs of blends that lead to them.
        volume_mix: The shares of such a run; None for others, and if the task encoder is given.
        repeated_leaves: Messages about leaves of a metadataset that are reached twice.
    """

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        config = WorkerConfig(
            rank=0,
            world_size=request.world_size,
            num_workers=request.num_workers,
            seed_offset=request.seed_offset,
            lanes=request.lanes,
        )
        # Build the stages of the run.
        encoder = PlannedEncoder()
        chain, self.repeated_leaves = _build_chain(request, config, encoder)
        datasets = encoder.datasets
        tree = None if datasets is None else datasets.volume_tree
        self.volume_mix = None if datasets is None or tree is None else VolumeMix(datasets, tree)
        # Build a reader with the expected shares, if weights are shares of volumes.
        self._flat: ReadDataset | None = None
        if self.volume_mix is not None:
            flat = encoder.flat_chain(
                self.volume_mix.sample_shares,
                self.volume_mix.sample_schedules,
                worker_config=config,
                batch_size=request.batch_size,
                shuffle_buffer_size=request.shuffle_buffer_size,
            )
            [(_, (self._flat, _))] = readers_in(cut_rank_stages(flat)[0], 0)
        # Determine the lanes and the steps.
        self.chain = cut_rank_stages(chain)[0]
        has_buffers = chain.waits or request.packing_buffer_size is not None
        self.lanes = request.lanes or default_lanes(request.world_size, request.num_workers, has_buffers=has_buffers)
        self.seed = config.seed_offset
        self.steps = RunSteps(ranks_at=((0, request.world_size),))

    @property
    def chain(self) -> SavableDataset[Any]:
        """The stages of the lanes."""
        return self._chain

    @chain.setter
    def chain(self, chain: SavableDataset[Any]) -> None:
        self._chain = chain
        self.readers = dict(readers_in(chain, self.request.seed_offset))
        readers = sorted((reader for reader, _ in self.readers.values()), key=lambda reader: reader.first_source)
        self.sources: tuple[Source, ...] = tuple(source for reader in readers for source in reader.sources)
        self._tables: dict[tuple[int, ...], OpenSources] = {}
        self._planned: dict[int, PlannedLane] = {}  # the lanes that were used last
        if len(self.readers) > 1 and not self.is_volume:
            raise ConfigError("expected a chain of stages with one reader", hint="explain a run without such stages")

    @property
    def reader(self) -> ReadDataset:
        """The stage that reads; for weights by volume, a stage with the expected shares of samples."""
        if () in self.readers:
            return self.readers[()][0]
        if self._flat is None:
            raise ConfigError("expected a chain of stages with one reader", hint="explain a run without such stages")
        return self._flat

    @property
    def is_volume(self) -> bool:
        """True if weights are shares of volumes, so that the order depends on the sizes of samples."""
        return self.volume_blend is not None

    @property
    def volume_blend(self) -> BlendDataset[Any] | None:
        """The outermost blend of a run whose weights are shares of volumes; None for others."""
        blend = first_blend(self._chain)
        has_unit = blend is not None and any(stage.unit is not None for stage in blends_in(blend))
        return blend if has_unit else None

    @cached_property
    def order_chain(self) -> SavableDataset[Any]:
        """The stages that determine which samples make a micro-batch, of a run by volume without hooks."""
        blend = self.volume_blend
        if blend is None:
            return self._chain
        return blend if self.request.batch_size is None else BatchDataset(blend, self.request.batch_size, list)

    @property
    def batch_size(self) -> int:
        """Samples of a micro-batch."""
        return self.request.batch_size or 1

    @property
    def epoch_steps(self) -> int:
        """Number of steps that use as many samples as the datasets have, the last one in part."""
        return max(1, -(-sum(source.samples for source in self.sources) // (self.batch_size * self.request.world_size)))

    @property
    def plan(self) -> ShuffledPlan:
        """The order of the run."""
        plan = self.reader.plan
        if not isinstance(plan, ShuffledPlan):
            raise ConfigError("expected the order of a training run", at=self.request.path)
        return plan

    @cached_property
    def order(self) -> StreamOrder:
        """The streams of all lanes, of a run whose mix never changed."""
        samples = [source.samples for source in self.sources]
        return self.plan.order(samples, lanes=self.lanes, seed=self.seed, tables=self.plan.tables(self.sources))

    @property
    def is_planned(self) -> bool:
        """True if the samples of micro-batches are planned from their costs."""
        return self.reader.groups is not None

    def stream(self, lane: int) -> LaneOrder:
        """Return the stream of a lane."""
        if self.is_planned:
            return self.planned_lane(lane)
        if self.reader.history is None:
            return self.order.lane(lane)
        return self.reader.lane_order(lane, lanes=self.lanes, seed=self.seed)

    def planned_lane(self, lane: int) -> PlannedLane:
        """Return the stream of a lane of a run whose groups are planned."""
        known = self._planned.pop(lane, None)
        if known is None:
            order = self.reader.lane_order(lane, lanes=self.lanes, seed=self.seed)
            known = cast("PlannedLane", order)
        if len(self._planned) >= _PLANNED_LANES:
            self._planned.pop(next(iter(self._planned)))
        self._planned[lane] = known
        return known

    def planned_batch(
        self, batch_number: int, known: Mapping[str, int] | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return what :meth:`batch` does for a run whose groups are planned."""
        lane, lane_batch = batch_number % self.lanes, batch_number // self.lanes
        order, size = self.planned_lane(lane), groups_of_batch(self.chain)
        # Groups that lost all their samples before a state count no micro-batch.
        made, position = (0, 0) if known is None else (known["made"], known["0 read"])
        first = (lane_batch - made) * size
        groups = [np.array(order.group(first + each, position=position)) for each in range(size)]
        positions = np.concatenate(groups)
        # Samples that were excluded since are holes.
        start = int(positions[0])
        columns = self.locate(lane, start, int(positions[-1]) + 1)
        source, epoch, index = (column[positions - start] for column in columns)
        excluded = self.table.excluded(source, index)
        kept = slice(None) if excluded is None else ~excluded
        return source[kept], epoch[kept], index[kept]

    @cached_property
    def table(self) -> OpenSources:
        """Maps samples of the sources to their numbers in the indexes."""
        return OpenSources(self.sources)

    @cached_property
    def skips(self) -> bool:
        """True if samples were excluded after the run began, which are passed over at their turn."""
        return any(len(source.turns.excluded) for source in self.sources)

    def batches_of_lane(self, lane: int, batches: int) -> int:
        """Return the number of micro-batches of a lane among the first ones of the run."""
        return max(0, -(-(batches - lane) // self.lanes))

    def positions(self, batches: int) -> IntArray:
        """Return the position of each lane after the first micro-batches of the run, if nothing is skipped."""
        return np.array([self.batches_of_lane(lane, batches) * self.batch_size for lane in range(self.lanes)])

    def locate(self, lane: int, start: int, stop: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return sources, epochs and numbers in the indexes at positions of a lane; -1 is a dataset that is gone."""
        source, epoch, sample = self.stream(lane).locate(start, stop)
        return source, epoch, self.table.index_numbers(np.maximum(source, 0), np.where(source == GONE, 0, sample))

    def locate_in(self, path: tuple[int, ...], lane: int, start: int, stop: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return what :meth:`locate` does for positions of one of several readers.

        Args:
            path: The origins of the inputs of blends that lead to the reader.
            start: The first position in the reader's stream.
        """
        # The reader left the mix since.
        if path not in self.readers:
            gone = np.full(stop - start, GONE)
            return gone, np.zeros_like(gone), np.zeros_like(gone)
        if not path:
            return self.locate(lane, start, stop)
        reader, seed = self.readers[path]
        order = reader.lane_order(lane, lanes=self.lanes, seed=seed)
        if path not in self._tables:
            self._tables[path] = OpenSources(reader.sources)
        source, epoch, sample = order.locate(start, stop)
        is_gone = source == GONE
        index = self._tables[path].index_numbers(np.maximum(source, 0), np.where(is_gone, 0, sample))
        return np.where(is_gone, GONE, source + reader.first_source), epoch, index

    def batch(self, batch_number: int, known: Mapping[str, int] | None = None) -> tuple[IntArray, IntArray, IntArray]:
        """Return the sources, epochs and numbers in the indexes of the samples of a micro-batch; shape (batch_size,).

        Args:
            known: A state of its lane before it, so that earlier samples are not counted again.
        """
        if self.is_planned:
            return self.planned_batch(batch_number, known)
        # Lanes make micro-batches in turns.
        lane, lane_batch = batch_number % self.lanes, batch_number // self.lanes
        size = self.batch_size
        made, position = (0, 0) if known is None else (known["made"], known["0 read"])
        first = (lane_batch - made) * size
        # Without exclusions, the place of a micro-batch in its lane is a product.
        if not self.skips:
            return self.locate(lane, position + first, position + first + size)
        # Otherwise count the samples that are not excluded, from the state on.
        pieces: list[tuple[IntArray, ...]] = []
        seen = 0
        for columns in self._kept(lane, position):
            rows = slice(max(0, first - seen), max(0, first + size - seen))
            pieces.append(tuple(column[rows] for column in columns))
            seen += len(columns[0])
            if seen >= first + size:
                break
        source, epoch, index = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return source, epoch, index

    def batches(
        self, numbers: Sequence[int], known: Callable[[int], Mapping[str, int] | None]
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield what :meth:`batch` returns for each micro-batch; ``known`` returns a state of its lane before it."""
        order, size = self.order, self.batch_size
        if self.is_planned or self.skips or self.reader.history is not None or not isinstance(order, RepeatedOrder):
            yield from (self.batch(batch_number, known(batch_number)) for batch_number in numbers)
            return
        # Locate many micro-batches by one call of numpy.
        for first in range(0, len(numbers), _BATCHES_TOGETHER):
            some = numbers[first : first + _BATCHES_TOGETHER]
            starts = []
            for batch_number in some:
                state = known(batch_number) or {"made": 0, "0 read": 0}
                starts.append(state["0 read"] + (batch_number // self.lanes - state["made"]) * size)
            lane = np.repeat([batch_number % self.lanes for batch_number in some], size)
            position = (np.array(starts)[:, None] + np.arange(size)).ravel()
            source, epoch, sample = order.locate_in_lanes(lane, position)
            index = self.table.index_numbers(source, sample)
            for start in range(0, len(lane), size):
                rows = slice(start, start + size)
                yield source[rows], epoch[rows], index[rows]

    def is_without_gaps(self, lane: int, state: Mapping[str, int]) -> bool:
        """Return whether a lane made its micro-batches of all samples before a state, or of all planned groups."""
        made, position = state.get("made", 0), state.get("0 read", 0)
        if self.is_planned:
            return self.planned_lane(lane).groups_before(position) == made * groups_of_batch(self.chain)
        return self.kept_before(lane, position) == made * self.batch_size

    def kept_before(self, lane: int, position: int) -> int:
        """Return the number of samples of a lane before a position, without excluded ones."""
        if not self.skips:
            return position
        kept, start = 0, 0
        while start < position:
            stop = min(position, start + _MAX_POSITIONS)
            source, _, index = self.locate(lane, start, stop)
            excluded = self.table.excluded(source, index)
            kept += stop - start - (0 if excluded is None else int(excluded.sum()))
            start = stop
        return kept

    def _kept(self, lane: int, start: int = 0) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        # Begin with few positions, since a caller often needs one micro-batch only.
        size = _FIRST_POSITIONS
        while True:
            source, epoch, index = self.locate(lane, start, start + size)
            excluded = self.table.excluded(source, index)
            kept = slice(None) if excluded is None else ~excluded
            yield source[kept], epoch[kept], index[kept]
            start, size = start + size, min(size * _GROWTH, _MAX_POSITIONS)

    def pieces(self, lane: int, batches: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield the samples of a lane's first micro-batches, in pieces."""
        left = batches * self.batch_size
        kept = self._kept(lane)
        while left > 0:
            source, epoch, index = (column[:left] for column in next(kept))
            left -= len(source)
            yield source, epoch, index


def _build_chain(
    request: RunRequest, config: WorkerConfig, encoder: PlannedEncoder
) -> tuple[SavableDataset[Any], tuple[str, ...]]:
    """Return the chain of a run, and the messages about leaves of a metadataset that are reached twice."""
    options: dict[str, Any] = {} if request.filter_name is None else {"filter_name": request.filter_name}
    if request.batch_size is not None and request.batch_size < 1:
        raise ConfigError(f"expected a batch_size of at least 1, found {request.batch_size}")
    # Messages about repeated leaves are findings of the caller; other warnings stay warnings.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RepeatedLeafWarning)
        chain = get_train_dataset(
            request.path,
            split_part=request.split_part,
            worker_config=config,
            batch_size=request.batch_size,
            packing_buffer_size=None if request.task_encoder is None else request.packing_buffer_size,
            shuffle_buffer_size=request.shuffle_buffer_size,
            max_samples_per_sequence=request.max_samples_per_sequence,
            shuffle_over_epochs_multiplier=request.shuffle_over_epochs_multiplier,
            task_encoder=request.task_encoder or encoder,
            trust_code=request.trust_code,
            **options,
            **request.planning,
        )
    for message in caught:
        if message.category is not RepeatedLeafWarning:
            warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)
    return chain, tuple(str(message.message) for message in caught if message.category is RepeatedLeafWarning)
