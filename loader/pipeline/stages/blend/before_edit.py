"""Refuse to make the micro-batches of a lane from before a change of its mix."""

from __future__ import annotations

from typing import Any, NoReturn

from ....errors import StateError
from ...contract.item_id import ItemId
from ...contract.running import Running, State


class BeforeEdit:
    """Iterator of a lane that had begun when the mix changed, opened without its state: it rebuilds items only.

    Args:
        blend: The running blend.
    """

    def __init__(self, blend: Running) -> None:
        self._blend = blend

    def next(self) -> NoReturn:
        """Refuse to choose: the volumes and positions at the change are not known.

        Raises:
            StateError: Always.
        """
        raise StateError(
            "the mix of this run changed, and its blends choose by what they counted: micro-batches between that "
            "change and the state, and those before, cannot be rebuilt",
            hint="use the folder of the loader's trace_dir, or a state from before that change with the documents of "
            "that time",
        )

    def state(self) -> State:
        """Return the state of the blend."""
        return self._blend.state()

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item."""
        return self._blend.load(item_id)
