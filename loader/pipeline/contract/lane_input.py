"""The input of a stage that joins items: where a lane ends, the other lanes of the same worker follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...samples.hooks import set_hook_context
from .lane import LANE_ITEM, ItemId, Lane

if TYPE_CHECKING:
    from .buffered import BufferedItem
    from .stage import Running, SavableDataset, State

__all__ = ["LaneInput"]


class LaneInput:
    """The input of a stage that joins items: a running stage of one lane, and of the lanes that follow it.

    A lane of a pass may end while the stage has too few items for a batch. The stage then takes the items that are
    missing from the other lanes of its worker. Their ids have the form ``("lane", number, item id)``.

    Args:
        dataset: The stage below.
        lane: The lane.
        state: The lane's state.
        stage: The path and key of the stage that joins items.

    Attributes:
        number: The number of the lane.
        next: Returns the next item of the lane itself.
        state: Returns the state of the lane itself.
        release: Set by stages that buffer items between calls of ``next``: removes and returns these items.
    """

    __slots__ = (
        "_copies",
        "_current",
        "_dataset",
        "_following",
        "_lane",
        "_own",
        "_stage",
        "next",
        "number",
        "release",
        "state",
    )

    def __init__(self, dataset: SavableDataset[Any], lane: Lane, state: State, stage: str) -> None:
        self._dataset = dataset
        self._lane = lane
        self.number = lane.number
        self._stage = stage
        self._own: Running = dataset.open(lane, state)
        # The methods of the stage below, so that the samples of the lane itself cost no additional call.
        self.next = self._own.next
        self.state = self._own.state
        self.release: Callable[[], list[list[BufferedItem]]] = list
        self._following: Iterator[LaneInput] | None = None
        self._current: LaneInput | None = None
        self._copies: dict[int, Running] = {}  # of other lanes, to rebuild their items
        if lane.neighbours is not None:
            lane.neighbours.add(stage, self)

    def next_of_others(self) -> tuple[Any, ItemId]:
        """Return the next item of the other lanes of the worker.

        Raises:
            StopIteration: All of them have ended.
        """
        if self._following is None:
            self._following = self._others()
        while True:
            if self._current is None:
                self._current = next(self._following)
            try:
                value, item_id = self._current.next_for(self._lane)
            except StopIteration:
                self._current = None
                continue
            return value, (LANE_ITEM, self._current.number, item_id)

    def released_by_others(self) -> list[list[BufferedItem]]:
        """Remove and return the items that the same stage buffers in the other lanes of the worker."""
        taken = []
        for other in self._others():
            groups = other.release()
            if groups:
                other.note_change()
                taken += [[item.of_lane(other.number) for item in group] for group in groups]
        return taken

    def _others(self) -> Iterator[LaneInput]:
        neighbours = self._lane.neighbours
        return iter(()) if neighbours is None else neighbours.others(self._stage)

    def next_for(self, taker: Lane) -> tuple[Any, ItemId]:
        """Return the next item of this lane, for a micro-batch of another one."""
        lane = self._lane
        self.note_change()
        current, lane.context.batch_index = lane.context.batch_index, taker.context.batch_index
        set_hook_context(lane.context)
        try:
            return self.next()
        finally:
            lane.context.batch_index = current
            set_hook_context(taker.context)
            if taker.neighbours is not None:
                taker.last_sample.note_lane(taker.neighbours.number)

    def note_change(self) -> None:
        """Note that another lane took items of this one."""
        lane = self._lane
        if lane.neighbours is not None:
            lane.neighbours.note_change()
            lane.last_sample.note_lane(lane.neighbours.number)

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item, of this lane or of another one."""
        if isinstance(item_id, tuple) and item_id and item_id[0] == LANE_ITEM:
            _, number, item_id = item_id
            if number != self._lane.number:
                return self._copy(number).load(item_id)
        return self._own.load(item_id)

    def _copy(self, number: int) -> Running:
        if number not in self._copies:
            self._copies[number] = self._dataset.open(self._lane.sibling(number), {})
        return self._copies[number]
