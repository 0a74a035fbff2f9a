"""Join the samples of planned groups: to packs, or to micro-batches of equal cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ConfigError
from ...order import PlannedLane
from ...samples.batching.collate import generic_batch
from ...samples.hooks import is_library_hook
from ..contract.hook import BatchHook
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import SKIPPED, RunningFunctions, StageTraits
from ..contract.stage import Running, SavableDataset, State, T
from ..reading.read import ReadDataset


class PlannedGroupsDataset(SavableDataset[T]):
    """Join the samples of each group that the reader has planned.

    A sample that is skipped leaves its group smaller; a group without samples is passed over. A state holds the
    position of the reader only, because groups begin and end at known positions.

    Args:
        dataset: The stage below: each of its items is of one sample.
        batcher: Joins a list of samples; by default :func:`~loader.samples.batching.collate.generic_batch`.
        failure_tolerance: Consecutive failures of ``batcher`` that end the run; by default the number set for it, or
            100.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: A stage below makes several samples of one, or the reader plans no groups.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: Any = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        self.batcher = batcher
        self.failure_tolerance = failure_tolerance
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its samples, for statistics
        _ = self.reader

    @property
    def reader(self) -> ReadDataset:
        """The reader, which plans the groups."""
        return _reader_of(self.inputs[0])

    @property
    def batch_size(self) -> int | None:
        """Samples of each group; None if groups have several sizes."""
        return None if self.reader.groups is None else self.reader.groups.window.group_samples

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            one_to_one=self.batch_size is not None,
            never_more=True,
            batches_of=self.batch_size,
            draws_random=not is_library_hook(self.batcher),
        )

    def lane_bound(self, lane: int, lanes: int) -> int | None:
        if self.batch_size is not None:
            return super().lane_bound(lane, lanes)
        order = self.reader.lane_order(lane, lanes=lanes, seed=self.worker_config.seed_offset)
        return order.count_groups() if isinstance(order, PlannedLane) else None

    def open(self, lane: Lane, state: State) -> Running:
        upstream = self.inputs[0].open(lane, state)
        order: PlannedLane = lane.shared[PlannedLane]
        tolerance, path = self.failure_tolerance, lane.path + self.key
        hook = BatchHook(
            self.batcher, lane, upstream, path, failure_tolerance=tolerance, stage=self.name, sizes=self.size_metrics
        )
        read, make = upstream.next, hook.make
        position: int = state.get(self.reader.key, 0)

        def next_group() -> tuple[Any, ItemId]:
            nonlocal position
            size, is_left_out = order.group_at(position)
            values: list[Any] = []
            item_ids: list[ItemId] = []
            for _ in range(size):
                value, item_id = read()
                position += 1
                if value is not SKIPPED and not is_left_out:
                    values.append(value)
                    item_ids.append(item_id)
            return make(values, tuple(item_ids))

        return RunningFunctions(next_group, upstream.state, hook.load)


def _reader_of(dataset: SavableDataset[Any]) -> ReadDataset:
    """Return the only reader of a chain.

    Raises:
        ConfigError: There are several, or stages above it make several samples of one.
    """
    stage = dataset
    while not isinstance(stage, ReadDataset):
        if len(stage.inputs) != 1 or not stage.traits.one_to_one:
            raise ConfigError(
                f"groups are planned before samples are read, and {stage.name} makes several samples of one, or joins "
                "several datasets by their volume",
                hint="pass no balance, packing or batch_cost; or let hooks return one sample for each",
            )
        stage = stage.inputs[0]
    return stage
