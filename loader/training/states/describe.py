"""Describe saved states as the plain data that ``energon checkpoint info --json`` prints."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import StateError
from ...metadataset.documents.leaf_plan import EntrySchedule
from ...pipeline.reading.planned_schedule import check_schedule
from .mixes.differences import each_setting
from .run_state import RunState, ranks_of_run, redistribute_states

_MAX_RANKS = 100_000  # bounds the list of missing ranks
# A folder may hold the checkpoints of many runs; more are no longer read by people.
_MAX_RUNS = 1000


def describe_state(state: RunState) -> dict[str, Any]:
    """Describe the state of a rank; keys are stable.

    Returns:
        ``rank ranks batch steps passes ended lanes_begun samples_waiting``.
    """
    return {
        "rank": state.rank,
        "ranks": state.ranks,
        "batch": state.batch,
        "steps": list(state.steps),
        "passes": state.passes,
        "ended": state.ended,
        "lanes_begun": len(state.lane_states),
        "samples_waiting": sum(map(samples_waiting, state.lane_states.values())),
    }


def describe_run(states: Sequence[RunState]) -> dict[str, Any]:
    """Describe the run of the states of some or all ranks; keys are stable.

    Returns:
        ``ranks missing_ranks fault lanes lanes_begun possible_ranks kind seed batch steps passes ended samples_waiting
        stages datasets mix_changes``. ``fault`` is the reason why no run can be restored from these states, or None;
        ``possible_ranks`` is None if the run can continue on any number of ranks.
    """
    # Find the ranks and lanes that are there.
    first = states[0]
    there = {state.rank for state in states}
    missing = [rank for rank in range(min(first.ranks, _MAX_RANKS)) if rank not in there]
    # Describe each rank, and take the lanes of all.
    described = [describe_state(state) for state in states]
    lanes = {lane: state for state_of_rank in states for lane, state in state_of_rank.lane_states.items()}
    # Find out whether the run can be restored, and on how many ranks.
    fault = None
    possible = ranks_of_run(first)
    try:
        redistribute_states(states, first.ranks)
    except StateError as error:
        fault = error.message
    if len({state.passes for state in states}) > 1:
        possible = [first.ranks]
    return {
        "ranks": first.ranks,
        "missing_ranks": missing,
        "fault": fault,
        "lanes": first.lanes,
        "lanes_begun": len(lanes),
        "possible_ranks": possible,
        "kind": first.kind,
        "seed": first.seed,
        "batch": min(state_of_rank["batch"] for state_of_rank in described),
        "steps": max(state_of_rank["steps"] for state_of_rank in described),
        "passes": first.passes,
        "ended": all(state_of_rank["ended"] for state_of_rank in described),
        "samples_waiting": sum(map(samples_waiting, lanes.values())),
        "stages": list(_stages(first.dataset)),
        "datasets": list(described_datasets(first.dataset)),
        "mix_changes": [{"batch": entry["batch"], "leaves": entry["leaves"]} for entry in first.mix_changes],
    }


def group_by_run(states: Iterable[tuple[str, RunState]]) -> list[list[tuple[str, RunState]]]:
    """Group states by run: they agree in lanes, ranks, seed, kind and dataset. A rank has one state in each.

    Args:
        states: Pairs of a place and a state. The first of equal states counts: some frameworks save the states
            of all ranks on each rank.
    """
    runs: dict[tuple[bytes, int], list[tuple[str, RunState]]] = {}
    seen: set[bytes] = set()
    states_of_rank: Counter[tuple[bytes, int | None]] = Counter()
    for where, state in states:
        digest = _digest(state.to_plain())
        if digest in seen:
            continue
        seen.add(digest)
        run = _digest([state.lanes, state.ranks, state.seed, state.kind, state.dataset])
        run_number = states_of_rank[run, state.rank]
        states_of_rank[run, state.rank] += 1
        runs.setdefault((run, run_number), []).append((where, state))
        if len(runs) > _MAX_RUNS:
            raise StateError(f"found states of more than {_MAX_RUNS:,} runs", hint="pass fewer files")
    return [*runs.values()]


def _digest(plain: Any) -> bytes:
    # JSON makes texts of integer keys, which cannot be sorted next to texts.
    texts = json.loads(json.dumps(plain))
    return hashlib.blake2b(json.dumps(texts, sort_keys=True).encode(), digest_size=16).digest()


def samples_waiting(lane_state: Mapping[str, Any]) -> int:
    """Count the samples in the buffers of a lane's stages: packing, grouping, shuffle buffers.

    >>> samples_waiting({"made": 3, "0 read": 40, "3 select_samples_to_pack": {"batch": 2, "groups": [[38], [37, 39]]}})
    3
    """
    count = 0
    for stage_state in lane_state.values():
        if isinstance(stage_state, Mapping):
            if isinstance(stage_state.get("groups"), list | tuple):
                count += sum(len(group) for group in stage_state["groups"] if isinstance(group, list | tuple))
                continue
            waiting = stage_state.get("buffer", stage_state.get("held"))
            count += len(waiting) if isinstance(waiting, list | tuple) else samples_waiting(stage_state)
        elif isinstance(stage_state, list | tuple) and all(isinstance(group, list | tuple) for group in stage_state):
            count += sum(map(len, stage_state))  # partial batches of grouping
    return count


def _stages(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the stages of a chain, the last one first, from its identity: ``[name, settings, *inputs]``."""
    if isinstance(identity, list | tuple) and len(identity) >= 2 and isinstance(identity[0], str):
        yield {"name": identity[0], "settings": identity[1]}
        for source in identity[2:]:
            yield from _stages(source)


