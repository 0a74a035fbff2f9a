"""Describe saved states as the plain data that ``energon checkpoint info --json`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import StateError
from .run_state import RunState
from .split_state import ranks_of_run, redistribute_states

__all__ = ["describe_run", "describe_state", "is_same_run", "samples_waiting"]

_MAX_RANKS = 100_000  # bounds the list of missing ranks


def describe_state(state: RunState) -> dict[str, Any]:
    """Describe the state of a rank; keys are stable.

    Returns:
        ``rank ranks batch steps passes ended lanes_begun samples_waiting``.
    """
    return {
        "rank": state.rank,
        "ranks": state.ranks,
        "batch": state.batch,
        "steps": list(state.steps),
        "passes": state.passes,
        "ended": state.ended,
        "lanes_begun": len(state.lane_states),
        "samples_waiting": sum(map(samples_waiting, state.lane_states.values())),
    }


def describe_run(states: Sequence[RunState]) -> dict[str, Any]:
    """Describe the run of the states of some or all ranks; keys are stable.

    Args:
        states: At least one; :func:`is_same_run` is true for each pair.

    Returns:
        ``ranks missing_ranks fault lanes lanes_begun possible_ranks kind seed batch steps passes ended samples_waiting
        stages datasets mix_changes``. ``fault`` is the reason why no run can be restored from these states, or None;
        ``possible_ranks`` is None if the run can continue on any number of ranks.
    """
    first = states[0]
    there = {state.rank for state in states}
    missing = [rank for rank in range(min(first.ranks, _MAX_RANKS)) if rank not in there]
    own = [describe_state(state) for state in states]
    lanes = {lane: state for one in states for lane, state in one.lane_states.items()}
    fault = None
    possible = ranks_of_run(first)
    try:
        redistribute_states(states, first.ranks)
    except StateError as error:
        fault = error.message
    if len({state.passes for state in states}) > 1:
        possible = [first.ranks]
    return {
        "ranks": first.ranks,
        "missing_ranks": missing,
        "fault": fault,
        "lanes": first.lanes,
        "lanes_begun": len(lanes),
        "possible_ranks": possible,
        "kind": first.kind,
        "seed": first.seed,
        "batch": min(one["batch"] for one in own),
        "steps": max(one["steps"] for one in own),
        "passes": first.passes,
        "ended": all(one["ended"] for one in own),
        "samples_waiting": sum(map(samples_waiting, lanes.values())),
        "stages": list(_stages(first.dataset)),
        "datasets": list(_datasets(first.dataset)),
        "mix_changes": [{"batch": entry["batch"], "leaves": entry["leaves"]} for entry in first.mix_changes],
    }


def is_same_run(one: RunState, other: RunState) -> bool:
    """Return True if two states may be of ranks of one run: they agree in lanes, ranks, seed, kind and dataset."""
    names = ("lanes", "ranks", "seed", "kind", "dataset")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def samples_waiting(lane_state: Mapping[str, Any]) -> int:
    """Count the samples in the buffers of a lane's stages: packing, grouping, shuffle buffers.

    >>> samples_waiting({"made": 3, "0 read": 40, "3 select_samples_to_pack": {"batch": 2, "groups": [[38], [37, 39]]}})
    3
    """
    count = 0
    for own in lane_state.values():
        if isinstance(own, Mapping):
            if isinstance(own.get("groups"), list | tuple):
                count += sum(len(group) for group in own["groups"] if isinstance(group, list | tuple))
                continue
            waiting = own.get("buffer", own.get("held"))
            count += len(waiting) if isinstance(waiting, list | tuple) else samples_waiting(own)
        elif isinstance(own, list | tuple) and all(isinstance(group, list | tuple) for group in own):
            count += sum(map(len, own))  # partial batches of grouping
    return count


def _stages(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the stages of a chain, the last one first, from its identity: ``[name, settings, *inputs]``."""
    if isinstance(identity, list | tuple) and len(identity) >= 2 and isinstance(identity[0], str):
        yield {"name": identity[0], "settings": identity[1]}
        for source in identity[2:]:
            yield from _stages(source)


def _datasets(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the sources of readers; a join has members."""
    if isinstance(identity, list | tuple):
        for part in identity:
            yield from _datasets(part)
    elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
        yield {
            "path": identity["path"],
            "split_part": identity.get("split_part"),
            "uuid": identity.get("uuid"),
            "samples": identity["samples"],
            "members": list(_datasets(identity.get("members", []))),
        }
