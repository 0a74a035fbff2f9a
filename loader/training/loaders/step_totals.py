"""The planned totals of a step over all ranks, computed without a message."""

from __future__ import annotations

from bisect import bisect_right
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
        self.restored = run.restored_lanes
        self._lanes: dict[tuple[int, int], _LaneGroups] = {}  # by lane, and its micro-batches before the first group

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
                lane_batch, lane = divmod(batch, lanes)
                first = lane_batch * self._groups
                total += self._lane(lane, lane_batch).sum_of(first, first + self._groups)
        return dict(zip(self._names, total.tolist(), strict=True))

    def _lane(self, lane: int, lane_batch: int) -> _LaneGroups:
        """Return the groups of a lane: from its restored state on, or from the beginning for earlier micro-batches."""
        # If a rank knows only its own lanes, it counts as the others do.
        state = self.restored[lane] if len(self.restored) == self.run.lanes.lanes else None
        made, position = (0, 0) if state is None else (state.get("made", 0), state.get(self._reader.key, 0))
        if made > lane_batch:
            made = position = 0
        known = self._lanes.get((lane, made))
        if known is None:
            seed = self.chain.worker_config.seed_offset
            order = cast("PlannedLane", self._reader.lane_order(lane, lanes=self.run.lanes.lanes, seed=seed))
            known = self._lanes[lane, made] = _LaneGroups(order, position, made * self._groups)
        return known


class _LaneGroups:
    """The samples and costs of the groups of a lane, of the window that was measured last.

    Args:
        order: The stream of the lane.
        position: The position from which groups are counted.
        groups: Groups that were made before this position; fewer than planned if some lost all their samples.
    """

    def __init__(self, order: PlannedLane, position: int, groups: int) -> None:
        self._order = order
        self._start, row = divmod(position, order.plan.samples)  # the first window
        self._sums: _Floats = self._measured(self._start)  # shape (groups, 1 + costs)
        # Number of the first group of the first window and of those that follow, and of the measured one.
        self._firsts = [groups - int((self._places < row).sum())]
        self._first = self._firsts[0]

    def sum_of(self, first: int, stop: int) -> _Floats:
        """Return the sums of the samples and costs of some groups, shape (1 + costs,)."""
        total: _Floats = np.zeros(1)
        group = first
        while group < stop:
            self._find(group)
            some = self._sums[group - self._first : stop - self._first]
            total = total + some.sum(axis=0)
            group += len(some)
        return total

    def _find(self, group: int) -> None:
        """Measure the window that has a group."""
        if self._first <= group < self._first + len(self._sums):
            return
        # Windows of equal groups follow from their number.
        plan = self._order.plan
        if plan.group_samples is not None:
            size = plan.samples // plan.group_samples
            windows = (group - self._firsts[0]) // size
            self._first = self._firsts[0] + windows * size
            self._sums = self._measured(self._start + windows)
            return
        # Packs are counted window by window.
        windows = bisect_right(self._firsts, group) - 1
        while True:
            self._first, self._sums = self._firsts[windows], self._measured(self._start + windows)
            windows += 1
            if windows == len(self._firsts):
                self._firsts.append(self._first + len(self._sums))
            if group < self._firsts[windows]:
                return

    def _measured(self, window: int) -> _Floats:
        """Return the numbers of samples and the costs of the groups of a window, shape (groups, 1 + costs)."""
        _, costs = self._order.before(window)
        is_left_out = self._order.is_left_out(costs)
        planned = self._order.groups(window, costs)
        groups = [group for group in planned if not is_left_out[group[0]]]
        sizes = np.array([*map(len, planned)], np.int64)
        self._places = (np.cumsum(sizes) - sizes)[[not is_left_out[group[0]] for group in planned]]
        counted = np.column_stack([np.ones(len(costs)), costs])
        return np.array([counted[group].sum(axis=0) for group in groups]).reshape(len(groups), counted.shape[1])
