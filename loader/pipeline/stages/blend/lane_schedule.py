"""The weights of a blend in one lane, which change at steps or samples of the run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ....errors import StateError
from ...contract.lane import Lane
from ...reading.lane_samples import LaneSamples
from ...reading.planned_schedule import PlannedSchedule

_NEVER = 1 << 62


class LaneSchedule:
    """The schedule of a blend, as one lane follows it.

    An item has the step of the micro-batch for which it is made, so a change comes at the first micro-batch of its
    step, whatever the stages above skip or buffer. Samples are those that the readers of the lane have read.

    Args:
        planned: The schedule.
        lane: The lane.
    """

    def __init__(self, planned: PlannedSchedule, lane: Lane) -> None:
        self._weights = planned.weights
        self._context = lane.context
        self._samples: LaneSamples | None = None
        if planned.unit == "steps":
            self._starts = [start * planned.ranks for start in planned.starts]  # micro-batches of the run
        else:
            self._samples = lane.shared[LaneSamples]
            self._starts = planned.in_samples.lane_starts(lane.number, lane.count).tolist()
        self._end = -1  # of the stretch that :meth:`current` returned

    @property
    def _position(self) -> int:
        if self._samples is not None:
            return self._samples.read
        return self._context.batch_index or 0

    @property
    def last(self) -> int:
        """The number of the last stretch."""
        return len(self._starts) - 1

    @property
    def has_changed(self) -> bool:
        """True if the weights may be others than at the last call of :meth:`current`."""
        return self._position >= self._end

    def current(self) -> int:
        """Return the number of the stretch of the next item."""
        number = bisect_right(self._starts, self._position) - 1
        self._end = self._starts[number + 1] if number + 1 < len(self._starts) else _NEVER
        return number

    def checked(self, number: int) -> int:
        """Return the number of a stretch in a state.

        Raises:
            StateError: There is no such stretch.
        """
        if number >= len(self._starts):
            raise StateError(
                f"this state is damaged: it is in stretch {number} of a schedule of {len(self._starts)}",
                hint="restore another state",
            )
        return number

    def weights(self, number: int) -> Sequence[float]:
        """Return the weights in a stretch."""
        return self._weights[number]
