"""A run as its checkpoint or its log describes it: the arguments are in the states."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import ConfigError, StateError, plural
from ...pipeline.contract.item_id import LANE_ITEM, ItemId
from ...pipeline.contract.stage import State
from ...samples.encoding.task_encoder import TaskEncoder
from ...training.loaders.replay import restore_sample
from ...training.loaders.replay_step import replay_batch
from ...training.states import MixChanges, RunState, chain_differences, edited_chain, merge_mix_changes, read_run_states
from ...training.states.mixes.begun import begin_as
from ...training.workers.batch_trace import TraceFile, list_traces
from ...training.workers.running_lane import MICRO_BATCH, LanesInTurn, remade_batches
from ..facts import kind_of_path
from .planned_run import PlannedRun, order_of_blends, order_stages, request_of, stages_of

_PLAIN_STAGES = {"read", "decode", "batch", "blend"}
_BLEND = " blend"  # end of the keys of blends by volume
_HINT = "pass --task-encoder module:Class with the hooks of the run, or the folder of the loader's trace_dir"


def is_trace_folder(path: str) -> bool:
    """Return True for a folder of traces, which a loader with ``trace_dir`` writes."""
    return "://" not in path and bool(list_traces(path))


class SamplePlace(NamedTuple):
    """The place of a sample in the stream of a lane; ``path`` has the origins of the blends above its reader."""

    lane: int
    path: tuple[int, ...]
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRun:
    """A run that was trained.

    Attributes:
        log: Files of its log; empty without one.
        has_hooks: The run has hooks that may skip, pack or generate samples.
        steps: Number of steps that it made until its checkpoint.
    """

    run: PlannedRun
    lane_states: Mapping[int, State]
    log: tuple[TraceFile, ...]
    has_hooks: bool
    steps: int

    @classmethod
    def of(cls, run: PlannedRun) -> RestoredRun:
        """Return a run from its arguments alone."""
        return cls(run=run, lane_states={}, log=(), has_hooks=False, steps=0)

    def logged(self, numbers: Sequence[int]) -> dict[int, ItemId]:
        """Return the item ids of micro-batches in the log; of several starts of the workers, the last one counts."""
        item_ids: dict[int, ItemId] = {}
        # The names of files show which of them may have the micro-batches; the others are not read.
        hosts = {self._host(file, batch_number) for file in self.log for batch_number in numbers}
        for file in self.log:
            if any(f"-{host}." in Path(file.path).name for host in hosts):
                missing = {*numbers} - item_ids.keys()
                item_ids |= dict(file.records(missing.__contains__))
        return item_ids

    def _host(self, file: TraceFile, batch_number: int) -> str:
        # The lanes of a rank are dealt to its workers in turns.
        ranks, first = file.run["ranks"], file.run["batch"]
        turn, rank = divmod(batch_number - first, ranks)
        worker = turn % (file.run["lanes"] // ranks) % max(1, file.run["workers"])
        return f"rank{rank:06}-worker{worker:03}"

    def known_state(self, batch_number: int) -> State | None:
        """Return the state of a lane from which a micro-batch can be located; None for the beginning of the run."""
        lane, lane_batch = batch_number % self.run.lanes, batch_number // self.run.lanes
        state = self.lane_states.get(lane)
        if state is None:
            return None
        made = state.get("made", 0)
        # From a later state there is no way back, and hooks may have used other samples than the order has.
        is_before = made <= lane_batch
        if not (_is_plain(state) and is_before and not self.has_hooks):
            self.check_gaps(lane)
        return {"made": made, "0 read": state.get("0 read", 0)} if is_before else None

    def check_gaps(self, lane: int) -> None:
        """Check that a lane made its micro-batches of all its samples, so that its samples follow the order."""
        state = self.lane_states[lane]
        made, size = state.get("made", 0), self.run.batch_size
        if not _is_plain(state) or not self.run.is_without_gaps(lane, state):
            raise StateError(
                f"lane {lane} made {plural(made, 'micro-batch', 'micro-batches')} of {size} from other samples than"
                " those at its first positions: samples were skipped, packed or generated, or failed",
                hint=_HINT,
            )

    def replay(self, batch_number: int) -> tuple[Any, ItemId]:
        """Rebuild a micro-batch, and return it with its item id; ``SKIPPED`` if all its samples were skipped."""
        if self.has_hooks and self.run.request.task_encoder is None:
            raise StateError("the micro-batches of this run were made with hooks", hint=_HINT.partition(", or")[0])
        lane, lanes = batch_number % self.run.lanes, self.run.lanes
        # The log has the samples of each micro-batch; without it, hooks run again from the state.
        item_id = self.logged([batch_number]).get(batch_number) if self.log else None
        if item_id is not None:
            if self.run.request.batch_size is None and isinstance(item_id, tuple) and len(item_id) == 1:
                item_id = item_id[0]
            return restore_sample(self.run.chain, (MICRO_BATCH, lane, batch_number, item_id), lanes=lanes), item_id
        return replay_batch(self.run.chain, batch_number, lanes=lanes, known=self._known(lane))

    def made_of(self, batch_number: int) -> ItemId:
        """Return the item id of a micro-batch, by rebuilding it."""
        run, lane = self.run, batch_number % self.run.lanes
        if run.request.task_encoder is not None or not run.is_volume:
            return self.replay(batch_number)[1]
        return replay_batch(run.order_chain, batch_number, lanes=run.lanes, known=self._known(lane))[1]

    def _known(self, lane: int) -> list[State]:
        return [self.lane_states[lane]] if lane in self.lane_states else []

    def all_made(self, lane: int, batches: int) -> Iterator[tuple[int, ItemId]]:
        """Yield the numbers and item ids of a lane's first micro-batches, of a run by volume, by rebuilding them."""
        run = self.run
        chain = run.chain if run.request.task_encoder is not None else run.order_chain
        for message, item_id in islice(remade_batches(LanesInTurn(dataset=chain, lanes=run.lanes), lane), batches):
            yield message.number, item_id


