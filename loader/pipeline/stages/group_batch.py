"""Join samples with equal keys to micro-batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import inf
from typing import Any

from ...errors import ConfigError, RepeatedSampleError, SkipSample, plural
from ...samples.batching.collate import generic_batch
from ..contract.hook import BatchHook, Hook
from ..contract.item_id import ItemId, samples_in
from ..contract.lane import BufferedItem, Lane
from ..contract.rng import preserve_rng_state
from ..contract.running import StageTraits
from ..contract.stage import SKIPPED, Running, SavableDataset, State, T
from ..contract.state_schema import BUFFERED_ITEM
from ..contract.worker_config import WorkerConfig
from ..failures.policy import SKIP_TOLERANCE

_Group = tuple[int, list[BufferedItem]]  # the size of a batch, and its samples so far


class GroupBatchDataset(SavableDataset[T]):
    """Join samples with equal keys to batches.

    With a batch size of 2 and the first letter as the key, ``a1, b1, a2, a3`` become ``[a1, a2], [b1], [a3]``: a batch
    is yielded as soon as it is full. At the end of a lane, the other lanes of the worker complete its partial batches.
    At the end of a pass the partial batches follow, in the order of their first samples: at most one of each key.

    A state has the ids of the samples in partial batches, which are rebuilt after a restore.

    Args:
        dataset: The stage below.
        fixed_batch_size: Samples of a batch if ``sample_group_key`` returns no size.
        sample_group_key: Returns the key of a sample's batch, and the size of that batch, or None for the fixed size
            (``batch_group_criterion``). Both must depend on the sample alone. The first sample determines the size.
        batcher: Joins a list of samples to a batch; by default :func:`~loader.samples.batching.collate.generic_batch`.
        drop_last: Drop the partial batches at the end of a pass.
        failure_tolerance: Consecutive failures of ``batcher`` that end the run; by default the number set for it, or
            100.
        worker_config: By default the dataset's.
        batcher_stateless: Accepted for code written for megatron-energon, and ignored.
        batcher_config: As above.

    Raises:
        ConfigError: The batch size is below 1, or (while running) a sample's batch has no size.

    >>> config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    >>> photos = get_dataset_from_config("photos", split_part="train", training=False, worker_config=config).build()
    >>> groups = GroupBatchDataset(photos, 2, lambda sample: (len(sample.caption), None))
    >>> [batch.caption for batch in get_loader(groups)]
    [['a cat', 'a dog'], ['two cats'], ['a bird']]
    """

    entry_schema = list[list[BUFFERED_ITEM]]
    # Each sample may be of another group, so the number of batches is not known.
    traits = StageTraits(never_more=True, buffers=True, draws_random=True, ends="with_worker")

    def __init__(
        self,
        dataset: SavableDataset[Any],
        fixed_batch_size: int | None,
        sample_group_key: Callable[[Any], tuple[Hashable, int | None]],
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        drop_last: bool = False,
        failure_tolerance: int | None = None,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        batcher_stateless: bool = False,  # noqa: ARG002 - accepted for code written for megatron-energon
        batcher_config: Any = None,  # noqa: ARG002 - accepted for code written for megatron-energon
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        if fixed_batch_size is not None and fixed_batch_size < 1:
            raise ConfigError(f"expected a fixed_batch_size of at least 1, found {fixed_batch_size}")
        self.fixed_batch_size = fixed_batch_size
        self.sample_group_key = sample_group_key
        self.batcher = batcher
        self.drop_last = drop_last
        self.failure_tolerance = failure_tolerance
        self.size_metrics: Mapping[str, Callable[[Any], float]] = {}  # of its samples, for statistics

    def settings(self) -> dict[str, Any]:
        return {"fixed_batch_size": self.fixed_batch_size, "drop_last": self.drop_last}

    def open(self, lane: Lane, state: State) -> Running:
        return _GroupBatchRunning(self, lane, state)


class _GroupBatchRunning:
    def __init__(self, definition: GroupBatchDataset[Any], lane: Lane, state: State) -> None:
        self._batcher = BatchHook.opened(definition, lane, state, stage="batch")
        self._upstream = self._batcher.upstream
        self._upstream.release = self._release
        self._lane = lane
        self._fixed_size = definition.fixed_batch_size
        self._criterion = Hook(definition.sample_group_key, lane, stage="batch_group_criterion")
        self.load = self._batcher.load
        self._drops_last = definition.drop_last
        failures = lane.failures
        self._max_groups = inf if failures.skip_tolerance is None else max(SKIP_TOLERANCE, failures.samples)
        self._key = definition.key
        self._groups: dict[Hashable, _Group] = {}  # in the order of their first samples
        self._full: deque[_Group] = deque()  # joined from several lanes
        # A key can be any object, so a state cannot hold it: it is computed again when samples are needed.
        self._restored = [[BufferedItem.from_state(saved) for saved in group] for group in state.get(self._key, [])]

    def next(self) -> tuple[Any, ItemId]:
        while True:
            # Groups of a restored state, or of other lanes, come first: some of them may be full.
            if self._restored:
                self._rebuild_groups()
            if self._full:
                return self._batcher.join(self._full.popleft()[1])
            # Take the next item of the lane, or at its end of the other lanes; then join what they have in buffers.
            try:
                value, item_id = self._upstream.next()
            except StopIteration:
                if not self._groups and not self._upstream.shares_pass:
                    raise
                try:
                    value, item_id = self._upstream.next_of_others()
                except StopIteration:
                    self._restored = self._upstream.released_by_others()
                    if self._restored:
                        continue
                    return self._next_partial()
            if value is SKIPPED:
                continue
            # Add the item to its group, and yield the group once it is full.
            group = self._group_of(value, item_id)
            if group is None:
                continue
            key, size = group
            size, samples = self._groups.setdefault(key, (size, []))
            if len(self._groups) > self._max_groups:
                raise self._endless_groups(size)
            samples.append(BufferedItem(item_id, self._lane.context.batch_index, value))
            if len(samples) >= size:
                return self._batcher.join(self._groups.pop(key)[1])

    def _endless_groups(self, size: int) -> RepeatedSampleError:
        return RepeatedSampleError(
            f"{self._criterion.name} has returned {plural(len(self._groups), 'key')} in lane {self._lane.number} whose "
            f"batches are not full; the last one is to have {plural(size, 'sample')}",
            hint="return equal keys for samples of one batch, such as a size rounded to a multiple; to allow more, "
            "pass WorkerConfig(skip_tolerance=None)",
        )

    def _next_partial(self) -> tuple[Any, ItemId]:
        if self._drops_last or not self._groups:
            if self._groups:
                groups = plural(len(self._groups), "group")
                self._lane.failures.remainder = f"drop_last dropped {groups} of {self._criterion.name}, not full"
            self._groups.clear()
            raise StopIteration
        return self._batcher.join(self._groups.pop(next(iter(self._groups)))[1])

    def _group_of(self, value: Any, item_id: ItemId) -> tuple[Hashable, int] | None:
        """Return key and size of a sample's batch; None if the sample is skipped."""
        try:
            # A key that no dict accepts counts as a failure of the criterion.
            key, size = self._criterion.call(value, item_id)
            hash(key)
        except SkipSample:
            self._criterion.note_skipped(item_id)
            self._criterion.skips.add(samples_in(item_id))
            return None
        except Exception as error:
            self._criterion.failed(error, value, item_id)
            return None
        self._criterion.succeeded(value, item_id)
        self._criterion.skips.count = 0
        # The criterion may leave the size to the loader's argument.
        size = self._fixed_size if size is None else size
        if size is None or size < 1:
            raise ConfigError(
                f"expected a batch size of at least 1 for the group {key!r}, found {size}",
                hint="return (key, size) from batch_group_criterion, or (key, None) and pass a batch_size",
            )
        return key, size

    def _rebuild_groups(self) -> None:
        restored, self._restored = self._restored, []
        for samples in restored:
            # The first sample that can be rebuilt has the key of the whole group.
            for sample in samples:
                value = sample.value(self._upstream, self._lane)
                if value is SKIPPED:
                    continue
                with preserve_rng_state():
                    group = self._group_of(value, sample.item_id)
                if group is not None:
                    self._add(*group, samples)
                    break

    def _add(self, key: Hashable, size: int, samples: Sequence[BufferedItem]) -> None:
        size, group = self._groups.setdefault(key, (size, []))
        group.extend(samples)
        while len(group) >= size:
            self._full.append((size, group[:size]))
            del group[:size]
        if not group:
            del self._groups[key]

    def _release(self) -> list[list[BufferedItem]]:
        released = self._waiting()
        self._groups.clear()
        self._full.clear()
        self._restored = []
        return released

    def _waiting(self) -> list[list[BufferedItem]]:
        return [*self._restored, *(samples for _, samples in (*self._full, *self._groups.values()))]

    def state(self) -> State:
        state: State = self._upstream.state()
        groups = self._waiting()
        if groups:
            state[self._key] = [[sample.to_state() for sample in group] for group in groups]
        return state
