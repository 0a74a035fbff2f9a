"""The run of a loader: its iterations, its position and its workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import StateError
from ...pipeline.contract.stage import SavableDataset, as_stage
from ...progress_bar import progress_bar
from ..workers.stream_options import StreamOptions
from .debug_log import LoaderLog
from .lane_batches import LaneBatches
from .rank_chain import RankChain, cut_rank_stages

__all__ = ["LoaderRun"]

_END: Any = object()


class LoaderRun:
    """Iterations over the micro-batches of a rank, of which one is live at a time.

    Args:
        dataset: The chain.
        options: Options of the workers.

    Attributes:
        chain: The stages of the lanes.
        lanes: Their micro-batches.
        steps: The stages of the rank.
        options: Options of the workers.
    """

    def __init__(self, dataset: SavableDataset[Any], options: StreamOptions) -> None:
        self.chain, stages = cut_rank_stages(as_stage(dataset))
        self.options = options
        self.lanes = LaneBatches(self.chain, options)
        self.steps = RankChain(stages, self.lanes)
        self._log = LoaderLog.of(dataset)
        self._continues = False  # the next iteration continues, even if the loader is one that starts over
        self._iteration: object = None

    def iterate(self, length: int | None) -> Iterator[Any]:
        """Begin an iteration, which ends the last one.

        Args:
            length: Micro-batches of an iteration, for the progress bar; None if not known.
        """
        self._prepare()
        self._continues = False
        self._iteration = iteration = object()
        return self._iterate(iteration, length)

    def _iterate(self, iteration: object, length: int | None) -> Iterator[Any]:
        batches = self.steps.batches()
        if self.options.progress:
            batches = iter(progress_bar(batches, length, unit="batch"))
        if self._log is not None:
            batches = self._log.logged(batches)
        while True:
            if iteration is not self._iteration:
                raise StateError(
                    "this iteration of the loader is over: another one has begun, or a state was restored",
                    hint="finish with one iteration before the next, or make a second loader",
                )
            batch = next(batches, _END)
            if batch is _END:
                return
            yield batch

    def start(self) -> None:
        """Start the workers; the next iteration uses them. Do nothing if they run."""
        if not self.lanes.is_running:
            self._prepare()
            self._continues = True
            self.lanes.start()

    def _prepare(self) -> None:
        if self.chain.starts_over and not self._continues:
            self.steps.start_over()

    def end_iteration(self) -> None:
        """End the live iteration; the next one continues at the position, as after a restore."""
        self._iteration = None
        self._continues = True
