"""Split the merged state of a run into states for another number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import StateError
from ...order import LaneHosting, possible_ranks
from .run_state import FINITE, LANE_BY_LANE, RunState, merge_states

if TYPE_CHECKING:  # programs that only read states need no stages, and no torch
    from ...pipeline.contract.stage import State


def redistribute_states(states: Sequence[RunState], ranks: int) -> list[RunState]:
    """Convert the states of all ranks of a run to states for ``ranks`` ranks.

    Each lane's state goes to the rank that will host the lane. Together the new ranks deliver the same micro-batches as
    the old ones would have.

    Args:
        states: One for each rank of the run, in any order.
        ranks: R', the ranks of the restored run.

    Returns:
        The states, by rank.

    Raises:
        StateError: A rank's state is missing, the states are of different runs or steps, or the lanes of the run cannot
            be split over so many ranks.
    """
    run = merge_states(states, lockstep=not states or states[0].kind not in (FINITE, LANE_BY_LANE))
    if ranks < 1:
        raise StateError(f"expected at least 1 rank, found {ranks}")
    if run.kind != LANE_BY_LANE:
        LaneHosting(lanes=run.lanes, ranks=ranks, rank=0, workers=0)  # raises unless the ranks divide the lanes
    if ranks == run.ranks:
        # In a finite pass the ranks may be at different steps. A rank that has ended it waits for the others.
        own = {state.rank: state for state in states}
        return [
            replace(own[rank], ended=run.ended, mix_changes=run.mix_changes, quarantined=run.quarantined)
            for rank in range(ranks)
        ]
    if any(state.passes != run.passes for state in states):
        raise StateError(
            f"the {run.ranks} ranks of this state are in different passes over the data, so it cannot be restored on "
            f"{ranks} ranks",
            hint=f"restore it on {run.ranks} ranks, or save when all ranks are in one pass",
        )
    return _split(run, ranks)


def ranks_of_run(state: RunState) -> list[int] | None:
    """Return the numbers of ranks on which a run can be restored; None for any."""
    return None if state.kind == LANE_BY_LANE else possible_ranks(state.lanes)


def _split(run: RunState, ranks: int) -> list[RunState]:
    """Assign lane states to ranks. It visits states rather than lanes: a damaged file may have far more lanes."""
    first = 0 if run.kind == LANE_BY_LANE else run.batch  # a lane of rank 0
    lane_states: list[dict[int, State]] = [{} for _ in range(ranks)]
    for lane, state in run.lane_states.items():
        lane_states[(lane - first) % ranks][lane] = state
    counted_on = run.ranks if run.counted_on is None else run.counted_on
    ranks_at = run.run_steps.on(ranks, run.batch).ranks_at
    return [
        replace(run, ranks=ranks, rank=rank, lane_states=own, counted_on=counted_on, ranks_at=ranks_at)
        for rank, own in enumerate(lane_states)
    ]
