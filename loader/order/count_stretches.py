"""Count the samples of each source in many lanes of a mix whose weights change."""

from __future__ import annotations

import numpy as np

from ..arrays import IntArray
from .blend import BlendOrder
from .blend_lanes import count_in_lanes
from .lane_mixes import rounding_words, stretch_seed
from .weight_schedule import WeightSchedule, divide_stretches, quantise_scheduled_weights


def count_stretches(schedule: WeightSchedule, stops: IntArray, *, seed: int) -> IntArray:
    """Return the number of samples of each source in the first positions of all lanes together, for several stops.

    It is the sum of what ``LaneMixes.consumed`` returns for each lane, at a fraction of the time.

    Args:
        schedule: The schedule of the only mix.
        stops: For each lane, the number of its positions that count; shape (stops, lanes).
        seed: Seed of the run.

    Returns:
        Shape (stops, sources).
    """
    total = np.zeros((len(stops), schedule.counts.shape[1]), np.int64)
    last = len(schedule.starts) - 1  # the stretch without end
    words = rounding_words(seed, np.arange(last))
    in_last = np.zeros_like(stops)
    for lane, its_stops in enumerate(stops.T):
        starts = schedule.lane_starts(lane, stops.shape[1])
        rows = starts.searchsorted(its_stops, side="right") - 1
        ended = min(last, int(rows.max()) + 1)
        lengths = np.diff(starts)[:ended]
        divided = divide_stretches(schedule.counts[:ended], lengths, lane=lane, words=words[:ended])
        before = np.cumsum(divided, axis=0)
        total[rows > 0] += before[rows[rows > 0] - 1]
        rest = its_stops - starts[rows]
        in_last[rows == last, lane] = rest[rows == last]
        for place in np.flatnonzero((rows < last) & (rest > 0)).tolist():
            blend = BlendOrder(divided[rows[place]], lane=lane, seed=stretch_seed(seed, int(rows[place])))
            total[place] += blend.counts(int(rest[place]))
    counts = quantise_scheduled_weights(schedule.weights[-1])
    for place in np.flatnonzero(in_last.any(axis=1)).tolist():
        total[place] += count_in_lanes(counts, stops=in_last[place], seed=stretch_seed(seed, last))
    return total
