"""The weights of a blend in one lane that change at steps or samples of the run, and the count of these samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from ...errors import StateError
from ..contract.item_id import ItemId
from ..contract.lane import Lane
from ..contract.running import Running, RunningFunctions, State
from .planned_schedule import PlannedSchedule

_NEVER = 1 << 62


class LaneSchedule:
    """The schedule of a blend, as one lane follows it.

    An item has the step of the micro-batch for which it is made, so a change comes at the first micro-batch of its
    step, whatever the stages above skip or buffer. Samples are those that the readers of the lane have read.
    """

    def __init__(self, planned: PlannedSchedule, lane: Lane) -> None:
        self.weights = planned.weights  # of each stretch
        self._context = lane.context
        self._samples: LaneSamples | None = None
        if planned.unit == "steps":
            self._starts = [start * planned.ranks for start in planned.starts]  # micro-batches of the run
        else:
            self._samples = lane.shared[LaneSamples]
            self._starts = planned.in_samples.lane_starts(lane.number, lane.count).tolist()
        self.last = len(planned.starts) - 1  # the number of the last stretch
        self._end = -1  # of the stretch that :meth:`current` returned

    @property
    def _position(self) -> int:
        if self._samples is not None:
            return self._samples.read
        return self._context.batch_index or 0

    @property
    def has_changed(self) -> bool:
        """True if the weights may be others than at the last call of :meth:`current`."""
        return self._position >= self._end

    def current(self) -> int:
        stretch = bisect_right(self._starts, self._position) - 1
        self._end = self._starts[stretch + 1] if stretch + 1 < len(self._starts) else _NEVER
        return stretch

    def checked(self, stretch: int) -> int:
        if stretch >= len(self._starts):
            raise StateError(
                f"this state is damaged: it is in stretch {stretch} of a schedule of {len(self._starts)}",
                hint="restore another state",
            )
        return stretch


_READ = "read"


class LaneSamples:
    """The samples of a lane so far, excluded and skipped ones included."""

    def __init__(self, read: int) -> None:
        self.read = read

    @classmethod
    def begin(cls, lane: Lane, entry: Mapping[str, Any]) -> LaneSamples:
        """Begin to count, from the state of the outermost blend: by its count, or by the positions of its readers."""
        samples = lane.shared[cls] = cls(entry.get(_READ, _positions(entry)))
        return samples


def _positions(state: Mapping[str, Any]) -> int:
    return sum(
        _positions(value)
        if isinstance(value, Mapping)
        else value
        if key.endswith(f" {_READ}") and type(value) is int
        else 0
        for key, value in state.items()
    )


def counted_reader(reader: Any, samples: LaneSamples) -> Running:
    """Count the samples of a running reader; its ``position`` is the next sample's."""

    def next_counted() -> tuple[Any, ItemId]:
        before = reader.position
        try:
            item: tuple[Any, ItemId] = reader.next()
        finally:
            samples.read += reader.position - before
        return item

    return RunningFunctions(next_counted, reader.state, reader.load)


def counted_blend(blend: Running, key: str, samples: LaneSamples) -> Running:
    """Add the count to the state of the outermost blend of a lane."""

    def state() -> State:
        saved = blend.state()
        return saved | {key: {_READ: samples.read} | saved[key]}

    return RunningFunctions(blend.next, state, blend.load)
