"""Join items of similar cost to batches: fill a pool, sort it by cost, and cut it into batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ConfigError
from ...order import mix
from ...samples.batching.collate import generic_batch
from ..contract.hook import BatchHook, Hook
from ..contract.item_id import ItemId
from ..contract.lane import BufferedItem, Lane
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import BUFFERED_ITEM, COUNT, saved_dict
from ..contract.worker_config import WorkerConfig

_POOL = 41  # separates these random numbers from others


class SortPoolDataset(SavableDataset[T]):
    """Sort pools of items by cost, and yield batches of neighbours, in random order.

    A pool is filled from the stage below. Items of a batch have like costs, so little is padded. All lanes yield their
    batches of a pool in the same order of costs: the k-th batch of each rank has about the same cost, so that no rank
    waits long for the others. If a lane of a pass ends with fewer items than a batch, the other lanes of the same
    worker complete it, so at most one batch of a worker is short.

    Args:
        dataset: The stage below.
        pool_size: Items of a pool, a multiple of ``batch_size``. Each lane holds one pool.
        key: Returns the cost of an item, such as its number of tokens: a number.
        batch_size: Items of a batch.
        batcher: Makes a batch of a list of items; by default samples are padded and stacked.
        drop_last: Drop the short batch at the end of a pass.
        failure_tolerance: Consecutive failures of ``key`` or ``batcher`` that end the run.
        worker_config: By default the dataset's.

    Raises:
        ConfigError: A size is below 1, or ``pool_size`` is not a multiple of ``batch_size``.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> pools = SortPoolDataset(photos, 4, lambda sample: len(sample.caption), batch_size=2)
    >>> sorted(sorted(batch.caption) for batch in get_loader(pools))
    [['a bird', 'two cats'], ['a cat', 'a dog']]
    """

    entry_schema = saved_dict(pools=COUNT, batches=list[list[BUFFERED_ITEM]])

    def __init__(
        self,
        dataset: SavableDataset[Any],
        pool_size: int,
        key: Callable[[Any], float],
        *,
        batch_size: int,
        batcher: Callable[[list[Any]], T] = generic_batch,
        drop_last: bool = False,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        if batch_size < 1 or pool_size < 1 or pool_size % batch_size:
            raise ConfigError(
                f"expected a pool_size that is a multiple of batch_size, both at least 1, found {pool_size} and "
                f"{batch_size}",
                hint=f"pass pool_size={max(1, batch_size) * max(1, round(pool_size / max(1, batch_size)))}",
            )
        self.pool_size = pool_size
        self.batch_size = batch_size
        self.key_function = key
        self.batcher = batcher
        self.drop_last = drop_last
        self.failure_tolerance = failure_tolerance
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its items, for statistics

    @property
    def traits(self) -> StageTraits:
        return StageTraits(
            never_more=True,
            batches_of=self.batch_size,
            drop_last=self.drop_last,
            buffers=True,
            draws_random=True,
            ends="with_worker",
        )

    def settings(self) -> dict[str, Any]:
        return {"pool_size": self.pool_size, "batch_size": self.batch_size, "drop_last": self.drop_last}

    def open(self, lane: Lane, state: State) -> Running:
        return _SortPoolRunning(self, lane, state)


class _SortPoolRunning:
    def __init__(self, definition: SortPoolDataset[Any], lane: Lane, state: State) -> None:
        self._batcher = BatchHook.opened(definition, lane, state, stage="batcher")
        self._upstream = self._batcher.upstream
        self._upstream.release = self._release
        self._lane = lane
        self._key = definition.key
        self._name = definition.name
        self._depth = definition.depth
        self._pool_size, self._batch_size = definition.pool_size, definition.batch_size
        self._drops_last = definition.drop_last
        self._cost = Hook(definition.key_function, lane, failure_tolerance=definition.failure_tolerance, stage="key")
        self.load = self._batcher.load
        entry = state.get(self._key, {"pools": 0, "batches": []})
        self._pools: int = entry["pools"]
        self._batches = deque([BufferedItem.from_state(saved) for saved in batch] for batch in entry["batches"])

    def next(self) -> tuple[Any, ItemId]:
        if not self._batches:
            # In a repeated pass, a lane that has ended takes the pools of the others before it begins the next pass.
            self._batches.extend(
                self._pool() or (self._upstream.released_by_others() if self._upstream.shares_pass else ())
            )
        if not self._batches:
            raise StopIteration
        return self._batcher.join(self._batches.popleft())

    def _pool(self) -> list[list[BufferedItem]]:
        """Return the batches of the next pool; none at the end of the lane."""
        costs: list[float] = []
        items: list[BufferedItem] = []
        size, source_next, lane_ended = self._pool_size, self._upstream.next, False
        # Fill the pool. If the lane ends meanwhile, the others complete only its last batch.
        while len(items) < size:
            try:
                value, item_id = source_next()
            except StopIteration:
                if lane_ended:
                    break
                lane_ended, source_next = True, self._upstream.next_of_others
                size = len(items) + -len(items) % self._batch_size
                if not items and self._upstream.shares_pass:
                    size = self._batch_size
                continue
            cost = SKIPPED if value is SKIPPED else self._cost.attempt(value, item_id)
            if cost is not SKIPPED:
                costs.append(float(cost))
                items.append(BufferedItem(item_id, self._lane.context.batch_index, value))
        # Sort it, and cut it into batches.
        order = np.argsort(np.array(costs), kind="stable").tolist()
        starts = range(0, len(order), self._batch_size)
        batches = [[items[index] for index in order[start : start + self._batch_size]] for start in starts]
        if batches and len(batches[-1]) < self._batch_size and self._drops_last:
            self._lane.failures.note_remainder(self._name, len(batches.pop()), self._batch_size)
        return [batches[index] for index in self._shuffled(len(batches))]

    def _release(self) -> list[list[BufferedItem]]:
        released = [*self._batches]
        self._batches.clear()
        return released

    def _shuffled(self, count: int) -> Sequence[int]:
        """Return the order of the batches of a pool: the same on all lanes, so that ranks have like costs."""
        words = mix(self._lane.seed, _POOL, self._depth, self._pools, np.arange(count))
        self._pools += 1
        order: list[int] = np.argsort(words, kind="stable").tolist()
        return order

    def state(self) -> State:
        state: State = self._upstream.state()
        batches = [[item.to_state() for item in batch] for batch in self._batches]
        state[self._key] = {"pools": self._pools, "batches": batches}
        return state
