"""Samples that wait in a buffer: a state names them, and after a restore they are made again when their turn comes."""

from __future__ import annotations

from typing import Any, Final

from ...errors import SkipSample
from .lane import ItemId, Lane, as_item_id, plain_item_id
from .rng import preserve_rng_state, seed_sample
from .stage import SKIPPED, Running

__all__ = ["BufferedItem", "rebuild_item"]

_NOT_MADE: Final = object()


class BufferedItem:
    """A sample in a buffer.

    Args:
        ref: What names it.
        batch: The micro-batch for which it was made, as hooks saw it.
        value: The sample itself; left out where it is to be made again.
    """

    __slots__ = ("_value", "batch", "item_id")

    def __init__(self, item_id: ItemId, batch: int | None, value: Any = _NOT_MADE) -> None:
        self.item_id = item_id
        self.batch = batch
        self._value = value

    @classmethod
    def of_state(cls, saved: Any) -> BufferedItem:
        """Read what :meth:`to_state` gave."""
        item_id, batch = saved
        return cls(as_item_id(item_id), batch)

    def to_state(self) -> list[Any]:
        """Give what a state holds of it."""
        return [plain_item_id(self.item_id), self.batch]

    def value(self, source: Running, lane: Lane) -> Any:
        """Give the sample; :data:`SKIPPED` where it could not be made again and that is tolerated.

        Args:
            source: What gave it.
            lane: The lane.
        """
        if self._value is _NOT_MADE:
            context = lane.context
            now, context.batch_index = context.batch_index, self.batch
            try:
                self._value = rebuild_item(source, lane, self.item_id)
            finally:
                context.batch_index = now
        return self._value


def rebuild_item(source: Running, lane: Lane, item_id: ItemId) -> Any:
    """Make an item again without moving the random generators; :data:`SKIPPED` where that fails and is tolerated.

    Raises:
        Exception: What ``restore_error_handler`` raises for an item that fails.
    """
    with preserve_rng_state():
        seed_sample(lane.seed, lane.number, item_id)
        try:
            return source.load(item_id)
        except SkipSample:
            return SKIPPED
        except Exception as error:
            lane.restore_error_handler(error, None, item_id)
            return SKIPPED
