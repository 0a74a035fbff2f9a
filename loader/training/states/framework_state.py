"""The states of all ranks, on one of them: what ``torch.distributed`` carries."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from ..errors import StateError
from ..pipeline.worker_config import WorkerConfig

__all__ = ["gather_states", "hand_round_states", "is_distributed", "rank_in_group"]


def is_distributed() -> bool:
    """Tell whether ``torch.distributed`` is there to carry states."""
    return dist.is_available() and dist.is_initialized()


def rank_in_group(global_rank: int, config: WorkerConfig) -> int:
    """Give the data-parallel rank of a rank of the whole process group.

    Raises:
        StateError: It is none of those that share the data.
    """
    if config.data_parallel_group is None:
        return global_rank
    try:
        return dist.get_group_rank(config.data_parallel_group, global_rank)
    except ValueError as error:
        members = dist.get_process_group_ranks(config.data_parallel_group)
        raise StateError(
            f"rank {global_rank} is none of the data-parallel ranks, which are {members}",
            do="name one of them as global_dst_rank=, or its place among them as dst_rank=",
        ) from error


def gather_states(state: dict[str, Any], config: WorkerConfig, dst_rank: int) -> list[dict[str, Any]] | None:
    """Collect all ranks' states on ``dst_rank``; give None on the others. All ranks must call it."""
    if config.world_size == 1:
        return [state]
    _check_group(config, "save_state_global", dst_rank)
    group = config.data_parallel_group
    here = config.rank == dst_rank
    states: list[Any] | None = [None] * config.world_size if here else None
    dist.gather_object(state, states, group=group, group_dst=dst_rank)
    return states


def hand_round_states(states: Any, config: WorkerConfig, src_rank: int) -> Any:
    """Give every rank what ``src_rank`` holds. All ranks must call it."""
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
            do="call torch.distributed.init_process_group() first; or save with save_state_rank() on each rank, and "
            "restore with restore_state_global([…], src_rank=None), which needs no process group",
        )
    ranks = dist.get_world_size(config.data_parallel_group)
    if ranks != config.world_size:
        raise StateError(
            f"the process group has {ranks} ranks, the worker config says {config.world_size}",
            do="pass the group of the data-parallel ranks as WorkerConfig(data_parallel_group=…)",
        )
    if not 0 <= rank < ranks:
        raise StateError(
            f"{caller}() of {ranks} ranks, numbered from 0, is asked for rank {rank}",
            do="pass its number among the data-parallel ranks"
            + ("; global_dst_rank= counts among all ranks" if caller == "save_state_global" else ""),
        )
