"""Samples joined to micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import ConfigError
from ..samples.collate import generic_batch
from ..samples.default_hook import is_library_hook
from .hook import Hook
from .lane import Lane
from .ref import Ref
from .restore_key import stamp
from .stage import SKIPPED, Running, SavableDataset, State
from .worker_config import WorkerConfig

__all__ = ["BatchDataset"]

T = TypeVar("T")


class BatchDataset(SavableDataset[T]):
    """Join items to batches.

    ``BatchDataset([a, b, c], 2, batcher=f)`` gives ``f([a, b]), f([c])``.

    Args:
        dataset: What gives the items.
        batch_size: B, items of a batch.
        batcher: Makes a batch of a list of items; by default
            :func:`~loader.samples.collate.generic_batch`.
        drop_last: Leave out a last batch of fewer than B items.
        at_positions: Batch ``b`` of a lane is what is left of the positions ``[b·B, (b+1)·B)`` of its stream: an item
            that was left out makes its batch smaller. Otherwise the next item takes its place.
        worker_config: By default the dataset's.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        batch_size: int,
        batcher: Callable[[list[Any]], T] = generic_batch,
        *,
        drop_last: bool = False,
        at_positions: bool = False,
        name: str | None = None,
        worker_config: WorkerConfig | None = None,
        **_unused: Any,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name=name)
        if batch_size < 1:
            raise ConfigError(f"expected a batch_size of at least 1, found {batch_size}")
        self.batch_size = batch_size
        self.batcher = batcher
        self.drop_last = drop_last
        self.at_positions = at_positions

    @property
    def keeps_positions(self) -> bool:
        return self.at_positions and self.sources[0].keeps_positions

    @property
    def runs_user_code(self) -> bool:
        return not is_library_hook(self.batcher) or self.sources[0].runs_user_code

    @property
    def items(self) -> int | None:
        samples = self.sources[0].items
        if samples is None or not self.keeps_positions:
            return None
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def settings(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "drop_last": self.drop_last}

    def open(self, lane: Lane, state: State) -> Running:
        return _BatchRunning(self, lane, state)


class _BatchRunning:
    def __init__(self, definition: BatchDataset[Any], lane: Lane, state: State) -> None:
        self._source = definition.sources[0].open(lane, state)
        self._lane = lane
        self._size = definition.batch_size
        self._hook = Hook(definition.batcher, lane)
        self._drops_last = definition.drop_last
        self._at_positions = definition.at_positions
        self._key = definition.key
        self._stage = lane.path + definition.key
        self._number = state.get(self._key, 0)  # of the next batch, where batches are at positions
        self.state = self._state_of_positions if self._at_positions else self._source.state

    def next(self) -> tuple[Any, Ref]:
        values, refs = self._take_at_positions() if self._at_positions else self._take()
        return self._joined(values, refs)

    def _take(self) -> tuple[list[Any], tuple[Ref, ...]]:
        values: list[Any] = []
        refs: list[Ref] = []
        source_next = self._source.next
        size = self._size
        while len(values) < size:
            try:
                value, ref = source_next()
            except StopIteration:
                if not values or self._drops_last:
                    raise
                break
            if value is not SKIPPED:
                values.append(value)
                refs.append(ref)
        return values, tuple(refs)

    def _take_at_positions(self) -> tuple[list[Any], tuple[Ref, ...]]:
        values: list[Any] = []
        refs: list[Ref] = []
        last = (self._number + 1) * self._size - 1
        ref: Ref = -1
        while ref != last:  # what a generator makes of the last one has other refs: it is all in the batch
            try:
                value, ref = self._source.next()
            except StopIteration:
                if ref == -1 or self._drops_last:
                    raise
                break
            if value is not SKIPPED:
                values.append(value)
                refs.append(ref)
        self._number += 1
        return values, tuple(refs)

    def _joined(self, values: list[Any], refs: tuple[Ref, ...]) -> tuple[Any, Ref]:
        if not values:
            return SKIPPED, refs
        batch = self._hook.attempt(values, refs)
        stamp(batch, self._stage, self._lane, refs)
        return batch, refs

    def _state_of_positions(self) -> State:
        return self._source.state() | {self._key: self._number}

    def load(self, ref: Ref) -> Any:
        values = [self._source.load(inner) for inner in ref] if isinstance(ref, tuple) else []
        batch = self._hook.call([value for value in values if value is not SKIPPED], ref)
        stamp(batch, self._stage, self._lane, ref)
        return batch
