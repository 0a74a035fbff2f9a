"""The loader of a process that serves several data ranks, such as a rank of an encoder for several ranks of a model."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any, NamedTuple

from ...errors import ConfigError, StateError, plural
from ...pipeline.contract.rank_group import is_distributed
from ...pipeline.contract.stage import SavableDataset, State, as_stage
from ...pipeline.measuring.counts import add_numbers
from ...pipeline.stages.even_ranks import EvenRanksDataset
from ...progress_bar import progress_bar
from ..states.found_states import ALL_RANKS
from ..states.run_state import RunState
from ..states.run_steps import RunSteps
from ..stats.headroom import HeadroomTrial
from ..stats.options import checked_stats
from ..stats.profile import LoaderProfile, check_trace_path
from ..stats.run_stats import RunStats
from ..stats.snapshot import BY_NAME, COUNTS, LoaderStats, SourceStats, sums_of_costs, with_all_served
from ..workers.stream_options import StreamOptions
from .data_loader import DataLoader
from .lane_batches import LaneBatches, Position, ShutDown
from .replay_step import replay_step
from .run import HeldPositions, LoaderRun, iteration_over, required_stats
from .served_states import SERVED, broadcast_to_serving, gather_served, states_of_served


class ServingDataLoader(DataLoader[tuple[Any, ...]]):
    """Iterate the micro-batches of several data ranks in step: ``get_loader(dataset, serves=[…])`` returns it.

    Each item is a tuple: for each data rank of ``serves``, in this order, the micro-batch that its own loader would
    give at this step. In a finite pass a data rank may end before others; then its place holds None until all
    have ended.

    The ``rank`` of the worker config is not used. Its ``data_parallel_group`` is the group of the processes that serve,
    over which :meth:`save_state_global` gathers the state of each data rank once. Its ``dst_rank``, and the
    ``src_rank`` of :meth:`restore_state_global`, count these processes. Each data rank has
    ``num_workers`` workers here.

    Args:
        dataset: The chain.
        options: Options of the workers of each data rank.
        serves: The data ranks.

    Raises:
        ConfigError: ``serves`` is empty, names a data rank twice, or one that the run does not have; or the dataset
            ends passes evenly, which needs messages between the data ranks.
    """

    run: ServedRuns  # type: ignore[assignment] # it has the methods of a LoaderRun that this class calls

    def __init__(self, dataset: SavableDataset[Any], options: StreamOptions, *, serves: Sequence[int]) -> None:
        self.serves = checked_serves(serves, dataset.worker_config.world_size)
        self._datasets = [_on_rank(as_stage(dataset), rank) for rank in self.serves]
        super().__init__(dataset, run=ServedRuns(self._datasets, options))  # type: ignore[arg-type] # likewise

    def __len__(self) -> int:
        """Return the number of steps of an iteration: the largest number of micro-batches of a data rank."""
        return max(map(len, self._datasets))

    def stats(self, *, gather: bool = False) -> LoaderStats:
        """Return the sums over the served data ranks, for which the loop waits one after another.

        ``rank`` is the first of them, and ``workers`` has the workers of all, numbered through.

        Args:
            gather: Also return the waits for each data rank, of all processes of the group, which must all call it.

        Raises:
            ConfigError: The loader was built with ``stats=False``.
        """
        measured = required_stats(self.run.stats)
        stats = measured.stats()
        return with_all_served(stats, measured.each(), self.worker_config) if gather else stats

    # --------------------------------------------------------------------------------- saving and restoring

    def save_state_rank(self) -> dict[str, Any]:
        """Return the states of the served data ranks, after the last step that was delivered.

        Returns:
            Plain data. A loader of one of these data ranks restores it, too.
        """
        return {SERVED: list(self._plain_states().values())}

    def _plain_states(self) -> dict[int, dict[str, Any]]:
        return {rank: run.state().to_plain() for rank, run in zip(self.serves, self.run.runs, strict=True)}

    def restore_state_rank(
        self, state: dict[str, Any] | None, *, allow_mix_change: bool = False, allow_edited_state: bool = False
    ) -> None:
        """Continue from the states of the served data ranks, as :meth:`DataLoader.restore_state_rank` does.

        Args:
            state: The result of :meth:`save_state_rank` of a loader that served these data ranks, or more.
        """
        if state is None:
            return
        # Each served data rank needs its state.
        saved = {part.rank: part for part in states_of_served(state, allow_edited=allow_edited_state)}
        ranks = self.worker_config.world_size
        for rank in self.serves:
            if rank not in saved or saved[rank].ranks != ranks:
                raise StateError(
                    f"this state is of the data ranks {', '.join(map(str, saved))} of "
                    f"{next(iter(saved.values())).ranks}; this loader serves {', '.join(map(str, self.serves))} of "
                    f"{ranks}",
                    hint="pass the states of all data ranks to restore_state_global()",
                )
        # Restore each run with the lanes of all parts: a replay may begin in any of them.
        ended = all(saved[rank].ended for rank in self.serves)  # until then, a rank that has ended waits for others
        self._restore(
            {rank: replace(saved[rank], ended=ended) for rank in self.serves},
            {lane: lane_state for part in saved.values() for lane, lane_state in part.lane_states.items()},
            allow_mix_change=allow_mix_change,
        )

    def _restore(
        self,
        saved: Mapping[int, RunState] | Sequence[RunState],
        lane_states: Mapping[int, State],
        *,
        allow_mix_change: bool,
    ) -> None:
        self.run.end_iteration()
        for run, rank in zip(self.run.runs, self.serves, strict=True):
            run.restore(saved[rank], lane_states, allow_mix_change=allow_mix_change)

    def _gather(self, dst_rank: int) -> Any:
        return gather_served(self._plain_states(), self.worker_config, dst_rank)

    def _broadcast(self, state: Any, src_rank: int) -> Any:
        return broadcast_to_serving(state, self.worker_config, src_rank)

    def state_dict(self) -> dict[str, Any]:
        if not is_distributed():
            return self.save_state_rank()
        return {ALL_RANKS: gather_served(self._plain_states(), self.worker_config, None)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if ALL_RANKS in state_dict:
            self.restore_state_global(state_dict[ALL_RANKS])
        else:
            self.restore_state_rank(state_dict)

    def replay(self, step: int) -> tuple[Any, ...]:
        return tuple(replay_step(run, step) for run in self.run.runs)


def checked_serves(serves: Any, ranks: int) -> tuple[int, ...]:
    """Return the argument ``serves`` as integers."""
    try:
        ranks_served = tuple(map(index, serves))
    except TypeError:
        raise TypeError(f"expected a list of data ranks as serves, such as [0, 1], found {serves!r}") from None
    # Check the ranks one by one, so that the message names the wrong one.
    if not ranks_served:
        raise ConfigError("expected at least one data rank as serves, found none", hint="pass no serves for one rank")
    for position, rank in enumerate(ranks_served):
        if not 0 <= rank < ranks:
            raise ConfigError(
                f"expected data ranks from 0 to {ranks - 1} as serves, found {rank}",
                hint="the world_size of the worker config is the number of data ranks of the run, not of the processes "
                "that serve them",
            )
        if rank in ranks_served[:position]:
            raise ConfigError(f"expected each data rank once as serves, found {rank} twice")
    return ranks_served


def _on_rank(dataset: SavableDataset[Any], rank: int) -> SavableDataset[Any]:
    """Copy the definitions of a chain for another data rank of the run."""
    if isinstance(dataset, EvenRanksDataset):
        dataset = dataset.without_agreement()
    copied = copy.copy(dataset)
    copied.worker_config = replace(dataset.worker_config, rank=rank)
    copied.inputs = tuple(_on_rank(upstream, rank) for upstream in dataset.inputs)
    return copied


_END: Any = object()


class ServedPosition(NamedTuple):
    """The position between two steps.

    Attributes:
        over: The indexes of data ranks that have ended, while others have not.
    """

    ranks: tuple[Position, ...]
    over: frozenset[int]


class ServedRuns:
    """Iterations over the steps of several data ranks; one of them is live at a time.

    Attributes:
        delivered: The position after the last step that the training loop got, if others were taken ahead of it.
        iteration: Identifies the live iteration; None outside of iterations.
    """

    def __init__(self, datasets: Sequence[SavableDataset[Any]], options: StreamOptions) -> None:
        self.options = options
        # Check what the data ranks cannot share.
        stats = checked_stats(options.stats)
        if stats is not None and stats.prometheus_port and len(datasets) > 1:
            raise ConfigError(
                f"the {plural(len(datasets), 'data rank')} that this process serves cannot share prometheus_port="
                f"{stats.prometheus_port}",
                hint="pass prometheus_port=0, which chooses free ones, or prometheus_file",
            )
        # The trial and the progress bar count steps of all data ranks, so no single run has them.
        rank_options = options if stats is None else replace(options, stats=replace(stats, headroom=False))
        rank_options = replace(rank_options, progress=False)
        # Build a run for each data rank; they share the positions of the training loop.
        self._held = HeldPositions()
        self.runs = tuple(
            LoaderRun(dataset, rank_options, held=self._held, number=number) for number, dataset in enumerate(datasets)
        )
        # Sum their statistics.
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
        return self.runs[0].lanes

    @property
    def restored_lanes(self) -> Mapping[int, State]:
        return self.runs[0].restored_lanes

    @property
    def numbering(self) -> RunSteps:
        return self.runs[0].numbering

    @property
    def starts_over(self) -> bool:
        return self.runs[0].starts_over

    def iterate(self, length: int | None) -> Iterator[tuple[Any, ...]]:
        """Begin an iteration, which ends the last one."""
        self._return()
        self.hold(self.position())
        if self.starts_over:
            self._over = frozenset()
        iterations = [
            iter(()) if index in self._over else run.iterate(None, raises_shut_down=True)
            for index, run in enumerate(self.runs)
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
                step = tuple([next(iteration, _END) for iteration in iterations])
            except BaseException as error:
                # Without this, the data ranks before the one that failed would have lost their micro-batch.
                self.rewind(before)
                if isinstance(error, ShutDown):
                    return
                raise
            over = frozenset(index for index, batch in enumerate(step) if batch is _END)
            self._over = over if len(over) < len(step) else frozenset()
            if not over:
                yield step
            elif self._over:
                yield tuple(None if batch is _END else batch for batch in step)
            else:
                return

    def start(self) -> None:
        if not self.lanes.is_running:
            self._return()
        for run in self.runs:
            run.start()

    def close(self) -> None:
        for run in self.runs:
            run.close()

    def end_iteration(self) -> None:
        self.hold(None)
        self.iteration = None
        self._over = frozenset()

    def position(self) -> ServedPosition:
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
        self.iteration = None
        self._over = position.over
        for run, rank_position in zip(self.runs, position.ranks, strict=True):
            run.rewind(rank_position)


_SUMS = (*COUNTS, "waited_s", "queue", "queue_capacity", "shared_bytes", "restarts", "quarantined")


class ServedStats:
    """The statistics of the data ranks that one process serves. It has the methods of :class:`.RunStats`."""

    def __init__(self, runs: Mapping[int, RunStats], *, headroom: bool) -> None:
        self._runs = runs
        self.trial: HeadroomTrial | None = HeadroomTrial(self._queued) if headroom else None

    def _queued(self) -> int:
        """Return the steps that wait for the training loop, at most."""
        return max(run.meter.queued() for run in self._runs.values())

    def begin_trial(self, rounds: int | None) -> None:
        self.trial = HeadroomTrial(self._queued, rounds=rounds)

    def profile(self, path: str | os.PathLike[str] | None, steps: int | None) -> LoaderProfile:
        check_trace_path(path)
        meters = {rank: run.meter for rank, run in self._runs.items()}
        return LoaderProfile(meters, self.stats, path=path, steps=steps)

    def each(self) -> list[LoaderStats]:
        return [run.stats() for run in self._runs.values()]

    def stats(self) -> LoaderStats:
        """Return the sums over the data ranks, since the first iteration."""
        meters = [run.meter for run in self._runs.values()]
        begins = [meter.begin_ns for meter in meters if meter.begin_ns]
        ends = [meter.begin_ns + meter.elapsed_ns for meter in meters if meter.begin_ns]
        elapsed_s = (max(ends) - min(begins)) / 1e9 if begins else 0.0
        total = _sum_of(self.each(), elapsed_s)
        return replace(total, headroom=None if self.trial is None else self.trial.found)


def _sum_of(parts: Sequence[LoaderStats], elapsed_s: float) -> LoaderStats:
    # Sum the counts, and the times by name, longest first.
    sums: dict[str, Any] = {name: sum(getattr(stats, name) for stats in parts) for name in _SUMS}
    for name in BY_NAME:
        total: dict[str, float] = {}
        for stats in parts:
            add_numbers(total, getattr(stats, name))
        sums[name] = dict(sorted(total.items(), key=lambda item: -item[1]))
    # Number the workers through, and weigh the cost of measuring by the time of each rank's workers.
    workers = [worker for stats in parts for worker in stats.workers]
    busy_s = [sum(worker.busy_s for worker in stats.workers) for stats in parts]
    cost_s = sum(stats.cost_share * busy for stats, busy in zip(parts, busy_s, strict=True))
    # All data ranks take a step together, so the longest count is the number of steps.
    return replace(
        parts[0],
        steps=max(stats.steps for stats in parts),
        step=max(stats.step for stats in parts),
        elapsed_s=elapsed_s,
        sources=tuple(_source_of(same) for same in zip(*(stats.sources for stats in parts), strict=True)),
        workers=tuple(replace(worker, worker=index) for index, worker in enumerate(workers)),
        cost_share=cost_s / sum(busy_s) if sum(busy_s) else 0.0,
        **sums,
    )


def _source_of(parts: Sequence[SourceStats]) -> SourceStats:
    sizes: dict[str, float] = {}
    for source in parts:
        add_numbers(sizes, source.sizes)
    numbers = {name: sum(getattr(source, name) for source in parts) for name in COUNTS}
    hints = {cost: hint for source in parts for cost, hint in source.write_again.items()}
    return replace(parts[0], sizes=sizes, costs=sums_of_costs(parts), write_again=hints, **numbers)
