"""Join items to micro-batches by a user's function."""

from __future__ import annotations

from typing import Any

from .hook import Hook
from .item_id import ItemId
from .lane import Lane, set_restore_key
from .stage import SKIPPED


class BatchMaker:
    """Joins items to micro-batches, and rebuilds one from its id.

    Args:
        batcher: The function.
        upstream: Rebuilds single items.
        lane: The lane.
        stage: Path and key of the stage.
    """

    def __init__(self, batcher: Hook, upstream: Any, lane: Lane, stage: str) -> None:
        self._batcher = batcher
        self._upstream = upstream
        self._lane = lane
        self._stage = stage

    def make(self, values: list[Any], item_ids: tuple[ItemId, ...]) -> tuple[Any, ItemId]:
        """Return the micro-batch of some items and its id; :data:`.SKIPPED` if there is none."""
        if not values:
            return SKIPPED, item_ids
        batch = self._batcher.attempt(values, item_ids)
        set_restore_key(batch, self._stage, self._lane, item_ids)
        return batch, item_ids

    def load(self, item_id: ItemId) -> Any:
        """Rebuild the micro-batch of an id; :data:`.SKIPPED` if none of its items is left."""
        loaded = [self._upstream.load(inner) for inner in item_id] if isinstance(item_id, tuple) else []
        values = [value for value in loaded if value is not SKIPPED]
        if not values:
            return SKIPPED
        batch = self._batcher.call(values, item_id)
        set_restore_key(batch, self._stage, self._lane, item_id)
        return batch


def batches_of(samples: int, batch_size: int, *, drop_last: bool) -> int:
    """Return the number of batches of a number of samples.

    >>> batches_of(10, 4, drop_last=False), batches_of(10, 4, drop_last=True)
    (3, 2)
    """
    return samples // batch_size if drop_last else -(-samples // batch_size)


def note_remainder(lane: Lane, stage: str, samples: int, batch_size: int) -> None:
    """Note the samples that ``drop_last`` of a stage drops."""
    if samples:
        lane.failures.remainder = f"drop_last of {stage} dropped {samples} samples, fewer than batch_size={batch_size}"
