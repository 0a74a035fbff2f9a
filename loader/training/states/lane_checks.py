"""The lane states of a saved run, checked before anything is opened with them: its file may be damaged or edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import StateError
from ...format.documents.messages import short_repr
from .run_state import ENDLESS, FINITE, RunState

__all__ = ["check_lane_states"]

_MOST = 1 << 53  # what every reader of JSON keeps exactly
_COUNTS = frozenset({"made", "next", "taken", "picked", "given"})
_READ = " read"  # a reader's entry, which is a position
_MOST_AHEAD = 1 << 20
"""Micro-batches that a lane may be ahead of the run in a pass that ends; it is passed over at each of them."""


def check_lane_states(run: RunState, *, kind: str) -> None:
    """Refuse lane states that no loader saves, of the lanes that a rank hosts.

    Args:
        run: As a rank restores it.
        kind: How its lanes are visited.

    Raises:
        StateError: A lane's state is damaged, or is of another moment than the rest, or lanes are lacking that have
            begun: they would begin anew, and give what the run has had.
    """
    for lane, state in run.lane_states.items():
        _check_values(lane, state, "")
        made = state.get("made", 0)
        begun = -(-(run.batch - lane) // run.lanes) if run.batch > lane else 0
        if kind == ENDLESS and made != begun:
            raise _damaged(lane, f"it has made {made} micro-batches, and {begun} before micro-batch {run.batch}")
        if kind == FINITE and made > begun + _MOST_AHEAD:
            raise _damaged(lane, f"it has made {made} micro-batches, and the run is at micro-batch {run.batch}")
    if kind == ENDLESS:
        _check_begun_lanes(run)


def _check_values(lane: int, value: Any, name: str) -> None:
    """Refuse anything but names, and integers that count something."""
    if name in _COUNTS or name.endswith(_READ):
        if type(value) is not int or not 0 <= value < _MOST:
            raise _damaged(lane, f"expected {name!r} to count something, found {short_repr(value)}")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_values(lane, inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_values(lane, inner, "")
    elif not (value is None or isinstance(value, str | bool) or (type(value) is int and 0 <= value < _MOST)):
        raise _damaged(lane, f"expected numbers that count something, found {short_repr(value)}")


def _check_begun_lanes(run: RunState) -> None:
    """Refuse a state that lost lanes on its way: of a run without end, lane l has begun before micro-batch l + 1."""
    begun = range((run.batch + (run.rank or 0)) % run.ranks, min(run.lanes, run.batch), run.ranks)
    lost = len(begun) - sum(lane in begun for lane in run.lane_states)
    if lost:
        first = next(lane for lane in begun if lane not in run.lane_states)
        raise StateError(
            f"this state is damaged: it lacks {lost} of {len(begun)} lanes that have begun, lane {first} first",
            hint="save it as one value, such as json.dumps(state): what loads key by key into another state, such as "
            "torch.distributed.checkpoint, leaves out the keys that this one does not have",
        )


def _damaged(lane: int, message: str) -> StateError:
    return StateError(f"this state is damaged: lane {lane}: {message}", hint="restore another one")
