"""Load the samples of one step of a run again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, StateError, plural
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.rng import preserve_rng_state
from ...pipeline.contract.stage import SKIPPED, SavableDataset, State
from ...pipeline.stages.batch import BatchDataset, PlannedGroupsDataset
from ..states.run_state import ENDLESS, check_lanes
from ..workers.running_lane import LanesInTurn, remade_batches

if TYPE_CHECKING:
    from .run import LoaderRun

_MADE, _READ = "made", "0 read"


def replay_step(run: LoaderRun, step: int) -> Any:
    """Rebuild the micro-batch of a step on this rank; the loader's position stays."""
    # Only a run without end has steps that all ranks make together.
    if run.lanes.kind != ENDLESS:
        raise ConfigError(
            "expected a training dataset without end: the steps of a pass differ between ranks",
            hint="pass the __restore_key__ of a micro-batch to restore_sample()",
        )
    if step < 0:
        raise ConfigError(f"expected a step of at least 0, found {step}", hint="steps are counted from 0")
    # Find the micro-batch, which the present number of ranks need not have made.
    batches, rank = run.numbering.batches(step), run.chain.worker_config.rank
    if rank >= len(batches):
        raise ConfigError(f"step {step} was made on {plural(len(batches), 'rank')}; this is rank {rank}")
    # Begin at a state that this loader knows, which may be near the step.
    lane = batches[rank] % run.lanes.lanes
    known = [states[lane] for states in (run.lanes.lane_states, run.restored_lanes) if lane in states]
    batch, _ = replay_batch(run.chain, batches[rank], lanes=run.lanes.lanes, known=known)
    if batch is SKIPPED:
        raise StateError(f"step {step} has no micro-batch on rank {rank}: all its samples were skipped")
    return batch


def replay_batch(
    chain: SavableDataset[Any], batch_number: int, *, lanes: int, known: Iterable[State]
) -> tuple[Any, ItemId]:
    """Rebuild a micro-batch of an endless run.

    Returns:
        The micro-batch, :data:`SKIPPED` if all its samples were skipped, and its item id.
    """
    lane, turn, known = batch_number % lanes, batch_number // lanes, list(known)
    for state in known:
        check_lanes({lane: state}, chain.state_schema())
    start = _start(chain, turn, known)
    host = LanesInTurn(dataset=chain, lanes=lanes, states={lane: start} if start else {})
    with preserve_rng_state():
        for message, item_id in remade_batches(host, lane):
            if message.number == batch_number:
                return message.batch, item_id
    raise StateError(f"this state is damaged: lane {lane} ends before micro-batch {batch_number}")


def _start(chain: SavableDataset[Any], turn: int, known: list[State]) -> State:
    """Return the nearest state of a lane before a turn of it, without one that was not saved if possible."""
    size = _samples_of_batch(chain)
    if size is not None and any(
        _MADE in state and state[_MADE] >= turn and _has_no_gap(state, size) for state in known
    ):
        return {_MADE: turn, _READ: turn * size}
    before = [state for state in known if state.get(_MADE, 0) <= turn]
    return max(before, key=lambda state: state.get(_MADE, 0), default={})


def _has_no_gap(state: State, size: int) -> bool:
    """Report whether a lane made each micro-batch of the samples that followed: nothing was skipped or buffered."""
    return state.keys() == {_MADE, _READ} and state[_READ] == state[_MADE] * size


def _samples_of_batch(chain: SavableDataset[Any]) -> int | None:
    """Return the number of samples of each micro-batch, if nothing is skipped; None if it varies."""
    size = 1
    stage = chain
    while stage.inputs:
        if len(stage.inputs) != 1 or stage.waits:
            return None
        if isinstance(stage, PlannedGroupsDataset) and stage.varies:
            return None
        if isinstance(stage, BatchDataset):
            size *= stage.batch_size
        stage = stage.inputs[0]
    return size
