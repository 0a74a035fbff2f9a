"""States for frameworks, which call ``state_dict()`` and ``load_state_dict()`` of a loader.

Lightning, Accelerate and others save the state of one rank, and restore all ranks from it. With several ranks in a
process group, each rank therefore returns the states of all.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from ...errors import StateError
from ...pipeline.contract.worker_config import WorkerConfig
from .lightning_file import ALL_RANKS


def framework_state(loader: Any) -> dict[str, Any]:
    """Return the state of a rank; with a process group, the states of all ranks, which must all call this."""
    config = loader.worker_config
    state: dict[str, Any] = loader.save_state_rank()
    if config.world_size == 1 or not is_distributed():
        return state
    return {ALL_RANKS: broadcast_states(gather_states(state, config, 0), config, 0)}


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


def is_distributed() -> bool:
    """Return True if ``torch.distributed`` is initialised."""
    return dist.is_available() and dist.is_initialized()


def rank_in_group(global_rank: int, config: WorkerConfig) -> int:
    """Convert a rank of the whole process group to its data-parallel rank.

    Raises:
        StateError: The rank is not in the data-parallel group.
    """
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
    held = [states if config.rank == src_rank else None]
    dist.broadcast_object_list(held, group=config.data_parallel_group, group_src=src_rank)
    return held[0]


def _check_group(config: WorkerConfig, caller: str, rank: int) -> None:
    if not is_distributed():
        raise StateError(
            f"{caller}() of {config.world_size} ranks needs torch.distributed, which is not initialised",
            hint="call torch.distributed.init_process_group() first; or save with save_state_rank() on each rank, and "
            "restore with restore_state_global([…], src_rank=None), which needs no process group",
        )
    ranks = dist.get_world_size(config.data_parallel_group)
    if ranks != config.world_size:
        raise StateError(
            f"the process group has {ranks} ranks, the worker config has world_size={config.world_size}",
            hint="pass the group of the data-parallel ranks as WorkerConfig(data_parallel_group=…)",
        )
    if not 0 <= rank < ranks:
        raise StateError(
            f"expected {caller}() to be called with a rank from 0 to {ranks - 1}, found {rank}",
            hint="pass the rank within the data-parallel group"
            + ("; global_dst_rank= counts among all ranks" if caller == "save_state_global" else ""),
        )
