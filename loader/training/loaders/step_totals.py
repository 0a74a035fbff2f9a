"""The planned totals of a step over all ranks, computed without a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ...errors import ConfigError
from ...order import PlannedLane
from ...pipeline.stages.batch import groups_of_batch, planning_reader
from ..states.run_state import ENDLESS

if TYPE_CHECKING:
    from .run import LoaderRun

_Floats = npt.NDArray[np.float64]


class StepTotals:
    """The planned samples and costs of the steps of a run.

    Each lane keeps the groups of one window, so that steps that follow one another plan each window once.

    Args:
        run: The run.

    Raises:
        ConfigError: The run plans nothing, or has no steps that all ranks make together.
    """

    def __init__(self, run: LoaderRun) -> None:
        if run.lanes.kind != ENDLESS:
            raise ConfigError(
                "expected a training dataset without end: the steps of a pass differ between ranks",
                hint="build the dataset with get_train_dataset(…, repeat=True)",
            )
        self.run = run
        self.chain = run.chain
        self._reader, plan = planning_reader(run.chain)
        self._groups = groups_of_batch(run.chain)
        self._names = ("samples", *plan.formulas)
        self._lanes: dict[int, _LaneGroups] = {}

    def of(self, step: int, *, accumulate: int = 1) -> dict[str, float]:
        """Return the planned totals of a step, or of several from it on.

        Args:
            step: Number of the step, counted from 0 at the beginning of the run.
            accumulate: Steps that an optimizer step sums.

        Returns:
            ``"samples"``, and the sum of each cost, over all ranks.

        Raises:
            ConfigError: The step is below 0, or ``accumulate`` below 1.
        """
        if step < 0 or accumulate < 1:
            raise ConfigError(f"expected a step of at least 0 and accumulate of at least 1, found {step}, {accumulate}")
        lanes, total = self.run.lanes.lanes, np.zeros(len(self._names))
        for each in range(step, step + accumulate):
            for batch in self.run.numbering.batches(each):
                first = batch // lanes * self._groups
                total += self._lane(batch % lanes).sum_of(first, first + self._groups)
        return dict(zip(self._names, total.tolist(), strict=True))

    def _lane(self, lane: int) -> _LaneGroups:
        known = self._lanes.get(lane)
        if known is None:
            seed = self.chain.worker_config.seed_offset
            order = self._reader.lane_order(lane, lanes=self.run.lanes.lanes, seed=seed)
            known = self._lanes[lane] = _LaneGroups(cast("PlannedLane", order))
        return known


class _LaneGroups:
    """The samples and costs of the groups of a lane, of the window that was measured last."""

    def __init__(self, order: PlannedLane) -> None:
        self._order = order
        self._firsts = [0]  # number of the first group of each window
        self._window = -1
        self._sums: _Floats = np.empty((0, 1))  # shape (groups, 1 + costs)

    def sum_of(self, first: int, stop: int) -> _Floats:
        """Return the sums of the samples and costs of some groups, shape (1 + costs,)."""
        total: _Floats = np.zeros(1)
        group = first
        while group < stop:
            self._find(group)
            start = self._firsts[self._window]
            some = self._sums[group - start : stop - start]
            total = total + some.sum(axis=0)
            group += len(some)
        return total

    def _find(self, group: int) -> None:
        """Measure the window that has a group."""
        if self._window >= 0 and self._firsts[self._window] <= group < self._firsts[self._window] + len(self._sums):
            return
        window = max(index for index, first in enumerate(self._firsts) if first <= group)
        while True:
            self._measure(window)
            if group < self._firsts[window] + len(self._sums):
                return
            window += 1

    def _measure(self, window: int) -> None:
        _, costs = self._order.before(window)
        is_left_out = self._order.is_left_out(costs)
        groups = [group for group in self._order.groups(window, costs) if not is_left_out[group[0]]]
        counted = np.column_stack([np.ones(len(costs)), costs])
        self._sums = np.array([counted[group].sum(axis=0) for group in groups]).reshape(len(groups), -1)
        self._window = window
        if len(self._firsts) == window + 1:
            self._firsts.append(self._firsts[window] + len(groups))
