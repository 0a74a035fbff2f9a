"""The lanes of a worker, which complete each other's last batch of a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Protocol

from ...pipeline.contract.running import State


class HostedLane(Protocol):
    """A lane that runs in this worker."""

    @property
    def number(self) -> int:
        """The lane."""

    def registered(self, stage: str) -> Any:
        """Return what a stage of this lane registered, opened for another lane; None if the lane has no such stage."""

    def state(self) -> State:
        """Return the state of the lane after its last micro-batch."""


class WorkerNeighbours:
    """The lanes of a worker, seen from one of them.

    Args:
        number: The lane.
        changed: The lanes whose samples were taken by others since the last message; shared by all lanes.
        lanes: The other lanes.
    """

    def __init__(self, number: int, changed: set[int], lanes: Sequence[HostedLane]) -> None:
        self.number = number
        self.registered: dict[str, Any] = {}
        self._changed = changed
        self._lanes = lanes
        self.count = len(lanes)

    def add(self, stage: str, own: Any) -> None:
        """Register the input of a stage of this lane, or a stage that opens one of several inputs at a time."""
        self.registered[stage] = own

    def reach(self, stage: str) -> Any:
        """Return what a stage of this lane registered, opened if the lane may already yield its items."""
        if stage not in self.registered:
            path = ""
            for place in takewhile(str.isdecimal, stage.split("/")):
                if path in self.registered:
                    self.registered[path].reach(int(place))
                path += f"{place}/"
        return self.registered.get(stage)

    def others(self, stage: str) -> Iterator[Any]:
        """Yield what the same stage registered in the other lanes, each opened when it is reached."""
        for lane in self._lanes:
            found = lane.registered(stage)
            if found is not None:
                yield found

    def note_change(self) -> None:
        """Note that another lane took items of this one, so that both states are sent."""
        self._changed.add(self.number)

    def changed_states(self) -> dict[int, State] | None:
        """Return the states of the other lanes whose samples were taken since the last call; None if there are none."""
        if not self._changed:
            return None
        states = {lane.number: lane.state() for lane in self._lanes if lane.number in self._changed}
        self._changed.clear()
        return states
