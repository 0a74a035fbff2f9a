"""Join samples to micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
from ..contract.worker_config import WorkerConfig, check_at_least, check_integers
from ..reading.planned_groups import PlannedGroups
from ..reading.read import ReadDataset


class BatchDataset(SavableDataset[T]):
    """Join items to batches.

    ``BatchDataset([a, b, c], 2, batcher=f)`` yields ``f([a, b]), f([c])``. If a lane of a pass ends with fewer items
    than a batch, the other lanes of the same worker complete it, so at most one batch of a worker is short.

    Args:
        dataset: The stage below.
        batch_size: B, items of a batch.
        batcher: Joins a list of items to a batch; by default :func:`~loader.samples.batching.collate.generic_batch`.
        drop_last: Drop a last batch of fewer than B items.
        at_positions: The lanes get whole batches, so the number of batches is known unless items are skipped: batch
            ``b`` of a lane holds the items at the positions ``[b·B, (b+1)·B)`` of its stream. The next item takes the
            place of a skipped one.
        failure_tolerance: Consecutive failures of ``batcher`` that end the run; by default the number set for it, or
            100.
        worker_config: By default the dataset's.
        batcher_stateless: Accepted for code written for megatron-energon, and ignored.
        batcher_config: As above.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> [batch.caption for batch in get_loader(BatchDataset(photos, 3))]
    [['a cat', 'a dog', 'two cats'], ['a bird']]
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        batch_size: int,
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        drop_last: bool = False,
        at_positions: bool = False,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        batcher_stateless: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        batcher_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        check_integers({"batch_size": batch_size}, may_be_none=False)
        check_at_least(1, batch_size=batch_size)
        self.batch_size = batch_size
        self.batcher = batcher
        self.drop_last = drop_last
        self.failure_tolerance = failure_tolerance
        self.at_positions = at_positions
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its items, for statistics

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            one_to_one=self.at_positions,
            never_more=True,
            batches_of=self.batch_size,
            drop_last=self.drop_last,
            draws_random=not is_library_hook(self.batcher),
            ends="with_worker",
        )

    def settings(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "drop_last": self.drop_last}

    def open(self, lane: Lane, state: State) -> Running:
        batcher = BatchHook.opened(self, lane, state, stage=self.name)
        size, fill, make = self.batch_size, batcher.upstream.fill, batcher.make

        def next_batch() -> tuple[Any, ItemId]:
            values: list[Any] = []
            item_ids: list[ItemId] = []
            fill(values, item_ids, size)
            # A remainder that is dropped is noted, as the reason if no batch of the data is left.
            if len(values) < size and (self.drop_last or not values):
                lane.failures.note_remainder(self.name, len(values), size)
                raise StopIteration
            return make(values, tuple(item_ids))

        return RunningFunctions(next_batch, batcher.upstream.state, batcher.load)


