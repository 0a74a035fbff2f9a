"""The state of a rank, and the merge of all ranks' states to the run's.

A state is plain data: nested dicts and lists of str, int, float, bool and None. It can be saved as JSON, and read by
``torch.load(…, weights_only=True)``.

============  ========================================================================
``version``   version of this layout and of the order of samples; other versions are refused
``lanes``     L, constant during the run
``ranks``     R when the state was saved
``rank``      the rank that saved it
``seed``      seed of the run
``kind``      order of the lanes: ``"endless"``, ``"finite"``, or ``"lane by lane"``
``batch``     the next micro-batch of the whole run
``lane``      lane → the state of its chain
``passes``    how often a pass over finite data was restarted
``ended``     true if the pass is over, so that the next iteration starts a new one
``steps``     the counts of virtual epochs, limits and repeats, outermost first
``dataset``   description of the chain and its data, for comparison
``checksum``  of the other entries, as canonical JSON: a state that was damaged or edited is refused
============  ========================================================================

A state of one small source also has ``deal``, the samples of the micro-batches that the lanes take in turn. One of a
run whose groups are planned has ``window``, the samples of a window, which the run keeps when its costs change. A state
converted to another number of ranks also has ``counted_on``: the number of ranks on which ``steps`` were counted. A
state of a run whose mix of datasets changed also has ``mix_changes`` (see :mod:`.mix_history`). One of a run that skips
steps has ``skip_steps``: lists of the first step, the end, and their micro-batches. A state of a run that changed its
number of ranks has ``ranks_at``: lists of a micro-batch, and the number of ranks from there on (see :mod:`.run_steps`).
If worker processes were replaced, ``worker_restarts`` is their number, and ``quarantined`` lists the samples that are
passed over since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

import numpy as np
from msgspec import Meta

from ...errors import StateError, plural
from ...format.documents.messages import short_key, short_repr
from ...order import LaneHosting, possible_ranks
from ...pipeline.contract.state_schema import COUNT, RANKS, Schema, converted, saved_dict
from ...pipeline.reading.planned_schedule import scheduled_ranks
from ...pipeline.reading.quarantined_sample import QuarantinedSample
from .mix_history import MixChanges, check_mix_changes, merge_mix_changes
from .run_steps import RunSteps
from .state_size import check_size

if TYPE_CHECKING:  # programs that only read states need no stages, and no torch
    from ...pipeline.contract.stage import State

ENDLESS = "endless"
"""Lanes in turn, without end: all ranks are always at the same step."""
FINITE = "finite"
"""Lanes in turn, each to its end."""
LANE_BY_LANE = "lane by lane"
"""Lanes one after another, each to its end, on any number of ranks."""

_VERSION = 4  # 0.2.0 and earlier versions wrote 1 to 3
_REQUIRED = ("lanes", "ranks", "rank", "seed", "batch", "lane", "steps", "passes", "ended", "dataset", "checksum")
# Keys in a message: enough to recognise what was passed.
_MAX_SHOWN = 8
_CHECKSUM_BYTES = 8  # damage passes once in 10^19 cases; a longer one would only make the state larger
# JSON libraries write 1.0 as 1, or 1 as 1.0; the checksum takes them as equal.
_WHOLE_FLOAT = re.compile(r"(\d)\.0(?=[,\]}])")
_MAX_SEED = 1 << 128
_KIND = Annotated[str, Meta(pattern=f"^({ENDLESS}|{FINITE}|{LANE_BY_LANE})$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state of one rank, or the merged states of all ranks; msgspec converts saved ones to it.

    Attributes:
        lane_states: Lane → the state of its chain.
        steps: The counts of the stages that count on the rank, outermost first.
        kind: Order of the lanes; None if the state does not have it.
        deal: Samples of the micro-batches that the lanes take in turn from the epochs of a small source; 0 if each lane
            has a stream of its own.
        window: Samples of a window in which groups are planned; 0 if none are planned.
        counted_on: The number of ranks on which ``steps`` were counted; None: ``ranks``.
        ranks_at: The numbers of ranks that the run had; empty if it never changed.
    """

    lanes: RANKS
    ranks: RANKS
    rank: COUNT | None
    seed: int
    batch: COUNT = 0
    lane_states: Mapping[COUNT, Any] = field(default_factory=dict)
    steps: Sequence[COUNT] = ()
    passes: COUNT = 0
    ended: bool = False
    dataset: Any = None
    kind: _KIND | None = None
    deal: COUNT = 0
    window: COUNT = 0
    counted_on: RANKS | None = None
    mix_changes: MixChanges = ()
    ranks_at: tuple[tuple[COUNT, RANKS], ...] = ()
    skip_steps: tuple[tuple[COUNT, COUNT, COUNT, COUNT], ...] = ()
    worker_restarts: COUNT = 0
    quarantined: tuple[QuarantinedSample, ...] = ()

    @property
    def run_steps(self) -> RunSteps:
        return RunSteps(ranks_at=self.ranks_at or ((0, self.ranks),), skips=self.skip_steps)

    @property
    def first_ranks(self) -> int:
        """The number of ranks on which steps at which weights change are counted: those at the beginning of the run."""
        return scheduled_ranks(self.dataset) or (self.ranks_at[0][1] if self.ranks_at else self.ranks)

    def steps_on(self, ranks: int) -> RunSteps:
        """Return the steps of the run if it continues here on a number of ranks.

        >>> RunState(lanes=4, ranks=2, rank=0, seed=0, batch=20).steps_on(1).ranks_at
        ((0, 2), (20, 1))
        """
        before = tuple(entry for entry in self.ranks_at or ((0, self.ranks),) if entry[0] < self.batch)
        if not before or before[-1][1] != ranks:
            before = (*before, (self.batch, ranks))
        return RunSteps(ranks_at=before, skips=self.skip_steps)

    def to_plain(self) -> dict[str, Any]:
        plain = {
            "version": _VERSION,
            "lanes": self.lanes,
            "ranks": self.ranks,
            "rank": self.rank,
            "seed": self.seed,
            "kind": self.kind,
            "batch": self.batch,
            "lane": {str(lane): state for lane, state in sorted(self.lane_states.items())},
            "steps": list(self.steps),
            "passes": self.passes,
            "ended": self.ended,
            "dataset": self.dataset,
            # Entries without a value are left out, so that most states stay small.
            **({"deal": self.deal} if self.deal else {}),
            **({"window": self.window} if self.window else {}),
            **({} if self.counted_on in (None, self.ranks) else {"counted_on": self.counted_on}),
            **({"mix_changes": list(self.mix_changes)} if self.mix_changes else {}),
            **({"ranks_at": list(map(list, self.ranks_at))} if len(self.ranks_at) > 1 else {}),
            **({"skip_steps": list(map(list, self.skip_steps))} if self.skip_steps else {}),
            **({"worker_restarts": self.worker_restarts} if self.worker_restarts else {}),
            **({"quarantined": [*map(asdict, self.quarantined)]} if self.quarantined else {}),
        }
        return {**plain, "checksum": checksum_of(plain)}

    @classmethod
    def from_plain(cls, saved: Any, *, allow_edited: bool = False, is_json: bool = False) -> RunState:
        """Create a state from the result of :meth:`to_plain`.

        Args:
            allow_edited: Accept a state without a checksum, or with the checksum of other entries.
            is_json: Refuse infinite numbers, which JSON cannot represent.
        """
        # Refuse what is not a state, other versions, and states that lack entries.
        if type(saved).__module__.startswith("megatron.energon"):
            raise StateError(
                f"megatron-energon saved this state, a {type(saved).__name__}: the order of samples differs there",
                hint="start the run from the beginning",
            )
        if not isinstance(saved, Mapping) or "version" not in saved:
            raise StateError(
                f"expected the result of save_state_rank(), found {_described(saved)}",
                hint="pass the result of the loader's save_state_rank() or save_state_global()",
            )
        check_size(saved)
        # Make plain values of others: JSON turns numbers of numpy into Python's.
        try:
            text = json.dumps({**saved}, default=_json_value)
            plain = json.loads(text, parse_constant=_refuse_constant if is_json else float)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            path = next(_paths_of_others(saved), "")
            raise StateError(
                f"this state is damaged: {error}{path and f', at {path}'}", hint="restore another state"
            ) from error
        if plain["version"] != _VERSION:
            raise StateError(
                f"expected a state of version {_VERSION}, found version {short_repr(plain['version'])}",
                hint="restore it with the version of energon-toolkit that saved it, or start a new run",
            )
        missing = [key for key in _REQUIRED if key not in saved and not (allow_edited and key == "checksum")]
        if missing:
            raise StateError(
                f"this state is damaged: it lacks {', '.join(map(repr, missing))}",
                hint="restore another state; tools that save key by key may drop some: save it as one value, such "
                "as json.dumps(state)",
            )
        # Convert the entries: they may have been edited. The states of lanes stay as they are: a stage of a user may
        # have keys that are integers.
        lanes = converted(saved["lane"], dict[COUNT, dict[Any, Any]], "lane")
        state: RunState = converted({**plain, "lane_states": lanes}, cls, "")
        if state.mix_changes:
            check_mix_changes(state.mix_changes)
        # Compare entries with each other.
        firsts = [first for first, _ in state.ranks_at]
        if not -_MAX_SEED < state.seed < _MAX_SEED:
            raise _damaged(f"'seed' of at most 128 bits, found {short_repr(state.seed)}")
        if max(state.lane_states, default=0) >= state.lanes:
            raise _damaged(f"a lane below {state.lanes} in 'lane', found {max(state.lane_states)}")
        if (state.rank or 0) >= state.ranks:
            raise _damaged(f"'rank' below {state.ranks}, found {state.rank}")
        if firsts and (firsts[0] != 0 or firsts != sorted({*firsts})):
            raise _damaged(f"'ranks_at' in ascending order from 0, found {short_repr(firsts)}")
        # Compare the checksum last: a lane that is missing is named.
        if not allow_edited and plain["checksum"] != (checksum := _digest(plain)):
            state._check_begun_lanes()
            raise StateError(
                f"this state is damaged or was edited: expected the checksum {short_repr(plain['checksum'])} of its "
                f"values, found {checksum!r}",
                hint="restore another state; if it was edited on purpose, pass allow_edited_state=True to the call "
                "that restores it, or write its checksum by `energon checkpoint redist --allow-edited-state`",
            )
        return state

    def _check_begun_lanes(self) -> None:
        """Check that no lane is missing in a run without end, where lane l has begun before micro-batch l + 1."""
        if self.kind != ENDLESS:
            return
        lanes = range((self.batch + (self.rank or 0)) % self.ranks, min(self.lanes, self.batch), self.ranks)
        lost = len(lanes) - sum(lane in lanes for lane in self.lane_states)
        if lost:
            first = next(lane for lane in lanes if lane not in self.lane_states)
            raise StateError(
                f"this state is damaged: it lacks {lost} of {plural(len(lanes), 'lane')} that began, such as {first}",
                hint="save the state as one value, such as json.dumps(state): tools that load key by key into another "
                "state, such as torch.distributed.checkpoint, drop the keys that this one lacks",
            )


