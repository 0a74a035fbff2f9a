"""A training run as its arguments define it: the datasets, the order of their samples, and the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...cached_property import cached_property
from ...errors import ConfigError
from ...order import StreamOrder, default_lanes
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.order_plan import ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.sample_chunk import SourceTable
from ...pipeline.reading.source import Source
from ...training.datasets.get_datasets import get_train_dataset

__all__ = ["PlannedRun", "RunRequest"]

_FIRST_POSITIONS, _MAX_POSITIONS, _GROWTH = 1 << 8, 1 << 18, 4  # at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The arguments of a training run that determine its samples.

    Attributes:
        path: A prepared dataset, or a metadataset.
        batch_size: Samples of a micro-batch.
        world_size: Number of data-parallel ranks.
        num_workers: Worker processes of each rank.
        split_part: Part of the split.
        shuffle_buffer_size: As of ``get_train_dataset``.
        max_samples_per_sequence: As of ``get_train_dataset``.
        shuffle_over_epochs_multiplier: As of ``get_train_dataset``.
        seed_offset: As of ``WorkerConfig``.
        lanes: Number of lanes; None for that of a new run. A restored run keeps the number that it began with.
        filter_name: Filter of every dataset.
        trust_code: The dataset may run its code.
    """

    path: str
    batch_size: int = 1
    world_size: int = 1
    num_workers: int = 0
    split_part: str = "train"
    shuffle_buffer_size: int | None = None
    max_samples_per_sequence: int | None = None
    shuffle_over_epochs_multiplier: int | None = 1
    seed_offset: int = 0
    lanes: int | None = None
    filter_name: str | None = None
    trust_code: bool = False


class PlannedRun:
    """An endless training run, without hooks that skip, pack or generate samples.

    A step is one micro-batch on each rank: micro-batch ``m`` of the run is that of step ``m // ranks`` on rank
    ``m % ranks``.

    Args:
        request: The arguments of the run.

    Raises:
        ConfigError: An argument or a document is invalid.
        StorageError: A dataset is missing or not prepared.
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
        options: dict[str, Any] = {} if request.filter_name is None else {"filter_name": request.filter_name}
        if request.batch_size < 1:
            raise ConfigError(f"expected a batch_size of at least 1, found {request.batch_size}")
        chain = get_train_dataset(
            request.path,
            split_part=request.split_part,
            worker_config=config,
            batch_size=request.batch_size,
            shuffle_buffer_size=request.shuffle_buffer_size,
            max_samples_per_sequence=request.max_samples_per_sequence,
            shuffle_over_epochs_multiplier=request.shuffle_over_epochs_multiplier,
            trust_code=request.trust_code,
            **options,
        )
        self.reader = _reader(chain)
        self.lanes = request.lanes or default_lanes(request.world_size, request.num_workers, has_buffers=chain.waits)
        self.seed = config.seed_offset

    @property
    def sources(self) -> tuple[Source, ...]:
        """The datasets, in the order of the mix."""
        return self.reader.sources

    @property
    def plan(self) -> ShuffledPlan:
        """The order of the run."""
        plan = self.reader.plan
        if not isinstance(plan, ShuffledPlan):
            raise ConfigError("expected the order of a training run", at=self.request.path)
        return plan

    @cached_property
    def order(self) -> StreamOrder:
        """The streams of all lanes."""
        samples = [source.samples for source in self.sources]
        return self.plan.order(samples, lanes=self.lanes, seed=self.seed)

    @cached_property
    def table(self) -> SourceTable:
        """Maps samples of the sources to their numbers in the indexes."""
        return SourceTable(self.sources)

    @property
    def skips(self) -> bool:
        """True if the split excludes samples, which are skipped at their turn."""
        return any(len(source.excluded) for source in self.sources)

    def batches_of_lane(self, lane: int, batches: int) -> int:
        """Return the number of micro-batches of a lane among the first ones of the run."""
        return max(0, -(-(batches - lane) // self.lanes))

    def batch(self, number: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return the sources, epochs and numbers in the indexes of the samples of a micro-batch; shape (batch_size,).

        Args:
            number: The micro-batch of the run.
        """
        lane, own = number % self.lanes, number // self.lanes
        size = self.request.batch_size
        stream = self.order.lane(lane)
        if not self.skips:
            source, epoch, sample = stream.locate(own * size, (own + 1) * size)
            return source, epoch, self.table.index_numbers(source, sample)
        return self._range(lane, own * size, size)

    def _range(self, lane: int, first: int, size: int) -> tuple[IntArray, IntArray, IntArray]:
        """Return some samples of a lane, counted without excluded ones."""
        found: list[tuple[IntArray, ...]] = []
        seen = 0
        for columns in self._kept(lane):
            rows = slice(max(0, first - seen), max(0, first + size - seen))
            found.append(tuple(column[rows] for column in columns))
            seen += len(columns[0])
            if seen >= first + size:
                break
        source, epoch, index = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return source, epoch, index

    def _kept(self, lane: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield the samples of a lane without excluded ones, in pieces."""
        stream = self.order.lane(lane)
        start, size = 0, _FIRST_POSITIONS
        while True:
            source, epoch, sample = stream.locate(start, start + size)
            index = self.table.index_numbers(source, sample)
            excluded = self.table.excluded(source, index)
            kept = slice(None) if excluded is None else ~excluded
            yield source[kept], epoch[kept], index[kept]
            start, size = start + size, min(size * _GROWTH, _MAX_POSITIONS)

    def pieces(self, lane: int, batches: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield the samples of a lane's first micro-batches, in pieces."""
        left = batches * self.request.batch_size
        kept = self._kept(lane)
        while left > 0:
            source, epoch, index = (column[:left] for column in next(kept))
            left -= len(source)
            yield source, epoch, index


def _reader(chain: SavableDataset[Any]) -> ReadDataset:
    stage: Any = chain
    while not isinstance(stage, ReadDataset):
        inputs = stage.inputs
        if len(inputs) != 1:
            raise ConfigError("expected a chain of stages with one reader", hint="explain a run without such stages")
        stage = inputs[0]
    return stage
