"""The changes of a run's mix as its states hold them: plain data, checked and merged here.

A state's ``mix_changes`` has an entry for each restore that changed the mix, the first one first:

============  ===============================================================================================
``batch``     the next micro-batch of the run at the change
``leaves``    for people: each dataset, what became of it, and its weight before and after
``stages``    path of a reader or blend → its change; stages whose mix stayed have none
============  ===============================================================================================

Datasets of a stage have numbers, *origins*, that stay the same through all changes. The change of a stage:

============  ===============================================================================================
``origins``   of the datasets of the new mix, in their order
``next``      the number of the next new dataset
``weights``   of a reader: the weights of the mix that ended
``schedule``  of a reader: the schedule of these weights, if they changed
``lanes``     of a reader: the position in each lane that had begun, at which that mix ended
``gone``      of a reader: the datasets that ended with that mix; they continue if a later mix has them again
============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from ...errors import StateError
from ...format.documents.messages import short_repr
from ...order import Mix, MixHistory
from ...pipeline.contract.state_schema import COUNT, NUMBER, converted
from ...pipeline.reading.planned_schedule import saved_schedule

MixChanges = Sequence[Mapping[str, Any]]
"""The ``mix_changes`` of a state."""

StageChanges = Sequence[tuple[int, Mapping[str, Any]]]
"""The changes of one stage, each with its micro-batch."""


class _LeafChange(TypedDict):
    dataset: str
    change: str
    weight: str


class _Change(TypedDict):
    batch: COUNT
    leaves: list[_LeafChange]
    stages: dict[str, Any]


class _GoneDataset(TypedDict):
    origin: COUNT
    slice_length: COUNT
    epochs_together: Any
    source: dict[str, Any]


class _StageChange(TypedDict):
    origins: Annotated[list[COUNT], Meta(min_length=1)]
    next: COUNT
    weights: NotRequired[list[NUMBER]]
    lanes: NotRequired[dict[Annotated[str, Meta(pattern=r"^[0-9]{1,10}$")], COUNT]]
    gone: NotRequired[list[_GoneDataset]]


def check_mix_changes(saved: Any) -> None:
    """Check the ``mix_changes`` of a state.

    Raises:
        StateError: They have another form.
    """
    for change_number, entry in enumerate(converted(saved, list[_Change], "mix_changes")):
        for path, change in entry["stages"].items():
            name = f"change {change_number} of the mix: {path}"
            converted(change, _StageChange, name)
            # A schedule may begin with a weight of 0.
            weights, schedule = change.get("weights", []), change.get("schedule")
            if not schedule and not all(weights):
                raise _damaged(name, "weights above 0", weights)
            origins = change["origins"]
            if len({*origins}) < len(origins) or max(origins) >= change["next"]:
                raise _damaged(name, "different origins below the next one", origins)
            try:
                saved_schedule(schedule, len(weights))
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                raise _damaged(name, f"a schedule: {error}", schedule) from error


def _damaged(name: str, expected: str, value: Any) -> StateError:
    return StateError(
        f"this state is damaged: {name}: expected {expected}, found {short_repr(value)}", hint="restore another state"
    )


def stage_changes(changes: MixChanges, stage: str) -> StageChanges:
    """Return the changes of a stage."""
    return [(entry["batch"], entry["stages"][stage]) for entry in changes if stage in entry["stages"]]


def reader_history(changes: StageChanges) -> MixHistory | None:
    """Return the earlier mixes of a reader from its changes; None if the mix never changed."""
    if not changes:
        return None
    try:
        # Each change records the mix that it ended; its origins are in the change before.
        origins = [range(len(changes[0][1]["weights"])), *(change["origins"] for _, change in changes)]
        return MixHistory(
            earlier=tuple(
                Mix(
                    tuple(mix_origins),
                    tuple(change["weights"]),
                    saved_schedule(change.get("schedule"), len(change["weights"])),
                )
                for mix_origins, (_, change) in zip(origins, changes, strict=False)
            ),
            origins=tuple(origins[-1]),
            ends=tuple({int(lane): position for lane, position in change["lanes"].items()} for _, change in changes),
            batches=tuple(batch for batch, _ in changes),
        )
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise StateError(f"this state is damaged: {error}") from error


def merge_mix_changes(states: Sequence[MixChanges]) -> list[dict[str, Any]]:
    """Merge the changes that the states of all ranks hold: each knows the positions of some lanes."""
    first = states[0]
    if any(_without_lanes(other) != _without_lanes(first) for other in states[1:]):
        raise StateError("the states are of different runs: their 'mix_changes' differ")
    merged = []
    for change_number, entry in enumerate(first):
        stages = {}
        for stage, change in entry["stages"].items():
            stages[stage] = dict(change)
            if "lanes" in change:
                lanes = [state[change_number]["stages"][stage]["lanes"] for state in states]
                stages[stage]["lanes"] = {lane: value for rank_lanes in lanes for lane, value in rank_lanes.items()}
        merged.append({**entry, "stages": stages})
    return merged


def _without_lanes(changes: MixChanges) -> list[Any]:
    return [
        {stage: {**change, "lanes": None} for stage, change in entry["stages"].items()} | {"batch": entry["batch"]}
        for entry in changes
    ]
