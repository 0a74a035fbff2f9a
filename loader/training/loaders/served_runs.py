"""The runs of several data ranks in one process, a micro-batch of each at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import ConfigError
from ...pipeline.contract.stage import SavableDataset
from ...progress_bar import progress_bar
from ..stats.options import checked_stats
from ..stats.served_stats import ServedStats
from ..workers.stream_options import StreamOptions
from .lane_batches import LaneBatches, ShutDown
from .run import HeldPositions, LoaderRun, Position, iteration_over, not_measured

_END: Any = object()


class ServedPosition(NamedTuple):
    """The position between two steps.

    Attributes:
        ranks: The positions of the data ranks.
        over: The indexes of those that have ended, while others have not.
    """

    ranks: tuple[Position, ...]
    over: frozenset[int]


class ServedRuns:
    """Iterations over the steps of several data ranks, of which one is live at a time.

    Args:
        datasets: The chain of each data rank.
        options: Options of the workers of each data rank.

    Raises:
        ConfigError: The options have a port for metrics, which data ranks cannot share.

    Attributes:
        runs: The run of each data rank.
        options: The options.
        delivered: The position after the last step that the training loop got, if others were taken ahead of it.
        stats: The statistics; None for none.
        iteration: Identifies the live iteration; None if there is none.
    """

    def __init__(self, datasets: Sequence[SavableDataset[Any]], options: StreamOptions) -> None:
        self.options = options
        stats = checked_stats(options.stats)
        if stats is not None and stats.prometheus_port and len(datasets) > 1:
            raise ConfigError(
                f"the {len(datasets)} data ranks that this process serves cannot share prometheus_port="
                f"{stats.prometheus_port}",
                hint="pass prometheus_port=0, which chooses free ones, or prometheus_file",
            )
        own = options if stats is None else replace(options, stats=replace(stats, headroom=False))
        own = replace(own, progress=False)
        self._held = HeldPositions()
        self.runs = tuple(
            LoaderRun(dataset, own, held=self._held, number=number) for number, dataset in enumerate(datasets)
        )
        measured = {run.chain.worker_config.rank: run.stats for run in self.runs if run.stats is not None}
        self.stats = ServedStats(measured, headroom=stats is not None and stats.headroom) if measured else None
        self.delivered: ServedPosition | None = None
        self.iteration: object = None
        self._over: frozenset[int] = frozenset()  # in the last iteration, if that was left before its end

    @property
    def chain(self) -> SavableDataset[Any]:
        """The stages of the lanes, which are the same for all data ranks."""
        return self.runs[0].chain

    @property
    def lanes(self) -> LaneBatches:
        """The lanes of the first data rank, whose number is that of the run."""
        return self.runs[0].lanes

    @property
    def starts_over(self) -> bool:
        """True if the next iteration begins at the first step, as in validation."""
        return self.runs[0].starts_over

    def iterate(self, length: int | None) -> Iterator[tuple[Any, ...]]:
        """Begin an iteration, which ends the last one.

        Args:
            length: Steps of an iteration, for the progress bar; None if not known.
        """
        self._return()
        self.hold(self.position())
        if self.starts_over:
            self._over = frozenset()
        iterations = [
            iter(()) if number in self._over else run.iterate(None, raises_shut_down=True)
            for number, run in enumerate(self.runs)
        ]
        self.hold(None)
        self.iteration = iteration = object()
        steps = self._steps(iterations)
        if self.stats is not None and self.stats.trial is not None:
            steps = self.stats.trial.alternated(steps)
        steps = self._live(iteration, steps)
        return iter(progress_bar(steps, length, unit="step")) if self.options.progress else steps

    def _live(self, iteration: object, steps: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        while True:
            if iteration is not self.iteration:
                raise iteration_over()
            holds = self.delivered is None
            if holds:
                self.delivered = self.position()  # an error leaves it to the next iteration
                self._held.of_step = self.delivered.ranks
            step = next(steps, _END)
            if holds:
                self.delivered = self._held.of_step = None
            if step is _END:
                return
            yield step
            del step

    def _steps(self, iterations: Sequence[Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
        while True:
            before = self.position()
            try:
                step = tuple([next(own, _END) for own in iterations])
            except BaseException as error:
                # Without this, the data ranks before the one that failed would have lost their micro-batch.
                self.rewind(before)
                if isinstance(error, ShutDown):
                    return
                raise
            over = frozenset(number for number, batch in enumerate(step) if batch is _END)
            self._over = over if len(over) < len(step) else frozenset()
            if not over:
                yield step
            elif self._over:
                yield tuple(None if batch is _END else batch for batch in step)
            else:
                return

    def measured(self) -> ServedStats:
        """Return the statistics of all data ranks together.

        Raises:
            ConfigError: The loader was built without.
        """
        if self.stats is None:
            raise not_measured()
        return self.stats

    def start(self) -> None:
        """Start the workers; the next iteration uses them. Do nothing if they run."""
        if not self.lanes.is_running:
            self._return()
        for run in self.runs:
            run.start()

    def close(self) -> None:
        """End the workers; the position stays."""
        for run in self.runs:
            run.close()

    def end_iteration(self) -> None:
        """End the live iteration, before a state is restored."""
        self.hold(None)
        self.iteration = None
        self._over = frozenset()

    def position(self) -> ServedPosition:
        """Return the position after the last step that was taken."""
        return ServedPosition(ranks=tuple(run.position() for run in self.runs), over=self._over)

    def hold(self, position: ServedPosition | None) -> None:
        """Set the position of the training loop, whose states are saved; None: the last step that was taken."""
        self.delivered = position
        self._held.of_loop = None if position is None else position.ranks
        self._held.of_step = None

    def _return(self) -> None:
        """Return to the position of the training loop, if steps were taken ahead of it."""
        if self.delivered is not None:
            self.rewind(self.delivered)
            self.hold(None)

    def rewind(self, position: ServedPosition) -> None:
        """Continue from an earlier position of this run, in new workers; the live iteration ends."""
        self.iteration = None
        self._over = position.over
        for run, own in zip(self.runs, position.ranks, strict=True):
            run.rewind(own)