def _is_plain(state: State) -> bool:
    return state.keys() <= {"made", "0 read"}


def is_run(path: str) -> bool:
    """Return True for a checkpoint or a folder of traces, False for data."""
    return is_trace_folder(path) or kind_of_path(path) == "checkpoint"


def load_task_encoder(name: str) -> TaskEncoder[Any, Any, Any, Any]:
    """Import ``module:Class`` or ``module:function``, also from the working directory, and call it."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"expected module:Class as the task encoder, found {name!r}")
    # The hooks are often in a script of the working directory.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        encoder = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the task encoder {name} cannot be created: {type(error).__name__}: {error}",
            hint="name a class that takes no arguments, or a function that returns the encoder",
        ) from error
    if not isinstance(encoder, TaskEncoder):
        raise ConfigError(f"expected {name} to return a TaskEncoder, found a {type(encoder).__name__}")
    return encoder


def open_run(
    path: str,
    *,
    dataset: str | None = None,
    trust_code: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
) -> RestoredRun:
    """Open the run of a checkpoint, or of a log.

    Args:
        path: A file or folder with the states of a run, or the ``trace_dir`` of its loaders.
        dataset: The dataset or metadataset; None: the only dataset of the run.
    """
    # Read the states, or the states in the log.
    log = tuple(map(TraceFile.open, list_traces(path))) if is_trace_folder(path) else ()
    states = [RunState.from_plain(log[0].run, allow_edited=True)] if log else read_run_states(path)
    state = states[0]
    if state.kind not in ("endless", None):
        raise StateError(f"expected the state of a run without end, found one of kind {state.kind!r}", at=path)
    # Plan the run, and compare it with the state.
    run = PlannedRun(request_of(state, dataset, trust_code=trust_code, task_encoder=task_encoder))
    if run.is_volume and not log and task_encoder is None and order_of_blends(state.dataset) != "columns":
        raise StateError("the order of this run depends on sizes that a metric of its task encoder counted", hint=_HINT)
    begin_as(run.chain, state)
    if task_encoder is None and not run.is_volume:  # whether hooks make several samples is not known
        run.reader.plan = replace(run.plan, deal=state.deal or None)
    _check(state, run, whole=task_encoder is not None)
    # Continue with the mix and the lanes of the run.
    run.chain = edited_chain(run.chain, merge_mix_changes(_mix_changes(states, log)))
    run.lanes, run.seed, run.steps = state.lanes, state.seed, state.run_steps
    return RestoredRun(
        run=run,
        lane_states={lane: lane_state for run_state in states for lane, lane_state in run_state.lane_states.items()},
        log=log,
        steps=state.run_steps.place(state.batch)[0],
        has_hooks=not {name for name, _ in stages_of(state.dataset)} <= _PLAIN_STAGES,
    )


def _mix_changes(states: Sequence[RunState], log: Sequence[TraceFile]) -> list[MixChanges]:
    """Return the changes of the mix as the ranks know them: each may know the positions of some lanes only."""
    if not log:
        return [state.mix_changes for state in states]
    known = [RunState.from_plain(file.run, allow_edited=True).mix_changes for file in log]
    return [changes for changes in known if len(changes) == len(known[0])]


def _check(state: RunState, run: PlannedRun, *, whole: bool) -> None:
    """Check that the datasets, and with ``whole`` the stages, are the same as in the run."""
    saved, now = state.dataset, run.chain.identity()
    if not whole:
        saved, now = order_stages(saved), order_stages(now)
    faults = [str(difference) for difference in chain_differences(saved, now)]
    if faults:
        raise StateError(
            "the run was trained with other data or another pipeline:\n  " + "\n  ".join(faults[:8]),
            hint="pass the dataset of the run as --dataset; energon diff lists all differences",
        )


def samples_of(item_id: ItemId, lane: int, path: tuple[int, ...] = ()) -> Iterator[SamplePlace]:
    """Yield the places of the samples of an item, in its order; a sample may come several times.

    >>> [(place.lane, place.position) for place in samples_of((("2 encode_sample", 1, 7), ("lane", 3, 8)), 0)]
    [(0, 7), (3, 8)]
    >>> [place.path for place in samples_of((("1 blend", 4, ("2 encode_sample", 0, 7)), ("1 blend", 2, 9)), 0)]
    [(4,), (2,)]
    """
    if not isinstance(item_id, tuple):
        yield SamplePlace(lane, path, item_id)
    elif item_id and isinstance(item_id[0], str):
        stage, position, inner = item_id
        if stage == LANE_ITEM:
            yield from samples_of(inner, position, path)
        else:
            yield from samples_of(inner, lane, (*path, position) if stage.endswith(_BLEND) else path)
    else:
        for part in item_id:
            yield from samples_of(part, lane, path)
