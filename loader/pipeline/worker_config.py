"""How a run is spread: over ranks, worker processes and lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed

from ..errors import ConfigError
from .error_handlers import log_exception, reraise_exception

__all__ = ["ErrorHandler", "WorkerConfig"]

ErrorHandler = Callable[[Exception, Any, Any], None]
"""Is called with the exception, the sample that failed and where that is from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerConfig:
    """How a run is spread over ranks and worker processes.

    Args:
        rank: This process among those that share the data.
        world_size: R, the number of these processes.
        num_workers: Worker processes of each rank; 0 loads in the rank's own process.
        data_parallel_group: The process group of these ranks, for saving and restoring global states.
        seed_offset: The seed of the run.
        worker_debug_path: Where workers log which samples they load; ``{worker_id}`` and ``{pid}`` are filled in.
        worker_log_level: 0 logs nothing, 1 each batch, 2 each sample as well.
        global_error_handler: Called for a sample that fails; by default logs it and goes on with the next.
        restore_error_handler: Called for a sample that fails while a state is restored; by default raises.
        lanes: L, a multiple of the world size, for a new run; a restored one keeps its own. By default
            ``lcm(world_size, 48)``; with packing or grouping, ``world_size · num_workers``.

    Raises:
        ConfigError: A number is out of range.
    """

    rank: int
    world_size: int
    num_workers: int
    data_parallel_group: Any = None
    seed_offset: int = 0
    worker_debug_path: str | Path | None = None
    worker_log_level: int = 0
    global_error_handler: ErrorHandler = log_exception
    restore_error_handler: ErrorHandler = reraise_exception
    lanes: int | None = None

    def __post_init__(self) -> None:
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise ConfigError(f"expected 0 <= rank < world_size, found rank {self.rank} of {self.world_size}")
        if self.num_workers < 0:
            raise ConfigError(f"expected num_workers of at least 0, found {self.num_workers}")
        if self.lanes is not None and (self.lanes < 1 or self.lanes % self.world_size):
            raise ConfigError(
                f"expected lanes to be a multiple of world_size={self.world_size}, found {self.lanes}",
                do="choose one that all the numbers of ranks divide on which the run may go on",
            )

    @classmethod
    def default_worker_config(cls, num_workers: int = 4, data_parallel_group: Any = None) -> WorkerConfig:
        """Take rank and world size from ``torch.distributed`` where it is initialised; else there is one rank."""
        rank, world_size = 0, 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            rank = torch.distributed.get_rank(data_parallel_group)
            world_size = torch.distributed.get_world_size(data_parallel_group)
        return cls(rank=rank, world_size=world_size, num_workers=num_workers, data_parallel_group=data_parallel_group)

    def __getstate__(self) -> dict[str, Any]:
        # A process group cannot go to a worker process, which has no use for it.
        return {**self.__dict__, "data_parallel_group": None}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WorkerConfig):
            return NotImplemented
        return self._spread() == other._spread()

    def __hash__(self) -> int:
        return hash(self._spread())

    def _spread(self) -> tuple[int, int, int, int, int | None]:
        return self.rank, self.world_size, self.num_workers, self.seed_offset, self.lanes
