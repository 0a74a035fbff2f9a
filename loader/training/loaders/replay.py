"""Rebuild the micro-batch of an earlier step."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, StateError, plural
from ...format.documents.messages import short_repr
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.lane import Lane, set_restore_key
from ...pipeline.contract.rng import preserve_rng_state, seed_batch
from ...pipeline.contract.stage import SKIPPED, SavableDataset, State
from ...pipeline.stages.batch import BatchDataset
from ...samples.hooks import in_hook_context
from ..states.plain_pickle import check_plain
from ..states.run_state import ENDLESS, check_lanes
from ..workers.running_lane import MICRO_BATCH, LanesInTurn, open_lane, remade_batches
from ..workers.worker_errors import input_at

_HINT = "pass batch.__restore_key__ unchanged"
_MAX_NUMBER = 1 << 48
"""Above the positions and numbers of micro-batches that a run reaches."""
_PACKAGE = __name__.partition(".")[0] + "."


def restore_sample(dataset: SavableDataset[Any], key: Any, *, lanes: int) -> Any:
    """Rebuild an item of a chain.

    A micro-batch gets the random numbers of its first build, provided that no sample was skipped for it.

    Args:
        key: ``(stage, lane, micro-batch, item id)``; lists instead of tuples are accepted.
    """
    # Find the stage and the lane of the key.
    key = _checked_key(key)
    stage, lane_number, batch, item_id = key
    if not 0 <= lane_number < lanes:
        raise StateError(f"the key is of lane {lane_number}; this run has lanes 0 to {lanes - 1}")
    lane = open_lane(dataset, lane_number, lanes)
    opened = (dataset, lane) if stage == MICRO_BATCH else _stage(dataset, lane, stage)
    if opened is None:
        raise StateError(f"this dataset has no stage {short_repr(stage)}: the key is of another dataset")
    # Load the item with the random numbers of its micro-batch.
    lane.context.batch_index = batch
    with preserve_rng_state(), in_hook_context(lane.context):
        if batch is not None:
            seed = dataset.worker_config.seed_offset
            seed_batch(seed, batch % lanes, batch // lanes)
            lane.context.rng_parts = (seed, batch % lanes, batch // lanes)
        running = opened[0].open(opened[1], {})
        try:
            value = running.load(item_id)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if not _is_of_this_library(error):
                raise  # an error of a hook
            raise StateError(
                f"the key {short_repr(key)} does not fit this dataset: {type(error).__name__}: {error}", hint=_HINT
            ) from error
    if value is SKIPPED:
        raise StateError(f"the key {short_repr(key)} names no sample of this dataset", hint=_HINT)
    set_restore_key(value, stage, opened[1], item_id)
    return value


def _checked_key(key: Any) -> tuple[str, int, int | None, ItemId]:
    try:
        check_plain(key)
        stage, lane, batch, item_id = key
        if not isinstance(stage, str):
            raise TypeError(stage)  # noqa: TRY301 - handled below
        return stage, _checked_number(lane), None if batch is None else _checked_number(batch), _checked_item(item_id)
    except (StateError, TypeError, ValueError):
        raise StateError(
            f"expected the __restore_key__ of a sample or batch of this loader, found {short_repr(key)}", hint=_HINT
        ) from None


def _checked_item(value: Any) -> ItemId:
    if not isinstance(value, list | tuple):
        return _checked_number(value)
    stage = value[:1] if value and isinstance(value[0], str) else ()
    return *stage, *map(_checked_item, value[len(stage) :])


def _checked_number(value: Any) -> int:
    if isinstance(value, bool) or not 0 <= operator.index(value) < _MAX_NUMBER:
        raise ValueError(value)
    return operator.index(value)


def _is_of_this_library(error: BaseException) -> bool:
    """Return True if a line of this library raised an error, and not one of a hook."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(_PACKAGE)


def _stage(dataset: SavableDataset[Any], lane: Lane, wanted: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Find a stage by the name in its items' keys, and the lane for which it was opened."""
    stage: tuple[SavableDataset[Any], Lane] | None = dataset, lane
    while stage is not None and stage[1].path + stage[0].key != wanted:
        stage = input_at(*stage, wanted)
    return stage


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
    """Return the number of samples of each micro-batch, if nothing is skipped; None if stages buffer samples."""
    size = 1
    stage = chain
    while stage.inputs:
        if len(stage.inputs) != 1 or stage.waits:
            return None
        if isinstance(stage, BatchDataset):
            size *= stage.batch_size
        stage = stage.inputs[0]
    return size
