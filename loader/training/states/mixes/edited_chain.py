"""Continue a run with a mix of datasets that was edited after its state was saved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

from ....errors import StateError
from ....escaped_log import get_logger
from ....order import GONE
from ....pipeline.contract.item_id import ItemId, as_item_id, samples_in
from ....pipeline.contract.lane import child_seed
from ....pipeline.contract.stage import SavableDataset, State
from ....pipeline.contract.state_schema import item_ids_in
from ....pipeline.reading.planned_schedule import check_schedule
from ....pipeline.reading.read import ReadDataset
from ....pipeline.stages.blend import BlendDataset
from ..mix_history import MixChanges, StageChanges, reader_history, stage_changes
from ..run_state import ENDLESS, RunState
from .change import DEALT_SMALL, ENDS, MixChange, SavedPlace, check_units, find_mix_change
from .differences import chain_differences, with_decoders_of

VARIABLE = "ENERGON_ALLOW_MIX_CHANGE"

_MAX_LINES = 40  # of a message
_MAX_NAMED = 4  # datasets
_HINT = (
    "to continue with the new mix, pass allow_mix_change=True to the call that restores the state, or set "
    f"{VARIABLE}=1; otherwise build the dataset with the documents of the run that was saved"
)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedMix:
    """The chain with which a run continues.

    Attributes:
        chain: The chain of the run; a copy of its readers and blends knows their earlier mixes.
    """

    chain: SavableDataset[Any]
    changes: MixChanges
    change: MixChange | None

    def check(self, saved: RunState) -> None:
        """Check that each lane is after the last change of the mix."""
        for lane, state in saved.lane_states.items():
            _check_position(self.chain, state, lane)

    def lines(self) -> list[str]:
        """Return a line for each dataset, differences first; none without a change."""
        leaves = [] if self.change is None else self.change.leaves
        return [*map(str, sorted(leaves, key=lambda leaf: not leaf.is_difference))]

    @property
    def warning(self) -> str | None:
        """A warning that the state may be of another run, if no dataset of the state continues; else None."""
        if self.change is None or self.change.keeps_datasets:
            return None
        before = [leaf.name for leaf in self.change.leaves if leaf.before is not None]
        shown = "; ".join(before[:_MAX_NAMED]) + f" and {len(before) - _MAX_NAMED} more" * (len(before) > _MAX_NAMED)
        return f"no dataset of the state continues ({shown}): is this the state of this run?"

    def log(self, saved: RunState, *, rank: int) -> None:
        """Log the change, on rank 0; and on each rank the samples in buffers that cannot be rebuilt."""
        if self.change is None:
            return
        if rank == 0:
            if self.warning is not None:
                _log.warning("%s", self.warning)
            lines = "\n  ".join(_shortened(self.lines()))
            _log.warning("the run continues with another mix of datasets:\n  %s", lines)
        lost = sum(
            count_lost_samples(self.chain, state, lane, lanes=saved.lanes, seed=saved.seed)
            for lane, state in saved.lane_states.items()
        )
        if lost:
            _log.warning("rank %d drops %d samples from buffers: their datasets are gone from the mix", rank, lost)


def continue_mix(
    chain: SavableDataset[Any], saved: RunState, *, kind: str, lanes: Mapping[int, State], allowed: bool
) -> ContinuedMix:
    """Compare a state with the chain of a run, and apply the changes of the mix."""
    changes, change = saved.mix_changes, None
    # The usual case: nothing has changed.
    if saved.dataset == chain.identity():
        chain = edited_chain(chain, changes) if changes else chain
        return ContinuedMix(chain=chain, changes=changes, change=None)
    # Find the change of the mix; any other difference is refused.
    saved = _with_present_decoders(saved, chain)
    try:
        compare_datasets(saved.dataset, chain.identity())
    except StateError as error:
        check_saved_weights(saved.dataset)
        progress = SavedPlace(
            lanes=lanes,
            scale=min(saved.lanes, saved.batch) / max(1, len(lanes)),
            count=saved.lanes,
            changes=changes,
            seed=saved.seed,
        )
        change = find_mix_change(saved.dataset, chain, progress)
        is_endless = {kind, saved.kind or kind} == {ENDLESS}
        if is_endless:
            check_units(saved.dataset, chain.identity(), change)
        if change is None:
            raise
        if not is_endless:
            change.obstacles.append(ENDS)
        if saved.deal:
            change.obstacles.append(DEALT_SMALL)
        # Refuse a change that is not allowed, or that the run cannot continue with exactly.
        if not allowed and os.environ.get(VARIABLE, "") != "1":
            if change.obstacles or not change.keeps_datasets:
                raise
            lines = "\n  ".join(_shortened(change.differences()))
            raise StateError(
                f"the mix of datasets has changed since this state was saved:\n  {lines}", hint=_HINT
            ) from None
        if change.obstacles:
            raise StateError(
                f"the run cannot continue exactly with another mix: {change.obstacles[0]}\n{error.message}",
                hint="build the dataset with the documents of the run that was saved, or start a new run",
            ) from None
        changes = [*changes, change.entry(saved.batch)]
    return ContinuedMix(chain=edited_chain(chain, changes), changes=changes, change=change)


def _with_present_decoders(saved: RunState, chain: SavableDataset[Any]) -> RunState:
    """Return the state with the options of the chain's decoders, and log on rank 0 which have changed."""
    changed: list[str] = []
    dataset = with_decoders_of(chain.identity(), saved.dataset, changed)
    if changed and chain.worker_config.rank == 0:
        _log.warning("the run continues with the same samples, decoded in another way:\n  %s", "\n  ".join(changed))
    return replace(saved, dataset=dataset)


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _MAX_LINES
    return lines if more <= 1 else [*lines[:_MAX_LINES], f"… and {more} more"]