_MAX_VALUES = 1_000_000  # shares that are calculated for one state, which may be hostile


def described_datasets(identity: Any) -> Iterator[dict[str, Any]]:
    """Yield the sources of readers, and their shares; a join has members.

    Args:
        identity: The description of a chain: ``[name, settings, *inputs]``.

    Yields:
        ``path split_part uuid samples share schedule members`` each. ``share`` is the one at the beginning, None if
        datasets have no weights, or these are damaged. ``schedule`` is its text; None if it does not change.
    """
    yield from _Datasets().below(identity, _WHOLE)


_WHOLE = EntrySchedule(unit="steps", starts=(0,), weights=(1.0,))


def _part_of(share: EntrySchedule, part: EntrySchedule) -> EntrySchedule:
    """Return the share of an input that has a part of a share, in each stretch of both schedules."""
    longest = share if len(part.starts) == 1 else part
    if 1 not in (len(share.starts), len(part.starts)) and share.unit != part.unit:
        raise ValueError(f"expected schedules in {share.unit!r}, found {part.unit!r}")
    starts = tuple(sorted({*share.starts, *part.starts}))
    pairs = zip(share.on(starts), part.on(starts), strict=True)
    return EntrySchedule(unit=longest.unit, starts=starts, weights=tuple(outer * other for outer, other in pairs))


class _Datasets:
    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def below(self, identity: Any, share: EntrySchedule | None) -> Iterator[dict[str, Any]]:
        if isinstance(identity, list | tuple):
            is_stage = len(identity) > 2 and isinstance(identity[0], str)
            inputs = identity[2:] if is_stage else identity
            parts = self._parts(identity[1], len(inputs), share) if is_stage else [None] * len(inputs)
            for part, part_share in zip(inputs, parts, strict=True):
                yield from self.below(part, part_share)
        elif isinstance(identity, Mapping) and "path" in identity and "samples" in identity:
            yield {
                "path": identity["path"],
                "split_part": identity.get("split_part"),
                "uuid": identity.get("uuid"),
                "samples": identity["samples"],
                "share": None if share is None else share.weights[0],
                "schedule": None if share is None or len({*share.weights}) == 1 else str(share),
                "members": list(self.below(identity.get("members", []), None)),
            }

    def _parts(self, settings: Any, count: int, share: EntrySchedule | None) -> Sequence[EntrySchedule | None]:
        if count == 1 or share is None:
            return [share] * count
        try:
            return self._weighted(settings, count, share)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):  # damaged
            return [None] * count

    def _weighted(self, settings: Any, count: int, share: EntrySchedule) -> list[EntrySchedule]:
        # One weight for all steps is a schedule with a single stretch.
        given = settings.get("schedule")
        if given is None:
            given = {"unit": "steps", "starts": [0], "weights": settings["weights"]}
        # Limit the work: a damaged description may have any number of stretches.
        self._left -= count * (len(given["starts"]) + len(share.starts))
        if self._left < 0:
            raise ValueError("too many weights")
        # Check it; a text counts steps, whatever their samples.
        weights = each_setting(given["weights"], count)
        schedule = check_schedule({**given, "weights": weights, "batch_samples": 1, "ranks": 1}, count)
        # Convert the weights to shares of their stretch.
        totals = list(map(sum, schedule.weights))
        parts = (
            tuple(weight / total for weight, total in zip(input_weights, totals, strict=True))
            for input_weights in zip(*schedule.weights, strict=True)
        )
        return [
            _part_of(share, EntrySchedule(unit=given["unit"], starts=schedule.starts, weights=part)) for part in parts
        ]
