"""The worker config that a user's dataset sees in a lane."""

from __future__ import annotations

from ...samples.hooks import running_hook_context
from .lane import Lane
from .worker_config import WorkerConfig


class LaneWorkerConfig(WorkerConfig):
    """The config that a user's dataset sees in a lane, which has the part of one worker."""

    @classmethod
    def of(cls, config: WorkerConfig, lane: Lane, ranks: int) -> LaneWorkerConfig:
        """Create the config of a lane.

        Args:
            config: The config of the run.
            lane: The lane.
            ranks: The number of ranks when the run began, so that a restored lane keeps its part.
        """
        share = lane.count // ranks
        found = cls(
            rank=lane.number % ranks,
            world_size=ranks,
            num_workers=0 if share == 1 and not config.num_workers else share,
            seed_offset=config.seed_offset,
            worker_debug_path=config.worker_debug_path,
            worker_log_level=config.worker_log_level,
            global_error_handler=config.global_error_handler,
            restore_error_handler=config.restore_error_handler,
        )
        object.__setattr__(found, "_worker", lane.number // ranks)
        return found

    def rank_worker_id(self) -> int:
        """Return the number of the lane among those of its rank."""
        worker: int = self.__dict__["_worker"]
        return worker

    def assert_worker(self) -> None:
        """Check that the code of a run is running."""
        if running_hook_context() is None:
            super().assert_worker()