def edited_chain(dataset: SavableDataset[Any], changes: MixChanges, *, path: str = "") -> SavableDataset[Any]:
    """Return a copy of a chain whose readers and blends know their earlier mixes.

    Args:
        path: The numbers of the inputs of blends that lead to it: ``"1/0/"``.
    """
    if not changes:
        return dataset
    stage = path + dataset.key
    of_stage = stage_changes(changes, stage)
    if isinstance(dataset, ReadDataset):
        # A reader: give it the mixes that have ended.
        reader = copy(dataset)
        reader.history = reader_history(of_stage)
        _check_count(stage, of_stage, len(dataset.sources))
        return reader
    if isinstance(dataset, BlendDataset):
        # A blend: number its inputs by origin, then continue below each of them.
        _check_count(stage, of_stage, len(dataset.inputs))
        blend = copy(dataset)
        blend.origins = tuple(of_stage[-1][1]["origins"]) if of_stage else dataset.origins
        blend.edits = len(of_stage)
        blend.edited_at = of_stage[-1][0] if of_stage and not path else 0
        blend.begin = None  # it knows the readers by their places
        pairs = zip(dataset.inputs, blend.origins, strict=True)
        blend.inputs = tuple(edited_chain(upstream, changes, path=f"{path}{origin}/") for upstream, origin in pairs)
        return blend
    if dataset.nests_states:
        return dataset
    # Any other stage: continue below it.
    copied = copy(dataset)
    copied.inputs = (edited_chain(dataset.inputs[0], changes, path=path),)
    return copied


def _check_position(dataset: SavableDataset[Any], state: State, lane: int) -> None:
    if isinstance(dataset, ReadDataset):
        if dataset.history is None or dataset.key not in state:
            return
        if state[dataset.key] < max(dataset.history.ends_of(lane), default=0):
            raise StateError(
                f"this state is damaged: lane {lane} is at position {state[dataset.key]}, before the last change of "
                "the mix",
                hint="restore another state",
            )
    elif isinstance(dataset, BlendDataset):
        inner = state.get(dataset.key, {})
        for upstream, origin in zip(dataset.inputs, dataset.origins, strict=True):
            _check_position(upstream, inner.get(str(origin), {}), lane)
    elif not dataset.nests_states:
        _check_position(dataset.inputs[0], state, lane)


def _check_count(stage: str, changes: StageChanges, count: int) -> None:
    if changes and len(changes[-1][1]["origins"]) != count:
        raise StateError(f"this state is damaged: its changes of {stage!r} are of another mix")


# Differences in a message: every rank raises it, and energon diff lists all.
_MAX_SHOWN = 8
_MAX_LINE = 2000  # characters


def compare_datasets(saved: Any, now: Any) -> None:
    """Check that a state is of the same chain and data."""
    differences = chain_differences(saved, now)
    if differences:
        lines = [str(difference)[:_MAX_LINE] for difference in differences[:_MAX_SHOWN]]
        if len(differences) > _MAX_SHOWN:
            lines.append(f"… and {len(differences) - _MAX_SHOWN} more (energon diff lists all)")
        raise StateError(
            "the state is of another dataset or pipeline:\n  " + "\n  ".join(lines),
            hint="build the dataset with the data and arguments of the run that was saved, or start a new run",
        )


