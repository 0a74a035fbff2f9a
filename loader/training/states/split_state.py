"""The states of some ranks made into those of another number of ranks: the counterpart of ``merge_states``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import StateError
from ...order import LaneHosting, possible_ranks
from .run_state import FINITE, LANE_BY_LANE, RunState, merge_states

if TYPE_CHECKING:  # a program that only looks into states needs no stages, and no torch
    from ...pipeline.contract.stage import State

__all__ = ["ranks_of_run", "redistribute_states"]


def redistribute_states(states: Sequence[RunState], ranks: int) -> list[RunState]:
    """Give each of ``ranks`` ranks what it goes on from, of the states of all ranks of a run.

    Each lane's state goes to the rank that hosts the lane from here on. What they deliver together is what the run
    would have delivered.

    Args:
        states: One for each rank of the run, in any order.
        ranks: R', of the run that goes on.

    Returns:
        By rank.

    Raises:
        StateError: A rank's state is missing, they are not of one moment of one run, or the lanes of the run cannot be
            split over so many ranks.
    """
    run = merge_states(states, lockstep=not states or states[0].kind not in (FINITE, LANE_BY_LANE))
    if ranks < 1:
        raise StateError(f"expected at least 1 rank, found {ranks}")
    if run.kind != LANE_BY_LANE:
        LaneHosting(lanes=run.lanes, ranks=ranks, rank=0, workers=0)  # refuses what does not divide the lanes
    if ranks == run.ranks:
        # In a finite pass each rank may be somewhere else. One that has ended it waits for the others.
        own = {state.rank: state for state in states}
        return [replace(own[rank], ended=run.ended) for rank in range(ranks)]
    if any(state.passes != run.passes for state in states):
        raise StateError(
            f"the {run.ranks} ranks of this state are in different passes over the data, which {ranks} ranks cannot go "
            "on with",
            hint=f"go on with {run.ranks} ranks, or save where all ranks are in one pass",
        )
    return _dealt(run, ranks)


def ranks_of_run(state: RunState) -> list[int] | None:
    """Give the numbers of ranks on which a run can go on; None for any."""
    return None if state.kind == LANE_BY_LANE else possible_ranks(state.lanes)


def _dealt(run: RunState, ranks: int) -> list[RunState]:
    """Give each rank the states of its lanes. There may be far more lanes than states, in a file that is damaged."""
    first = 0 if run.kind == LANE_BY_LANE else run.batch  # of the lanes, that of rank 0
    lane_states: list[dict[int, State]] = [{} for _ in range(ranks)]
    for lane, state in run.lane_states.items():
        lane_states[(lane - first) % ranks][lane] = state
    counted_on = run.ranks if run.counted_on is None else run.counted_on
    return [
        replace(run, ranks=ranks, rank=rank, lane_states=own, counted_on=counted_on)
        for rank, own in enumerate(lane_states)
    ]
