"""The run of a loader: the stages that count on the rank above the lanes, its iterations and its position."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

from ...errors import ConfigError, EnergonError, StateError
from ...pipeline.contract.rank_stage import cut_rank_stages, open_on_rank
from ...pipeline.contract.stage import SavableDataset, State, as_stage
from ...pipeline.failures.error_handlers import keys_of_sample
from ...pipeline.reading.read import dealt_samples
from ...pipeline.stages.batch import planned_window
from ...progress_bar import progress_bar
from ..states.mix_history import MixChanges
from ..states.mixes.begun import begin_as
from ..states.mixes.differences import run_differences
from ..states.mixes.edited_chain import ContinuedMix, continue_mix
from ..states.new_costs import with_new_costs
from ..states.run_state import ENDLESS, RunState, check_lanes
from ..states.run_steps import RunSteps, checked_skips
from ..stats.meter import readers_of
from ..stats.run_stats import RunPosition, RunStats
from ..workers.batch_trace import BatchTrace
from ..workers.stream_options import StreamOptions
from .lane_batches import LaneBatches, Position, ShutDown

_END: Any = object()
T_stats = TypeVar("T_stats")


@dataclass(slots=True, eq=False)
class HeldPositions:
    """The positions of the training loop, in each of the runs that take a step together, while they are ahead of it.

    A handler of a signal may save a state within any step. One assignment changes the positions of all runs, and none
    of Python's checks for signals lies between the last one and the ``yield`` of the step.

    Attributes:
        of_loop: The positions after the last step that the loop got, if others are taken ahead of it; else None.
        of_step: The positions before the step that is being taken; else None.
    """

    of_loop: tuple[Position, ...] | None = None
    of_step: tuple[Position, ...] | None = None


class LoaderRun:
    """Iterations over the micro-batches of a rank; one of them is live at a time.

    Args:
        held: The positions of the runs that take steps together; None for a run of its own.

    Attributes:
        built: The stages of the lanes, as the program built them.
        chain: The same; after a change of the mix, a copy that knows the earlier mixes.
        restored_lanes: The states of lanes with which the run was restored.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        options: StreamOptions,
        *,
        held: HeldPositions | None = None,
        number: int = 0,
    ) -> None:
        self._is_alone = held is None
        self._held = HeldPositions() if held is None else held
        self._number = number
        # Cut the chain where stages begin to count on the rank: the lanes end there.
        self.built, self._stages = cut_rank_stages(as_stage(dataset))
        self.chain = self.built
        self.mix_changes: MixChanges = ()
        self.options = options
        self.stats = RunStats.of(options.stats, self._facts)
        self.lanes = LaneBatches(
            self.chain,
            options,
            is_repeated=any(stage.repeats_input for stage in self._stages),
            meter=None if self.stats is None else self.stats.meter,
        )
        self._on_rank = open_on_rank(self._stages, [0] * len(self._stages), self.lanes)
        # Number the steps from the beginning of the run; a restore replaces the numbering.
        self.numbering = RunSteps(ranks_at=((0, dataset.worker_config.world_size),))
        self._leave_out(self.numbering)
        # Prepare the logs that the options and the worker config request.
        if options.trace_dir is not None:
            self.lanes.trace = partial(self._begin_trace, options.trace_dir)
        self._log = LoaderLog(dataset) if dataset.worker_config.should_log(1) else None
        self.restored_lanes: Mapping[int, State] = {}
        self._continues = False  # the next iteration continues, even if the loader is one that starts over
        self.iteration: object = None  # identifies the live one; None outside of iterations

    def _leave_out(self, numbering: RunSteps) -> None:
        given = self.options.skip_steps
        self.numbering = numbering.leaving_out(checked_skips(given)) if len(given) else numbering
        self.lanes.left_out = tuple(range(first, end) for *_, first, end in self.numbering.skips)
        if self.lanes.left_out and self.lanes.kind != ENDLESS:
            raise ConfigError(
                "skip_steps needs a training dataset without end: the steps of a pass differ between ranks",
                hint="build the dataset with get_train_dataset(…, repeat=True), or pass no skip_steps",
            )

    def _begin_trace(self, folder: str | os.PathLike[str]) -> BatchTrace:
        run = {**replace(self.state(), lane_states={}).to_plain(), "workers": self.chain.worker_config.num_workers}
        return BatchTrace.begin(folder, run)

    def iterate(self, length: int | None, *, raises_shut_down: bool = False) -> Iterator[Any]:
        """Begin an iteration, which ends the last one.

        Args:
            raises_shut_down: Raise :class:`.ShutDown` where the workers were ended meanwhile, instead of ending.
        """
        self._prepare()
        self._continues = False
        self.iteration = iteration = object()
        return self._iterate(iteration, length, raises_shut_down)

    def _iterate(self, iteration: object, length: int | None, raises_shut_down: bool) -> Iterator[Any]:
        # Wrap the micro-batches in what the options request: a progress bar, the log, statistics.
        held = self._held
        batches = self._on_rank[0].batches()
        if self.options.progress:
            batches = iter(progress_bar(batches, length, unit="batch"))
        if self._log is not None:
            batches = self._log.logged(batches)
        if self.stats is not None:
            batches = self.stats.meter.measured(batches)
            if self.stats.trial is not None:
                batches = self.stats.trial.alternated(batches)
        # Deliver them, until another iteration begins. While one is made, a state is that before it.
        while True:
            if iteration is not self.iteration:
                raise iteration_over()
            if self._is_alone:
                held.of_step = (self.position(),)  # an error leaves it to the next iteration
            try:
                batch = next(batches, _END)
            except ShutDown:
                if raises_shut_down:
                    raise
                return
            except ConfigError as error:
                if error.at:  # of a file, which is to be changed; the functions between do not help
                    raise error.with_traceback(None) from error.__cause__
                raise
            if self._is_alone:
                held.of_step = None
            if batch is _END:
                return
            yield batch

    def _facts(self) -> RunPosition:
        config = self.chain.worker_config
        positions = self._held.of_loop
        batch = self.lanes.batch if positions is None else positions[self._number].batch
        return RunPosition(
            chain=self.chain,
            rank=config.rank,
            ranks=config.world_size,
            step=-(-(batch - config.rank) // config.world_size),
            restarts=self.lanes.replacements.replaced,
            quarantined=len(self.lanes.replacements.quarantined),
        )

    def close(self) -> None:
        is_running = self.lanes.is_running
        self.lanes.close()
        if is_running and self.stats is not None:
            self.stats.close()

    def start(self) -> None:
        """Start the workers; the next iteration uses them. Do nothing if they run."""
        if not self.lanes.is_running:
            self._prepare()
            self._continues = True
            self.lanes.start()

    @property
    def starts_over(self) -> bool:
        """True if the next iteration begins at the first micro-batch, as in validation."""
        return self.chain.starts_over and not self._continues

    def _prepare(self) -> None:
        """Return to the position of the training loop, or to the first micro-batch of a loader that starts over."""
        delivered = self.delivered
        if delivered is not None and self._is_alone:
            self.rewind(delivered)
        if self.starts_over:
            self.hold(self.position())
            self._on_rank[0].start_over()
        self.hold(None)

    @property
    def delivered(self) -> Position | None:
        """The position after the last micro-batch that the training loop got, if the run is ahead of it; else None."""
        positions = self._held.of_loop or self._held.of_step
        return None if positions is None else positions[self._number]

    def position(self) -> Position:
        """Return the position after the last micro-batch that was taken."""
        lanes, counts = self.lanes, [stage.count for stage in self._on_rank[:-1]]
        return Position(lanes.batch, dict(lanes.lane_states), lanes.passes, lanes.ended, counts)

    def hold(self, position: Position | None) -> None:
        """Set the position of the training loop, whose state is saved; None: the last micro-batch that was taken.

        Runs that take steps together have a common one, which this does not change.
        """
        if self._is_alone:
            self._held.of_loop = None if position is None else (position,)
            self._held.of_step = None

    def rewind(self, position: Position) -> None:
        """Continue from an earlier position of this run, in new workers; the live iteration ends."""
        self.iteration = None
        self._on_rank = open_on_rank(self._stages, position.steps, self.lanes)
        self.lanes.restore(position)

    def state(self) -> RunState:
        """Return the position of this rank, after the last micro-batch that the training loop got."""
        # Take the position that the training loop has reached; workers may be ahead of it.
        config, lanes = self.chain.worker_config, self.lanes
        position = self.delivered or self.position()
        return RunState(
            lanes=lanes.lanes,
            ranks=config.world_size,
            rank=config.rank,
            seed=config.seed_offset,
            dataset=self.chain.identity(),
            **position._asdict(),
            kind=lanes.kind,
            deal=dealt_samples(self.chain, lanes.lanes),
            window=planned_window(self.chain, lanes.lanes),
            mix_changes=self.mix_changes,
            ranks_at=self.numbering.ranks_at,
            skip_steps=self.numbering.skips,
            worker_restarts=lanes.replacements.replaced,
            quarantined=lanes.replacements.quarantined,
        )

    def restore(self, saved: RunState, lane_states: Mapping[int, State], *, allow_mix_change: bool) -> None:
        """Continue from the position of this rank."""
        if self.stats is not None:
            self.stats.end_profile()
        config = self.built.worker_config
        # A run that began with other ranks, exclusions or windows counts as the saved one does.
        dataset = self.built.identity()
        is_begun_so = dataset == saved.dataset and planned_window(self.built, saved.lanes) == saved.window
        before = None if is_begun_so else self.state()
        try:
            if before is not None:
                begin_as(self.built, saved)
                dataset = self.built.identity()
                saved, lane_states = with_new_costs(self.built, saved, lane_states)
            # Compare the run with the saved one as a whole; only a difference is examined further.
            mix = ContinuedMix(chain=self.built, changes=(), change=None)
            here = (dataset, config.seed_offset, self.lanes.lanes, dealt_samples(self.built, saved.lanes))
            if saved.mix_changes or here != (saved.dataset, saved.seed, saved.lanes, saved.deal):
                mix = self._continue_mix(saved, lane_states, allowed=allow_mix_change)
            check_lanes(saved.lane_states, mix.chain.state_schema())
            if mix.changes:
                mix.check(saved)
                mix.log(saved, rank=config.rank)
            # Set the position; the lanes open there with the next iteration.
            counted_on = saved.counted_on or saved.ranks
            self._on_rank = open_on_rank(self._stages, saved.steps, self.lanes, counted_on=counted_on)
            self.chain = self.lanes.chain = mix.chain
            self.mix_changes = mix.changes
            self._leave_out(saved.steps_on(config.world_size))
            self.lanes.lanes = saved.lanes
            self.lanes.restore(saved)
            self.lanes.replacements.restore(saved.worker_restarts, saved.quarantined)
        except EnergonError:
            if before is not None:
                begin_as(self.built, before)
            raise
        self.restored_lanes = {**lane_states}
        if self.stats is not None:
            self.stats.clear()
        # End the live iteration; the next one continues at the position.
        self._held.of_loop = self._held.of_step = None
        self.iteration = None
        self._continues = True

    def _continue_mix(self, saved: RunState, lane_states: Mapping[int, State], *, allowed: bool) -> ContinuedMix:
        """Return the chain of a changed mix, or refuse the state of another run."""
        # Compare the data and the stages.
        kind = self.lanes.kind
        mix = continue_mix(self.built, saved, kind=kind, lanes=lane_states, allowed=allowed)
        # Compare the rest of the run; without lanes in the config, the run takes the lanes of the state.
        config = self.built.worker_config
        now = RunState(
            lanes=config.lanes or 0,
            ranks=config.world_size,
            rank=config.rank,
            seed=config.seed_offset,
            deal=dealt_samples(mix.chain, saved.lanes),
        )
        differences = run_differences(saved, now)
        if differences:
            raise StateError(
                "the state is of another run:\n  " + "\n  ".join(map(str, differences)),
                hint=f"pass WorkerConfig(seed_offset={saved.seed}, lanes={saved.lanes}); without lanes, a restored run "
                "keeps its own",
            )
        # Check that the present ranks can share the lanes.
        self.lanes.check_lanes(saved.lanes)
        return mix


def required_stats(stats: T_stats | None) -> T_stats:
    """Return the statistics of a loader that measures."""
    if stats is None:
        raise ConfigError("this loader measures nothing", hint="build it without stats=False")
    return stats


def iteration_over() -> StateError:
    """Return the error for an iteration that is continued after another one has begun."""
    return StateError(
        "this iteration of the loader is over: another one has begun, or a state was restored",
        hint="finish with one iteration before the next, or make a second loader",
    )


_numbers: defaultdict[int, Iterator[int]] = defaultdict(count)  # by rank: the loaders of all ranks have equal numbers


class LoaderLog:
    """Writes a line for the loader, for each iteration and its end, and for each micro-batch that reaches the rank."""

    def __init__(self, dataset: SavableDataset[Any]) -> None:
        self._config = dataset.worker_config
        self._number = next(_numbers[self._config.rank])
        self.iterations = 0
        self._delivered = 0
        self._write("SavableLoader.__init__", config=_description(dataset))

    def logged(self, batches: Iterator[Any]) -> Iterator[Any]:
        iteration = self.iterations
        self.iterations += 1
        self._write("SavableDataLoader.iter", iter_id=iteration)
        for index, batch in enumerate(batches):
            self._write(
                "SavableDataLoader.yield",
                iter_id=iteration,
                idx=index,
                iter_idx=index,
                global_idx=self._delivered,
                keys=list(keys_of_sample(batch)),
            )
            self._delivered += 1
            yield batch
        self._write("SavableDataLoader.StopIteration", iter_id=iteration)

    def _write(self, event: str, **fields: Any) -> None:
        self._config.worker_log({"t": event, "r": self._config.rank, "w": None, "id": self._number, **fields})


def _description(dataset: SavableDataset[Any]) -> dict[str, Any]:
    """Describe a chain in the nesting of megatron-energon: the paths of its datasets, and if they are for training."""
    sources = [source for reader in readers_of(dataset) for source in reader.sources]
    paths = [
        source.describe() if source.recipe.stores.ref is None else source.recipe.stores.ref.path for source in sources
    ]
    factory = {"type": "StandardWebdatasetFactory", "training": not dataset.starts_over}
    described: list[dict[str, Any]] = [{"map_fn_config": {**factory, "_path": path}} for path in paths]
    return described[0] if len(described) == 1 else {"type": "BlendDataset", "datasets": described}
