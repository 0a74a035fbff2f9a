"""The iterator that a stage opens for a lane, and the placeholder of skipped items."""

from __future__ import annotations

from typing import Any, Final, Protocol

from .item_id import ItemId

State = dict[str, Any]
"""Plain data: dicts, lists, str, int, float, bool, None."""


class _Skipped:
    """Placeholder for a skipped item, which keeps the positions of later items known."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SKIPPED"

    def __reduce__(self) -> str:
        return "SKIPPED"  # unpickled as the object of the reading process


SKIPPED: Final = _Skipped()
"""Stages that map items pass it on; stages that join items drop it."""


class Running(Protocol):
    """Iterator of a stage over one lane."""

    def next(self) -> tuple[Any, ItemId]:
        """Return the next item, or :data:`SKIPPED`, and its id.

        Raises:
            StopIteration: The pass is over; raised again by each further call.
        """

    def state(self) -> State:
        """Return the state from which ``open`` resumes: one entry for each stage of the chain that has state."""

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item that this stage returned before; return :data:`SKIPPED` if it is skipped."""
