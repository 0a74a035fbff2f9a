"""The stretches of a run whose weights change: the share of each dataset by its weight, and the one it gets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...order import DealtOrder, EditedOrder
from .planned_run import PlannedRun

__all__ = ["StretchFacts", "first_step_with", "mean_shares", "scheduled_stretches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchFacts:
    """A part of a run whose weights change, in which they are constant.

    Attributes:
        steps: The first step, and the one after the last; fractions if the weights change within a step.
        shares_asked: For each dataset, its weight as a share of all.
        shares_got: For each dataset, its share of the samples of the stretch.
    """

    steps: tuple[float, float]
    shares_asked: tuple[float, ...]
    shares_got: tuple[float, ...]


def scheduled_stretches(run: PlannedRun, steps: int) -> tuple[StretchFacts, ...]:
    """Return the stretches of the first steps of a run; none if its weights do not change.

    The shares are those of positions of the order, samples that the split excludes included.
    """
    if run.plan.schedule is None:
        return ()
    schedule = run.plan.schedule.in_samples
    step_samples = run.batch_size * run.request.world_size
    end = steps * step_samples
    starts = [start for start in schedule.starts if start < end]
    if isinstance(run.order, EditedOrder):
        by_lane = np.array([schedule.lane_starts(lane, run.lanes)[: len(starts)] for lane in range(run.lanes)])
        counts = run.order.count(np.vstack([by_lane.T, run.positions(steps * run.request.world_size)]))
    else:
        counts = _count_dealt(run, [*starts, end])
    found = []
    for row, (start, stop) in enumerate(pairwise([*starts, end])):
        weights, got = np.array(schedule.weights[row]), counts[row + 1] - counts[row]
        found.append(
            StretchFacts(
                steps=(start / step_samples, stop / step_samples),
                shares_asked=tuple((weights / weights.sum()).tolist()),
                shares_got=tuple((got / max(1, got.sum())).tolist()),
            )
        )
    return tuple(found)


def first_step_with(run: PlannedRun, source: int, count: int, *, steps: int) -> int:
    """Return the first number of steps of a run whose weights change in which a dataset has so many samples.

    Args:
        run: The run.
        source: The number of the dataset.
        count: The samples, those that the split excludes included.
        steps: The steps of the run, returned if they have fewer.
    """
    size = run.batch_size * run.request.world_size

    def count_in(number: int) -> int:
        if isinstance(run.order, EditedOrder):
            return int(run.order.count(run.positions(number * run.request.world_size))[source])
        return int(_count_dealt(run, [number * size])[0, source])

    return 1 + bisect_left(range(1, steps), count, key=count_in)


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