class PlannedGroupsDataset(BatchDataset[T]):
    """Join the samples of each group that the reader has planned: to micro-batches or packs.

    A sample that is skipped leaves its group smaller; a group without samples is passed over. A state holds the
    position of the reader only, because groups begin and end at known positions.

    Args:
        dataset: The stage below: each of its items is of one sample.
        batcher: Joins a list of samples; by default :func:`~loader.samples.batching.collate.generic_batch`.
        drop_last: Drop a last group of fewer samples, if groups have equal numbers of samples.
        failure_tolerance: As in :class:`BatchDataset`.

    Raises:
        ConfigError: A stage below makes several samples of one, or the reader plans no groups.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        drop_last: bool = False,
        failure_tolerance: int | None = None,
        name: str | None = None,
    ) -> None:
        size = planning_reader(dataset)[1].window.group_samples
        super().__init__(
            dataset,
            size or 1,
            batcher,
            drop_last=drop_last and size is not None,
            at_positions=size is not None,
            failure_tolerance=failure_tolerance,
            name=name,
        )
        self.varies = size is None
        """Groups have several numbers of samples."""

    @property
    def traits(self) -> StageTraits:
        return replace(super().traits, batches_of=None if self.varies else self.batch_size, ends="alone")

    def settings(self) -> dict[str, Any]:
        return {} if self.varies else super().settings()  # the reader has the others

    def lane_bound(self, lane: int, lanes: int) -> int | None:
        if not self.varies:
            return super().lane_bound(lane, lanes)
        order = planning_reader(self)[0].lane_order(lane, lanes=lanes, seed=self.worker_config.seed_offset)
        return order.count_groups() if isinstance(order, PlannedLane) else None

    def open(self, lane: Lane, state: State) -> Running:
        batcher = BatchHook.opened(self, lane, state, stage=self.name)
        order: PlannedLane = lane.shared[PlannedLane]
        read, make = batcher.upstream.next, batcher.make
        position: int = state.get(planning_reader(self)[0].key, 0)

        def next_group() -> tuple[Any, ItemId]:
            nonlocal position
            size, is_left_out = order.group_at(position)
            if self.drop_last and size < self.batch_size:
                lane.failures.note_remainder(self.name, size, self.batch_size)
                raise StopIteration
            values: list[Any] = []
            item_ids: list[ItemId] = []
            for _ in range(size):
                value, item_id = read()
                position += 1
                if value is not SKIPPED and not is_left_out:
                    values.append(value)
                    item_ids.append(item_id)
            return make(values, tuple(item_ids))

        return RunningFunctions(next_group, batcher.upstream.state, batcher.load)


def planning_reader(dataset: SavableDataset[Any]) -> tuple[ReadDataset, PlannedGroups]:
    """Return the only reader of a chain, and the groups that it plans.

    Raises:
        ConfigError: It plans none, there are several, or stages above it make several samples of one.
    """
    below, stage = list[SavableDataset[Any]](), dataset
    while stage.inputs:
        below = [] if isinstance(stage, PlannedGroupsDataset) else [*below, stage]
        stage = stage.inputs[0]
    if not isinstance(stage, ReadDataset) or stage.groups is None:
        if dataset.waits:
            raise ConfigError(
                "micro-batches are made from a buffer of samples, so that their costs are unknown before the run",
                hint="write the costs as columns, and pass balance, packing or batch_cost to get_train_dataset",
            )
        raise ConfigError(
            "expected a dataset whose micro-batches or packs are planned",
            hint="pass balance, packing or batch_cost to get_train_dataset",
        )
    # A group is a number of items of the reader, which each stage between must keep.
    several = next((each for each in below if len(each.inputs) > 1 or not each.traits.one_to_one), None)
    if several is not None:
        raise ConfigError(
            f"groups are planned before samples are read, and {several.name} makes several samples of one, or joins "
            "several datasets by their volume",
            hint="pass no balance, packing or batch_cost; or let hooks return one sample for each",
        )
    return stage, stage.groups


def plans_groups(chain: SavableDataset[Any]) -> bool:
    """Return whether a chain joins planned groups."""
    while chain.inputs and not isinstance(chain, PlannedGroupsDataset):
        chain = chain.inputs[0]
    return isinstance(chain, PlannedGroupsDataset)


def planned_window(chain: SavableDataset[Any], lanes: int) -> int:
    """Return the number of samples of a window of a run; 0 if it plans no groups."""
    plan = planning_reader(chain)[0].window_plan(lanes) if plans_groups(chain) else None
    return 0 if plan is None else plan.samples


def groups_of_batch(chain: SavableDataset[Any]) -> int:
    """Return the number of planned groups of a micro-batch: of packs, several may make one."""
    groups, stage = 1, chain
    while not isinstance(stage, PlannedGroupsDataset | ReadDataset):
        groups *= stage.batch_size if isinstance(stage, BatchDataset) else 1
        stage = stage.inputs[0]
    return groups
