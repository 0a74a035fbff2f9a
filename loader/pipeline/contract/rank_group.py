"""The process group of the ranks of a run."""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError, EnergonError, plural
from ...lazy_torch import torch


def is_distributed() -> bool:
    """Return True if ``torch.distributed`` is initialised."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def check_group(config: Any, what: str, hint: str, *, error: type[EnergonError] = ConfigError) -> None:
    """Check that there is a process group of exactly the ranks of a run: others would wait for calls that never come.

    Args:
        config: The :class:`.WorkerConfig` of the run, whose module imports this one.
        what: Name of what needs the group.
        hint: What to do where ``torch.distributed`` is not initialised, in addition.

    Raises:
        EnergonError: There is none; of the class ``error``.
    """
    if not is_distributed():
        raise error(
            f"{what} of {plural(config.world_size, 'rank')} needs torch.distributed, which is not initialised",
            hint=f"call torch.distributed.init_process_group() first{hint}",
        )
    ranks = torch.distributed.get_world_size(config.data_parallel_group)
    if ranks != config.world_size:
        raise error(
            f"the process group has {plural(ranks, 'rank')}, the worker config has world_size={config.world_size}",
            hint="pass the group of the ranks that share the data as WorkerConfig(data_parallel_group=…)",
        )


def gathered(held: Any, config: Any) -> list[Any]:
    """Return what each process of the group holds, which all must call; without a group, what this one holds."""
    if not is_distributed():
        return [held]
    group = config.data_parallel_group
    objects: list[Any] = [None] * torch.distributed.get_world_size(group)
    torch.distributed.all_gather_object(objects, held, group=group)
    return objects


def broadcast(held: Any, config: Any, src_rank: int = 0) -> Any:
    """Return what one process of the group holds; all must call it."""
    objects = [held]
    torch.distributed.broadcast_object_list(objects, group=config.data_parallel_group, group_src=src_rank)
    return objects[0]