_WEIGHTED = ("read", "blend", "BlendDataset")  # names of stages that have weights


def check_saved_weights(identity: Any) -> None:
    """Check the weights of all readers and blends, and their schedules.

    Args:
        identity: The description of the chain in a state: ``[name, settings, *inputs]``.
    """
    if not isinstance(identity, list | tuple):
        return
    if len(identity) > 2 and identity[0] in _WEIGHTED and isinstance(identity[1], Mapping):
        try:
            _check(identity[1], len(identity) - 2)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise StateError(
                f"this state is damaged: the weights of {identity[0]!r}: {error}", hint="restore another state"
            ) from error
    for part in identity[2:]:
        check_saved_weights(part)


def _check(settings: Mapping[str, Any], sources: int) -> None:
    schedule = settings.get("schedule")
    if schedule is not None:
        check_schedule(schedule, sources)
        return
    weights = settings.get("weights", [])
    for weight in weights if isinstance(weights, list | tuple) else [weights]:
        if not isinstance(weight, int | float) or not isfinite(weight) or weight <= 0:
            raise ValueError(f"expected numbers above 0, found {weight!r:.80}")


class _PlacedStage(NamedTuple):
    """A stage, with the path and the seed of the inputs of blends that lead to it."""

    # As the number of an input changes the seed below it, both are kept together.
    stage: SavableDataset[Any]
    path: str
    seed: int

    def below(self) -> _PlacedStage:
        return self._replace(stage=self.stage.inputs[0])

    def inputs(self) -> dict[int, _PlacedStage]:
        """Return the inputs of a blend by their origins."""
        pairs = zip(getattr(self.stage, "origins", ()), self.stage.inputs, strict=True)
        return {
            origin: _PlacedStage(upstream, f"{self.path}{origin}/", child_seed(self.seed, origin))
            for origin, upstream in pairs
        }


def count_lost_samples(chain: SavableDataset[Any], state: State, lane: int, *, lanes: int, seed: int) -> int:
    """Count the samples in the buffers of a lane whose datasets are gone."""
    # Collect the samples in buffers by reader and position.
    lost: dict[tuple[str, ItemId], int] = {}  # a state may name a sample twice
    for placed, item_id in _buffered(_PlacedStage(chain, "", seed), state):
        for reader, position in _read_for(placed, item_id):
            if not isinstance(reader.stage, ReadDataset):
                lost[reader.path, position] = samples_in(position)
                continue
            order = reader.stage.lane_order(lane, lanes=lanes, seed=reader.seed)
            source, *_ = order.locate(position, position + 1)
            lost[reader.path, position] = int(source[0] == GONE)
    return sum(lost.values())


def _buffered(placed: _PlacedStage, state: State) -> Iterator[tuple[_PlacedStage, ItemId]]:
    """Yield the ids of the items in buffers, each with the stage that holds it."""
    stage = placed.stage
    stage_state = state.get(stage.key)
    if isinstance(stage, BlendDataset):
        for origin, inner in placed.inputs().items():
            yield from _buffered(inner, (stage_state or {}).get(str(origin), {}))
        return
    if not stage.nests_states:
        if stage_state is not None and stage.entry_schema is not None:
            for item_id in item_ids_in(stage_state, stage.entry_schema):
                yield placed, as_item_id(item_id)
        yield from _buffered(placed.below(), state)


def _read_for(placed: _PlacedStage, item_id: ItemId) -> Iterator[tuple[_PlacedStage, Any]]:
    """Yield the readers and positions of an item's samples; the blend and the item's id if its input is gone."""
    stage = placed.stage
    if isinstance(item_id, tuple):
        # The samples of a pack: follow each.
        if item_id and not isinstance(item_id[0], str):
            for part in item_id:
                yield from _read_for(placed, part)
            return
        if item_id and item_id[0] == stage.key:
            # An id that names this stage: its input has the inner id.
            _, origin, inner = item_id
            if not isinstance(stage, BlendDataset):
                yield from () if stage.nests_states else _read_for(placed.below(), inner)
            elif origin in stage.origins:
                yield from _read_for(placed.inputs()[origin], inner)
            else:
                yield placed, item_id
            return
    # An id that no stage above the reader has named is a position.
    if isinstance(stage, ReadDataset):
        if isinstance(item_id, int):
            yield placed, item_id
    elif not stage.nests_states:
        yield from _read_for(placed.below(), item_id)
