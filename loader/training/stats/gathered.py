"""Collect the waits of all ranks, to find the slowest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch.distributed as dist

from ...errors import ConfigError
from ...pipeline.contract.worker_config import WorkerConfig
from .snapshot import LoaderStats, RankWait


def with_all_ranks(stats: LoaderStats, config: WorkerConfig) -> LoaderStats:
    """Return the statistics of this rank with the waits of all ranks, which must all call this.

    Raises:
        ConfigError: There is no process group of these ranks.
    """
    own = wait_of(stats)
    if config.world_size == 1:
        return replace(stats, ranks_waited=(own,))
    if not (dist.is_available() and dist.is_initialized()):
        raise ConfigError(
            f"the statistics of {config.world_size} ranks cannot be gathered without torch.distributed",
            hint="call torch.distributed.init_process_group() first, or stats() without gather=True",
        )
    group = config.data_parallel_group
    if dist.get_world_size(group) != config.world_size:
        raise ConfigError(
            f"the process group has {dist.get_world_size(group)} ranks, the worker config has "
            f"world_size={config.world_size}",
            hint="pass the group of the data-parallel ranks as WorkerConfig(data_parallel_group=…)",
        )
    found: list[Any] = [None] * config.world_size
    dist.all_gather_object(found, own, group=group)
    return replace(stats, ranks_waited=tuple(sorted(found, key=lambda one: one.rank)))


def with_all_served(stats: LoaderStats, served: Sequence[LoaderStats], config: WorkerConfig) -> LoaderStats:
    """Return statistics with the waits for all data ranks, which all processes that serve some must call.

    Args:
        stats: The statistics.
        served: Those of each data rank that this process serves.
        config: The worker config of the run, with the group of these processes.
    """
    found: list[Any] = [[wait_of(one) for one in served]]
    if dist.is_available() and dist.is_initialized():
        group, own = config.data_parallel_group, found[0]
        found = [None] * dist.get_world_size(group)
        dist.all_gather_object(found, own, group=group)
    by_rank = {one.rank: one for waits in reversed(found) for one in waits}  # two processes may serve the same one
    return replace(stats, ranks_waited=tuple(by_rank[rank] for rank in sorted(by_rank)))


def wait_of(stats: LoaderStats) -> RankWait:
    """Return the waits of a rank."""
    return RankWait(rank=stats.rank, elapsed_s=stats.elapsed_s, waited_s=stats.waited_s, samples=stats.samples)
