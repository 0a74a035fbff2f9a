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

If blends became blends of another kind, such as those of volumes, the entry has ``restructured``, stages count from it
on, and the change of each reader, which is a new one, has instead of the weights and the schedule:

============  ===============================================================================================
``streams``   for each dataset, the numbers that seed its order: those of the inputs of blends that led to its
              first reader, and its own
``lanes``     the position at which the reader starts in each lane that had begun
``consumed``  the samples of each dataset that such a lane has read
``held``      the samples at the positions before, which waited in buffers of the lane: the number of a dataset,
              which may be gone, and the position in its stream
============  ===============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from sys import float_info
from typing import Any

from ...errors import StateError
from ...order import Mix, MixHistory, StreamStart
from ...pipeline.contract.state_schema import COUNT, PLAIN, NotRequired, Nullable, check_value
from ...pipeline.reading.planned_schedule import saved_schedule

MixChanges = Sequence[Mapping[str, Any]]
"""The ``mix_changes`` of a state."""

StageChanges = Sequence[tuple[int, Mapping[str, Any]]]
"""The changes of one stage, each with its micro-batch."""

_ENTRY = {"batch": COUNT, "leaves": [{"dataset": PLAIN, "change": PLAIN, "weight": PLAIN}]}
_GONE = {"origin": COUNT, "slice_length": COUNT, "epochs_together": Nullable(PLAIN), "source": {}}
_OF_LANES = ("lanes", "consumed", "held")  # each rank knows those of some lanes
_STAGE = {
    "origins": [COUNT],
    "next": COUNT,
    "lanes": NotRequired({}),
    "gone": NotRequired([_GONE]),
    "streams": NotRequired([[COUNT]]),
    "consumed": NotRequired({}),
    "held": NotRequired({}),
}


def checked_mix_changes(saved: Any) -> list[dict[str, Any]]:
    """Check the ``mix_changes`` of a state.

    Raises:
        TypeError: They are no list.
        ValueError: They have another form.
    """
    if not isinstance(saved, list | tuple):
        raise TypeError(f"expected a list of changes of the mix, found a {type(saved).__name__}")
    for entry in saved:
        check_value({name: value for name, value in entry.items() if name != "stages"}, _ENTRY)
        for change in entry["stages"].values():
            _check_stage(change)
    return [dict(entry) for entry in saved]


def _check_stage(change: Mapping[str, Any]) -> None:
    weights, schedule = change.get("weights", []), change.get("schedule")
    # JSON turns 1.0 into 1; no other part of a state is a fraction, so the schemas have none.
    least = 0 if schedule else float_info.min
    if not all(isinstance(weight, int | float) and isfinite(weight) and weight >= least for weight in weights):
        raise ValueError("expected weights above 0")
    saved_schedule(schedule, len(weights))
    gone = [{**one, "epochs_together": None} for one in change.get("gone", [])]  # it may be -1
    for lane, position in change.get("lanes", {}).items():
        check_value(position, COUNT, f"lane {int(lane)}")
    for lane, consumed in change.get("consumed", {}).items():
        check_value(consumed, (COUNT,) * len(change["origins"]), f"lane {int(lane)}")
    for lane, held in change.get("held", {}).items():
        check_value(held, [(COUNT, COUNT)], f"lane {int(lane)}")
    check_value({**change, "weights": None, "schedule": None, "gone": gone}, _STAGE)
    origins = change["origins"]
    streams = change.get("streams", origins)
    if len(streams) != len(origins) or not all(stream or stream == 0 for stream in streams):
        raise ValueError("expected a stream for each dataset")
    if not origins or len({*origins}) < len(origins) or max(origins) >= change["next"]:
        raise ValueError("expected different origins below the next one")


def stage_changes(changes: MixChanges, stage: str) -> StageChanges:
    """Return the changes of a stage."""
    first = max((number for number, entry in enumerate(changes) if entry.get("restructured")), default=0)
    return [(entry["batch"], entry["stages"][stage]) for entry in changes[first:] if stage in entry["stages"]]


def streams_of(changes: StageChanges) -> dict[int, tuple[int, ...]]:
    """Return the numbers that seed the orders of a reader's datasets, of those that another chain began."""
    if not changes or "streams" not in changes[0][1]:
        return {}
    first = changes[0][1]
    return dict(zip(first["origins"], map(tuple, first["streams"]), strict=True))


def reader_history(changes: StageChanges) -> MixHistory | None:
    """Return the earlier mixes of a reader from its changes; None if there are none.

    Raises:
        StateError: The changes do not fit each other.
    """
    if not changes:
        return None
    try:
        starts, started, ended = None, 0, changes
        if "streams" in changes[0][1]:
            starts, (started, ended) = _starts(changes[0][1]), (changes[0][0], changes[1:])
            origins = [change["origins"] for _, change in changes]
        else:
            origins = [range(len(changes[0][1]["weights"])), *(change["origins"] for _, change in changes)]
        return MixHistory(
            earlier=tuple(
                Mix(
                    tuple(own), tuple(change["weights"]), saved_schedule(change.get("schedule"), len(change["weights"]))
                )
                for own, (_, change) in zip(origins, ended, strict=False)
            ),
            origins=tuple(origins[-1]),
            ends=tuple({int(lane): position for lane, position in change["lanes"].items()} for _, change in ended),
            batches=tuple(batch for batch, _ in ended),
            starts=starts,
            started=started,
        )
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise StateError(f"this state is damaged: {error}") from error


def _starts(change: Mapping[str, Any]) -> dict[int, StreamStart]:
    """Return the places at which a reader starts, by lane."""
    return {
        int(lane): StreamStart(
            position,
            tuple(change["consumed"][lane]),
            tuple((origin, place) for origin, place in change["held"].get(lane, [])),
        )
        for lane, position in change["lanes"].items()
    }


def merge_mix_changes(states: Sequence[MixChanges]) -> list[dict[str, Any]]:
    """Merge the changes that the states of all ranks hold: each knows the positions of some lanes.

    Raises:
        StateError: They are of different runs.
    """
    first = states[0]
    if any(_without_lanes(other) != _without_lanes(first) for other in states[1:]):
        raise StateError("the states are of different runs: their 'mix_changes' differ")
    merged = []
    for number, entry in enumerate(first):
        stages = {}
        for stage, change in entry["stages"].items():
            stages[stage] = dict(change)
            for name in _OF_LANES:
                if name in change:
                    lanes = [state[number]["stages"][stage][name] for state in states]
                    stages[stage][name] = {lane: value for one in lanes for lane, value in one.items()}
        merged.append({**entry, "stages": stages})
    return merged


def _without_lanes(changes: MixChanges) -> list[Any]:
    return [
        {stage: {**change, **dict.fromkeys(_OF_LANES)} for stage, change in entry["stages"].items()}
        | {"batch": entry["batch"]}
        for entry in changes
    ]
