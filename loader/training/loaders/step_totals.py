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
        self.restored = run.restored_lanes
        self._orders: dict[int, PlannedLane] = {}
        self._measured: dict[int, tuple[int, _Floats]] = {}  # the window of each lane that was measured last

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
                made, position = self._state(lane, lane_batch)
                order = self._order(lane)
                for group in range((lane_batch - made) * self._groups, (lane_batch - made + 1) * self._groups):
                    window, row = order.place(group, position=position)
                    total += self._sums(lane, window)[row]
        return dict(zip(self._names, total.tolist(), strict=True))

    def _state(self, lane: int, lane_batch: int) -> tuple[int, int]:
        """Return the micro-batches and the position of a lane's restored state; zeros for earlier micro-batches."""
        # If a rank knows only its own lanes, it counts as the others do.
        state = self.restored[lane] if len(self.restored) == self.run.lanes.lanes else None
        made, position = (0, 0) if state is None else (state.get("made", 0), state.get(self._reader.key, 0))
        return (0, 0) if made > lane_batch else (made, position)

    def _order(self, lane: int) -> PlannedLane:
        if lane not in self._orders:
            seed = self.chain.worker_config.seed_offset
            order = self._reader.lane_order(lane, lanes=self.run.lanes.lanes, seed=seed)
            self._orders[lane] = cast("PlannedLane", order)
        return self._orders[lane]

    def _sums(self, lane: int, window: int) -> _Floats:
        """Return the samples and costs of the groups of a window, which are kept instead of the window."""
        known = self._measured.get(lane)
        if known is None or known[0] != window:
            known = self._measured[lane] = window, self._order(lane).sums(window)
            self._order(lane).forget()
        return known[1]
