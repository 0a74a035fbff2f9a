"""Check the lane states of a saved run before a chain is opened with them: the file may be damaged or edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import StateError
from ...format.documents.messages import short_repr
from ...pipeline.contract.stage import SavableDataset, State, has_end
from ...pipeline.contract.state_schema import COUNT, NotRequired, Schema, check_value, has_item_ids, item_ids_in
from ...pipeline.item_form import FormLane, ItemIdError
from .run_state import ENDLESS, FINITE, RunState

_MAX_AHEAD = 1 << 20
"""Micro-batches that a lane may be ahead of the run in a finite pass; each costs the lane a turn without a batch."""


def check_lane_states(run: RunState, schema: Mapping[str, Schema], *, kind: str) -> None:
    """Check the states of the lanes that a rank hosts.

    Args:
        run: The state of the rank that restores it.
        schema: The schema of the states of the chain: ``SavableDataset.state_schema()``.
        kind: The order in which the run visits its lanes.

    Raises:
        StateError: A lane's state does not match the schema, or was saved at another step than the rest; or a lane
            that had begun is missing, and would repeat samples.
    """
    for lane, state in run.lane_states.items():
        _check_schema(lane, state, schema)
    if kind == ENDLESS:
        check_begun_lanes(run)
    for lane, state in run.lane_states.items():
        if kind == FINITE and state.get("made", 0) > _begun(run, lane) + _MAX_AHEAD:
            raise _damaged(
                lane, f"it has made {state['made']} micro-batches, and the run is at micro-batch {run.batch}"
            )


def _check_schema(lane: int, state: State, schema: Mapping[str, Schema]) -> None:
    try:
        check_value(state, {"made": NotRequired(COUNT), **schema})
    except ValueError as error:
        raise _damaged(lane, str(error)) from error


def check_lane(chain: SavableDataset[Any], lane: int, state: State, *, lanes: int) -> None:
    """Check the state of any lane before the chain is opened with it.

    Args:
        chain: The chain.
        lane: The lane.
        state: Its state.
        lanes: L, the lanes of the run.

    Raises:
        StateError: It does not match the schema of the chain, or the chain makes no items with an id in it.
    """
    _check_schema(lane, state, chain.state_schema())
    check_item_ids(chain, {lane: state}, lanes=lanes)


def check_begun_lanes(run: RunState) -> None:
    """Check the lanes of a rank in a run without end: lane l has begun before micro-batch l + 1.

    Raises:
        StateError: A lane was saved at another step than the rest, or one that had begun is missing.
    """
    for lane, state in run.lane_states.items():
        made, begun = state.get("made", 0), _begun(run, lane)
        if made != begun:
            raise _damaged(lane, f"it has made {made} micro-batches, and {begun} before micro-batch {run.batch}")
    lanes = range((run.batch + (run.rank or 0)) % run.ranks, min(run.lanes, run.batch), run.ranks)
    lost = len(lanes) - sum(lane in lanes for lane in run.lane_states)
    if lost:
        first = next(lane for lane in lanes if lane not in run.lane_states)
        raise StateError(
            f"this state is damaged: it lacks {lost} of {len(lanes)} lanes that have begun, lane {first} first",
            hint="save the state as one value, such as json.dumps(state): tools that load key by key into another "
            "state, such as torch.distributed.checkpoint, drop the keys that this one lacks",
        )


def check_item_ids(chain: SavableDataset[Any], lane_states: Mapping[int, State], *, lanes: int) -> None:
    """Check the ids of the items in the buffers of lanes.

    Args:
        chain: The chain.
        lane_states: The states of the lanes, which match the schema of the chain.
        lanes: L, the lanes of the run.

    Raises:
        StateError: The chain makes no items with such an id.
    """
    holding = _holding(chain)
    if id(chain) not in holding:
        return
    takes_others = lanes > 1 and has_end(chain)
    for number, state in lane_states.items():
        lane = FormLane(number=number, count=lanes, takes_others=takes_others)
        for stage, error in _faults(chain, state, lane, holding):
            whole = short_repr(error.item_id)
            raise _damaged(number, f"the buffer of {stage.key!r} has an item {whole}: {error}") from error


def _holding(chain: SavableDataset[Any]) -> dict[int, bool]:
    """Return the addresses of stages that buffer items, and of those above: True if their own entries have item ids."""
    found: dict[int, bool] = {}
    for upstream in chain.inputs:
        found |= _holding(upstream)
    own = chain.entry_schema is not None and has_item_ids(chain.entry_schema)
    if own or found:
        found[id(chain)] = own
    return found


def _faults(
    stage: SavableDataset[Any], state: State, lane: FormLane, holding: Mapping[int, bool]
) -> Iterator[tuple[SavableDataset[Any], ItemIdError]]:
    """Yield the items in buffers that no stage below makes, with the stage that holds them."""
    if holding[id(stage)] and stage.key in state:
        try:
            stage.held_form(lane).check_all([*item_ids_in(state[stage.key], stage.entry_schema)])
        except ItemIdError as error:
            yield stage, error
    for upstream, inner, lane_below in stage.nested_states(state, lane):
        if id(upstream) in holding:
            yield from _faults(upstream, inner, lane_below, holding)


def _begun(run: RunState, lane: int) -> int:
    """Return the micro-batches of a lane before that of the run."""
    return -(-(run.batch - lane) // run.lanes) if run.batch > lane else 0


def _damaged(lane: int, message: str) -> StateError:
    return StateError(f"this state is damaged: lane {lane}: {message}", hint="restore another state")
