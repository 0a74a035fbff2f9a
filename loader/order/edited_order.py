"""An endless order whose sources or weights change while it runs: each source that stays continues its own stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import IntArray
from ..cached_property import cached_property
from ..errors import StateError, plural
from .blend import BlendOrder, count_in_lanes
from .lane_mixes import (
    GONE,
    LaneMixes,
    Mix,
    WeightSchedule,
    divide_stretches,
    quantise_scheduled_weights,
    rounding_words,
    stretch_seed,
)
from .source_order import SourceOrder, SourceOrders
from .stream_order import Located, check_lane, check_range, locate_scattered


@dataclass(frozen=True, slots=True, kw_only=True)
class MixHistory:
    """The mixes of a run before its present one.

    Attributes:
        earlier: The mixes, the first one first.
        origins: For each source of the present mix, its number in all mixes.
        ends: For each earlier mix, the position at which it ended: lane → position, for the lanes that had begun.
        batches: For each earlier mix, the next micro-batch of the run at its end.
    """

    earlier: tuple[Mix, ...]
    origins: tuple[int, ...]
    ends: tuple[Mapping[int, int], ...]
    batches: tuple[int, ...]

    def mixes(self, weights: Sequence[float], schedule: WeightSchedule | None = None) -> tuple[Mix, ...]:
        """Return all mixes; the weights and the schedule belong to the present one."""
        return (*self.earlier, Mix(self.origins, tuple(weights), schedule))

    @property
    def first_sources(self) -> list[int]:
        """The numbers in the present mix of the sources that the first mix had."""
        first = self.earlier[0].origins
        return [row for row, origin in enumerate(self.origins) if origin in first]

    def ends_of(self, lane: int) -> tuple[int, ...]:
        ends = []
        for positions, batch in zip(self.ends, self.batches, strict=True):
            # A lane that had begun before the change continues from where it was.
            if lane not in positions and lane < batch:
                raise StateError(
                    f"the mix of datasets changed, and the position of lane {lane} at that change is not known on this "
                    "rank",
                    hint="restore the states of all ranks by restore_state_global()",
                )
            ends.append(positions.get(lane, 0))
        return tuple(ends)


@dataclass(frozen=True)
class EditedOrder:
    """Sources that repeat without end, blended by weights that change at some positions.

    Args:
        sources: The sources of the last mix, with the seeds of their origins.
        mixes: The first one first.
        lanes: Number of lanes of the run.
        seed: Seed of the run.

    Raises:
        ValueError: The last mix has another number of sources.

    >>> source = SourceOrder(samples=6, slice_length=2)
    >>> order = EditedOrder((source,), (Mix((0, 1), (1, 1)), Mix((0,), (1,))), lanes=1, seed=0)
    >>> order.lane(0, ends=(8,)).locate(8, 12)[0].tolist()
    [0, 0, 0, 0]
    """

    sources: tuple[SourceOrder, ...]
    mixes: tuple[Mix, ...]
    lanes: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.mixes[-1].origins):
            raise ValueError(f"expected {plural(len(self.mixes[-1].origins), 'source')}, found {len(self.sources)}")

    @property
    def batches(self) -> None:
        """None, because the order is endless."""

    def lane(self, lane: int, ends: Sequence[int] = ()) -> EditedLane:
        """Return the stream of a lane.

        Raises:
            ValueError: The ends are not ascending positions, one for each earlier mix.
        """
        check_lane(lane, self.lanes)
        mixes = LaneMixes(self.mixes, lane=lane, lanes=self.lanes, seed=self.seed, ends=ends)
        return EditedLane(mixes, self._streams)

    def count(self, stops: IntArray) -> IntArray:
        """Return the number of samples of each source in the first positions of all lanes together.

        Args:
            stops: For each lane, the number of its positions that count; shape (stops, lanes).

        Returns:
            Shape (stops, sources).

        Raises:
            ValueError: There are several mixes, or the weights do not change.
        """
        if len(self.mixes) > 1 or self.mixes[0].schedule is None:
            raise ValueError(f"expected one mix whose weights change, found {len(self.mixes)}")
        return count_stretches(self.mixes[0].schedule, stops, seed=self.seed)

    @cached_property
    def _streams(self) -> SourceOrders:
        return SourceOrders(self.sources, self.lanes)


class EditedLane:
    """The stream of a lane: stretches of one or several mixes, the last one without end."""

    length = None

    def __init__(self, mixes: LaneMixes, streams: SourceOrders) -> None:
        self._number = mixes.number
        self._mixes = mixes
        self._streams = streams

    def locate(self, start: int, stop: int) -> Located:
        """Return the samples at the positions ``[start, stop)``; a source that is ``GONE`` has sample 0.

        Raises:
            ValueError: Not ``0 <= start <= stop``.
        """
        check_range(start, stop, None)
        source, position = self._mixes.locate(start, stop)
        if start >= self._mixes.parts[-1].start:
            return source, *self._streams.locate(source, self._number, position)
        is_gone = source == GONE
        located = self._streams.locate(np.where(is_gone, 0, source), self._number, position)
        epoch, sample = (np.where(is_gone, 0, column) for column in located)
        return source, epoch, sample

    def locate_at(self, at: IntArray) -> Located:
        """Return the samples at some positions of a mix that never changed, in ascending order; shape (m,)."""
        source, position = locate_scattered(at, self._mixes.parts[-1].locate) if len(at) else (at, at)
        return source, *self._streams.locate(source, self._number, position)


def count_stretches(schedule: WeightSchedule, stops: IntArray, *, seed: int) -> IntArray:
    """Return the number of samples of each source in the first positions of all lanes together, for several stops.

    It is the sum of what ``LaneMixes.consumed`` returns for each lane, at a fraction of the time.

    Args:
        stops: For each lane, the number of its positions that count; shape (stops, lanes).

    Returns:
        Shape (stops, sources).
    """
    total = np.zeros((len(stops), schedule.counts.shape[1]), np.int64)
    last = len(schedule.starts) - 1  # the stretch without end
    words = rounding_words(seed, np.arange(last))
    in_last = np.zeros_like(stops)
    # Lanes start their stretches at different positions, so count lane by lane.
    for lane, its_stops in enumerate(stops.T):
        starts = schedule.lane_starts(lane, stops.shape[1])
        rows = starts.searchsorted(its_stops, side="right") - 1
        ended = min(last, int(rows.max()) + 1)
        lengths = np.diff(starts)[:ended]
        divided = divide_stretches(schedule.counts[:ended], lengths, lane=lane, words=words[:ended])
        # Stretches that ended count as a whole.
        before = np.cumsum(divided, axis=0)
        total[rows > 0] += before[rows[rows > 0] - 1]
        # Of the stretch in which a lane stops, count the positions that came; the last stretch follows below.
        rest = its_stops - starts[rows]
        in_last[rows == last, lane] = rest[rows == last]
        for lane_row in np.flatnonzero((rows < last) & (rest > 0)).tolist():
            blend = BlendOrder(divided[rows[lane_row]], lane=lane, seed=stretch_seed(seed, int(rows[lane_row])))
            total[lane_row] += blend.counts(int(rest[lane_row]))
    # The last stretch has one blend for all lanes, which are counted together.
    counts = quantise_scheduled_weights(schedule.weights[-1])
    for lane_row in np.flatnonzero(in_last.any(axis=1)).tolist():
        total[lane_row] += count_in_lanes(counts, stops=in_last[lane_row], seed=stretch_seed(seed, last))
    return total


# An order that is not shuffled, dealt to the lanes: the sequence of the run is that of the sources.
