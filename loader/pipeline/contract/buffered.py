"""Samples in the buffers of stages: a state holds their ids, and a restored stage rebuilds them when it needs them."""

from __future__ import annotations

from typing import Any, Final

from ...errors import EnergonError, SkipSample
from .item_id import LANE_ITEM, ItemId, as_item_id, integers_of, plain_item_id
from .lane import Lane
from .rng import preserve_rng_state, seed_sample
from .running import SKIPPED

_NOT_BUILT: Final = object()
_LOST: Final = "lost items"


class BufferedItem:
    """An item in a buffer.

    Args:
        item_id: Its id.
        batch: The micro-batch during which it was made; hooks that rebuild it see the same.
        value: The item; omitted if it has to be rebuilt.
    """

    __slots__ = ("_value", "batch", "item_id")

    def __init__(self, item_id: ItemId, batch: int | None, value: Any = _NOT_BUILT) -> None:
        self.item_id = item_id
        self.batch = batch
        self._value = value

    @classmethod
    def from_state(cls, saved: Any) -> BufferedItem:
        """Create an item from the result of :meth:`to_state`."""
        item_id, batch = saved
        return cls(as_item_id(item_id), batch)

    def to_state(self) -> list[Any]:
        """Return the item's id and micro-batch as plain data."""
        return [plain_item_id(self.item_id), self.batch]

    def of_lane(self, number: int) -> BufferedItem:
        """Return the item with the id that it has in other lanes than its own."""
        item_id = self.item_id
        if not (isinstance(item_id, tuple) and item_id and item_id[0] == LANE_ITEM):
            item_id = (LANE_ITEM, number, item_id)
        return BufferedItem(item_id, self.batch, self._value)

    def value(self, upstream: Any, lane: Lane) -> Any:
        """Return the item; :data:`SKIPPED` if it cannot be rebuilt and the error is tolerated.

        Args:
            upstream: The stage that made it.
            lane: The lane.
        """
        if self._value is _NOT_BUILT:
            context = lane.context
            current, context.batch_index = context.batch_index, self.batch
            try:
                self._value = rebuild_item(upstream, lane, self.item_id)
            finally:
                context.batch_index = current
        return self._value


def rebuild_item(upstream: Any, lane: Lane, item_id: ItemId) -> Any:
    """Rebuild an item, and restore the random generators; return :data:`SKIPPED` if a failure is tolerated.

    Raises:
        Exception: An error that ``restore_error_handler`` raises.
    """
    with preserve_rng_state(), lane.context.seeded_rng(lane.seed, lane.number, *integers_of(item_id)):
        seed_sample(lane.seed, lane.number, item_id)
        try:
            return upstream.load(item_id)
        except SkipSample:
            return SKIPPED
        except Exception as error:
            if not isinstance(error, EnergonError):
                error.add_note(
                    f"This happened while item {plain_item_id(item_id)} of lane {lane.number} was rebuilt for a "
                    "restored state. If no hook raised it, the state is damaged: restore an earlier one."
                )
            lane.failures.failed_to_rebuild(error)
            return SKIPPED


def note_lost_item(lane: Lane) -> None:
    """Note that an item cannot be rebuilt, since its dataset left the mix."""
    lane.shared[_LOST] = lost_items(lane) + 1


def lost_items(lane: Lane) -> int:
    """Return the number of items that could not be rebuilt, since their datasets left the mix."""
    found: int = lane.shared.get(_LOST, 0)
    return found