def _damaged(expectation: str) -> StateError:
    return StateError(f"this state is damaged: expected {expectation}")


def checksum_of(plain: Mapping[str, Any]) -> str:
    """Return the checksum of a state's entries other than ``checksum``.

    It is computed from canonical JSON, so that the order of keys, integers as keys, tuples for lists, numbers of numpy,
    and 1 for 1.0 change nothing: frameworks and JSON libraries convert these.
    """
    # JSON makes texts of integer keys, which sort in another order than the integers.
    return _digest(json.loads(json.dumps({**plain}, default=_json_value)))


def _digest(plain: Mapping[str, Any]) -> str:
    entries = {key: value for key, value in plain.items() if key != "checksum"}
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"), default=_json_value)
    return blake2b(_WHOLE_FLOAT.sub(r"\1", text).encode(), digest_size=_CHECKSUM_BYTES).hexdigest()


def _paths_of_others(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the values that are no plain data."""
    if isinstance(value, Mapping | list | tuple):
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _paths_of_others(inner, f"{path}.{short_key(key)}" if path else short_key(key))
    elif not isinstance(value, str | int | float | np.generic | None):
        yield path


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {float(name)}, which JSON cannot represent")


def _json_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a {type(value).__name__}, and a state is plain data")


def check_lanes(lane_states: Mapping[int, State], schema: Mapping[str, Schema]) -> None:
    """Check the states of lanes before a chain is opened with them: they may have been edited."""
    converted(lane_states, dict[int, saved_dict(made=NotRequired[COUNT], **schema)], "lane")  # type: ignore[misc]


def merge_states(states: Sequence[RunState], *, lockstep: bool) -> RunState:
    """Merge the states of all ranks.

    Args:
        lockstep: Require all ranks to be at the same step, as in an endless run. In a finite pass some ranks may be a
            micro-batch ahead; then the rank that is furthest gives the counts of virtual epochs and limits, so that
            no limit is exceeded.
    """
    if not states:
        raise StateError("expected the states of all ranks, found none")
    # Check that the states are those of all ranks, of one run and one step.
    first = states[0]
    ranks = sorted(-1 if state.rank is None else state.rank for state in states)
    if len(ranks) != first.ranks or ranks != list(range(len(ranks))):
        raise StateError(
            f"expected one state of each of the {plural(first.ranks, 'rank')}, found those of ranks {ranks}",
            hint="pass the states or files of all ranks; in a run save_state_global() gathers the states",
        )
    for name in ("lanes", "ranks", "seed", "kind", "deal", "window", "counted_on", "dataset", "ranks_at", "skip_steps"):
        if any(getattr(state, name) != getattr(first, name) for state in states):
            raise StateError(f"the states are of different runs: their {name!r} differ")
    if any(len(state.steps) != len(first.steps) for state in states):
        raise StateError("the states are of different runs: their 'steps' differ")
    batches = sorted({state.batch for state in states})
    if lockstep and len(batches) > 1:
        raise _different_steps("next micro-batches", batches)
    steps = sorted({tuple(state.steps) for state in states})
    if lockstep and len(steps) > 1:
        raise _different_steps("counts of virtual epochs and limits", [list(counts) for counts in steps])
    # Take the lanes of all ranks, and the counts of the rank that is furthest.
    lane_states: dict[int, State] = {}
    for state in states:
        lane_states |= state.lane_states
    return replace(
        first,
        rank=None,
        batch=batches[0],
        lane_states=lane_states,
        steps=list(steps[-1]),  # outermost first, so the last one is the furthest
        ended=all(state.ended for state in states),
        mix_changes=merge_mix_changes([state.mix_changes for state in states]),
        worker_restarts=max(state.worker_restarts for state in states),
        quarantined=tuple(dict.fromkeys(sample for state in states for sample in state.quarantined)),
    )


def _different_steps(name: str, values: Sequence[Any]) -> StateError:
    return StateError(
        f"the ranks were saved at different steps: the {name} are {', '.join(map(str, values))}",
        hint="save on all ranks after the same step",
    )


def _described(saved: Any) -> str:
    if isinstance(saved, Mapping):
        return f"a dict with the keys {sorted(map(short_key, saved))[:_MAX_SHOWN]}"
    return f"a {type(saved).__name__}"


def redistribute_states(states: Sequence[RunState], ranks: int) -> list[RunState]:
    """Convert the states of all ranks of a run to states for ``ranks`` ranks.

    Each lane's state goes to the rank that will host the lane. Together the new ranks deliver the same micro-batches as
    the old ones would have.
    """
    run = merge_states(states, lockstep=not states or states[0].kind not in (FINITE, LANE_BY_LANE))
    if ranks < 1:
        raise StateError(f"expected at least 1 rank, found {ranks}")
    if run.kind != LANE_BY_LANE:
        LaneHosting(lanes=run.lanes, ranks=ranks, rank=0, workers=0)  # raises unless the ranks divide the lanes
    if ranks == run.ranks:
        # In a finite pass the ranks may be at different steps. A rank that has ended it waits for the others.
        by_rank = {state.rank: state for state in states}
        return [
            replace(by_rank[rank], ended=run.ended, mix_changes=run.mix_changes, quarantined=run.quarantined)
            for rank in range(ranks)
        ]
    if any(state.passes != run.passes for state in states):
        raise StateError(
            f"the {plural(run.ranks, 'rank')} of this state are in different passes over the data, so it cannot be "
            f"restored on {plural(ranks, 'rank')}",
            hint=f"restore it on {plural(run.ranks, 'rank')}, or save when all ranks are in one pass",
        )
    return _split(run, ranks)


def ranks_of_run(state: RunState) -> list[int] | None:
    """Return the numbers of ranks on which a run can be restored; None for any."""
    return None if state.kind == LANE_BY_LANE else possible_ranks(state.lanes)


def _split(run: RunState, ranks: int) -> list[RunState]:
    """Assign lane states to ranks. It visits states rather than lanes: a damaged file may have far more lanes."""
    first = 0 if run.kind == LANE_BY_LANE else run.batch  # a lane of rank 0
    lane_states: list[dict[int, State]] = [{} for _ in range(ranks)]
    for lane, state in run.lane_states.items():
        lane_states[(lane - first) % ranks][lane] = state
    counted_on = run.ranks if run.counted_on is None else run.counted_on
    ranks_at = run.steps_on(ranks).ranks_at
    return [
        replace(run, ranks=ranks, rank=rank, lane_states=of_rank, counted_on=counted_on, ranks_at=ranks_at)
        for rank, of_rank in enumerate(lane_states)
    ]
