"""The states of the data ranks that one process serves, and their way between such processes.

Each served data rank has the state that its own loader would have, so a state does not tell how many ranks a process
served.

Lightning, Accelerate and others call ``state_dict()`` on one rank, save the result, and restore all ranks from it. With
several ranks in a process group, each rank therefore returns the states of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist

from ...errors import StateError
from ...format.documents.messages import short_repr
from ...pipeline.contract.rank_group import broadcast, check_group, gathered, is_distributed
from ...pipeline.contract.worker_config import WorkerConfig
from ..states.found_states import ALL_RANKS
from ..states.run_state import RunState

SERVED = "states of served ranks"
"""The key under which ``save_state_rank()`` of a loader with ``serves`` has the states of its data ranks."""


# What differs between states that one rank saved after different steps.
_POSITION = ("batch", "lane_states", "steps", "passes", "ended")


def list_of_states(state: Any) -> Sequence[Any]:
    """Return the argument of ``restore_state_global``."""
    if isinstance(state, list | tuple):
        return state
    what = f"a dict with the keys {[*state][:8]}" if isinstance(state, dict) else f"a {type(state).__name__}"
    raise StateError(
        f"expected the list of the states of all ranks, found {what}",
        hint="pass the result of save_state_global(); restore_state_rank() takes that of save_state_rank(), "
        "and load_state_dict() that of state_dict()",
    )


def states_of_ranks(saved: Sequence[Any], *, allow_edited: bool = False) -> list[RunState]:
    """Return the states of data ranks in a list of the results of ``save_state_rank``, each data rank once."""
    if not any(isinstance(process, Mapping) and SERVED in process for process in saved):
        return [RunState.from_plain(rank_state, allow_edited=allow_edited) for rank_state in saved]
    by_rank: dict[int | None, RunState] = {}
    for process in saved:
        for state in states_of_served(process, allow_edited=allow_edited):
            other = by_rank.setdefault(state.rank, state)
            if any(getattr(state, name) != getattr(other, name) for name in _POSITION):
                raise StateError(
                    f"data rank {state.rank} was saved twice, after different steps: its next micro-batches are "
                    f"{other.batch} and {state.batch}",
                    hint="save on all ranks after the same step",
                )
    return list(by_rank.values())


def states_of_served(saved: Any, *, allow_edited: bool = False) -> list[RunState]:
    """Return the states of data ranks in the result of ``save_state_rank``, of a loader with or without ``serves``."""
    parts = saved[SERVED] if isinstance(saved, Mapping) and SERVED in saved else [saved]
    if not isinstance(parts, list | tuple) or not parts:
        raise StateError(f"this state is damaged: expected a list of states as {SERVED!r}, found {short_repr(parts)}")
    return [RunState.from_plain(part, allow_edited=allow_edited) for part in parts]


def gather_served(
    states: Mapping[int, dict[str, Any]], config: WorkerConfig, dst_rank: int | None
) -> list[dict[str, Any]] | None:
    """Return the states of all data ranks, by number; all processes of the group must call it.

    Args:
        dst_rank: The process, within the group, that gets them, and the others None; None: all get them.
    """
    # Find out which process serves which data rank; each must be served.
    served = gathered(list(states), config)
    missing = sorted(set(range(config.world_size)).difference(*served))
    if missing:
        shown = ", ".join(map(str, missing[:8])) + ", …" * (len(missing) > 8)
        raise StateError(
            f"no process of the group serves the data ranks {shown} of {config.world_size}"
            if is_distributed()
            else f"the states of the data ranks {shown} are in other processes; torch.distributed is not initialised",
            hint="let the ranks of the group serve all data ranks; or save with save_state_rank() in each process, and "
            "restore with restore_state_global([…])",
        )
    if dst_rank is not None and not 0 <= dst_rank < len(served):
        raise StateError(f"expected a rank from 0 to {len(served) - 1}, found {dst_rank}")
    if not is_distributed():
        return [states[rank] for rank in range(config.world_size)]
    # Two processes may serve the same data rank: the first one sends its state.
    group = config.data_parallel_group
    here = dist.get_rank(group)
    sender = {rank: process for process, ranks in reversed(list(enumerate(served))) for rank in ranks}
    sent = {rank: state for rank, state in states.items() if sender[rank] == here}
    parts: list[Any] | None
    if dst_rank is None:
        parts = gathered(sent, config)
    else:
        parts = [None] * len(served) if here == dst_rank else None
        dist.gather_object(sent, parts, group=group, group_dst=dst_rank)
    if parts is None:
        return None
    by_rank = {rank: state for part in parts for rank, state in part.items()}
    return [by_rank[rank] for rank in range(config.world_size)]


def broadcast_to_serving(states: Any, config: WorkerConfig, src_rank: int) -> Any:
    """Return the states of process ``src_rank`` of the group on every process; all must call it."""
    processes = dist.get_world_size(config.data_parallel_group) if is_distributed() else 1
    if not 0 <= src_rank < processes:
        raise StateError(f"expected a rank from 0 to {processes - 1}, found {src_rank}")
    return states if processes == 1 else broadcast(states, config, src_rank)


def destination(dst_rank: int | None, global_dst_rank: int | None, config: WorkerConfig) -> int:
    """Return the process within the group that ``save_state_global`` names; 0 by default."""
    if dst_rank is not None:
        return dst_rank
    return 0 if global_dst_rank is None else rank_in_group(global_dst_rank, config)


# ------------------------------------------------------------------------------------ one data rank a process


def framework_state(loader: Any) -> dict[str, Any]:
    """Return the state of a rank; with a process group, the states of all ranks, which must all call this."""
    config = loader.worker_config
    state: dict[str, Any] = loader.save_state_rank()
    if config.world_size == 1 or not is_distributed():
        return state
    _check_group(config, "save_state_global", 0)
    return {ALL_RANKS: gathered(state, config)}


def restore_framework_state(loader: Any, state: dict[str, Any]) -> None:
    """Restore the result of :func:`framework_state`; states of all ranks also on another number of ranks."""
    if isinstance(state, dict):
        states = state.get(ALL_RANKS)
        ranks = state.get("ranks")
        if states is None and isinstance(ranks, int) and ranks == 1 != loader.worker_config.world_size:
            states = [state]  # the run was saved on a single rank
        if states is not None:
            loader.restore_state_global(states)
            return
    loader.restore_state_rank(state)


def rank_in_group(global_rank: int, config: WorkerConfig) -> int:
    """Convert a rank of the whole process group to its data-parallel rank."""
    if config.data_parallel_group is None:
        return global_rank
    try:
        return dist.get_group_rank(config.data_parallel_group, global_rank)
    except ValueError as error:
        members = dist.get_process_group_ranks(config.data_parallel_group)
        raise StateError(
            f"rank {global_rank} is not in the data-parallel group, which has the ranks {members}",
            hint="pass one of these as global_dst_rank=, or its index in the group as dst_rank=",
        ) from error


def gather_states(state: dict[str, Any], config: WorkerConfig, dst_rank: int) -> list[dict[str, Any]] | None:
    """Return all ranks' states on ``dst_rank``, None on the others. All ranks must call it."""
    if config.world_size == 1:
        return [state]
    _check_group(config, "save_state_global", dst_rank)
    group = config.data_parallel_group
    states: list[Any] | None = [None] * config.world_size if config.rank == dst_rank else None
    dist.gather_object(state, states, group=group, group_dst=dst_rank)
    return states


def broadcast_states(states: Any, config: WorkerConfig, src_rank: int) -> Any:
    """Return the states of ``src_rank`` on every rank. All ranks must call it."""
    if config.world_size == 1:
        return states
    _check_group(config, "restore_state_global", src_rank)
    return broadcast(states, config, src_rank)


def _check_group(config: WorkerConfig, caller: str, rank: int) -> None:
    check_group(
        config,
        f"{caller}()",
        "; or save with save_state_rank() on each rank, and restore with restore_state_global([…], src_rank=None), "
        "which needs no process group",
        error=StateError,
    )
    if not 0 <= rank < config.world_size:
        raise StateError(
            f"expected {caller}() to be called with a rank from 0 to {config.world_size - 1}, found {rank}",
            hint="pass the rank within the data-parallel group"
            + ("; global_dst_rank= counts among all ranks" if caller == "save_state_global" else ""),
        )
