"""The stretches of a run whose weights change: the share of each dataset by its weight, and the one it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...order import DealtOrder, EditedOrder
from .planned_run import PlannedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchFacts:
    """A part of a run whose weights change, in which they are constant.

    Attributes:
        steps: The first step, and the one after the last; fractions if the weights change within a step.
        shares_asked: For each dataset, its weight as a share of all: of the samples, or of the volume below a
            ``blend_weight_unit``.
        used: For each dataset, its samples in the stretch, those that the split excludes included.
    """

    steps: tuple[float, float]
    shares_asked: tuple[float, ...]
    used: tuple[int, ...]

    @property
    def shares_got(self) -> tuple[float, ...]:
        """For each dataset, its share of the samples of the stretch."""
        return tuple(used / max(1, sum(self.used)) for used in self.used)


def scheduled_stretches(run: PlannedRun, steps: int) -> tuple[StretchFacts, ...]:
    """Return the stretches of the first steps of a run; none if its weights do not change."""
    if run.plan.schedule is None:
        return ()
    schedule = run.plan.schedule.in_samples
    step_samples = run.batch_size * run.request.world_size
    end = steps * step_samples
    starts = [start for start in schedule.starts if start < end]
    if isinstance(run.order, EditedOrder):
        by_lane = np.array([schedule.lane_starts(lane, run.lanes)[: len(starts)] for lane in range(run.lanes)])
        ends = run.positions(steps * run.request.world_size)
        # Of a short run, some lanes end before they reach the later stretches.
        counts = run.order.count(np.vstack([np.minimum(by_lane.T, ends), ends]))
    else:
        counts = _count_dealt(run, [*starts, end])
    asked = schedule.weights if run.volume_mix is None else run.volume_mix.volumes_of_stretches
    found = []
    for row, (start, stop) in enumerate(pairwise([*starts, end])):
        weights, got = np.array(asked[row]), counts[row + 1] - counts[row]
        found.append(
            StretchFacts(
                steps=(start / step_samples, stop / step_samples),
                shares_asked=tuple((weights / weights.sum()).tolist()),
                used=tuple(got.tolist()),
            )
        )
    return tuple(found)


def step_of_count(stretches: Sequence[StretchFacts], source: int, count: int) -> int:
    """Return the number of steps in which a dataset has so many samples, to within a block of the blend.

    Args:
        stretches: The stretches of the run, in which it has as many.
        source: The number of the dataset.
        count: The samples, those that the split excludes included.
    """
    before = 0
    for one in stretches:
        start, stop = one.steps
        if one.used[source] and before + one.used[source] >= count:
            return ceil(start + (count - before) / one.used[source] * (stop - start))
        before += one.used[source]
    return ceil(stretches[-1].steps[1])


def _count_dealt(run: PlannedRun, samples: Sequence[int]) -> IntArray:
    """Return the samples of each dataset among the first ones of a run that is not shuffled, for several numbers."""
    order = run.order
    if not isinstance(order, DealtOrder) or not isinstance(order.inner, EditedOrder):
        raise ConfigError("expected the order of a run whose weights change", at=run.request.path)
    return order.inner.count(np.array(samples)[:, None])


def mean_shares(stretches: Sequence[StretchFacts]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the mean share of each dataset by its weights, over all steps of a run."""
    lengths = [stop - start for start, stop in (one.steps for one in stretches)]
    return np.average([one.shares_asked for one in stretches], axis=0, weights=lengths)
