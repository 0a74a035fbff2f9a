"""The state of a run: what a rank saves, and how the states of all ranks make one of the whole run.

Plain nested dicts and lists of str, int, float, bool and None: JSON holds it, and so does
``torch.load(…, weights_only=True)``.

============  ========================================================================
``version``   of this layout
``lanes``     L, fixed for the life of the run
``ranks``     R when it was saved, and ``rank``
``seed``      of the run
``kind``      ``"endless"``, ``"finite"``, or ``"lane by lane"``: how lanes are visited
``batch``     the micro-batch of the whole run that comes next
``lane``      number → what the lane's chain needs to go on
``passes``    the passes over a finite dataset that were begun anew
``ended``     whether the pass is over, so that the next iteration begins it anew
``steps``     what virtual epochs, limits and repeats have counted, outermost first
``dataset``   the chain and its data, for comparison
============  ========================================================================

A state that was made for another number of ranks also says on how many ``steps`` were counted: ``counted_on``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import StateError
from ...format.documents.messages import short_repr

if TYPE_CHECKING:  # a program that only looks into states needs no stages, and no torch
    from ...pipeline.contract.stage import State

__all__ = ["ENDLESS", "FINITE", "LANE_BY_LANE", "RunState", "compare_datasets", "merge_states"]

ENDLESS = "endless"
"""Lanes in turn, for ever: all ranks always come equally far."""
FINITE = "finite"
"""Lanes in turn, each to its end."""
LANE_BY_LANE = "lane by lane"
"""Lanes one after another, each to its end, on as many ranks as one likes."""

_VERSION = 1
_MOST_SHOWN = 8
_MOST_LANES = 1 << 32
_MOST_BATCHES = 1 << 53  # what every reader of JSON keeps exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run stands, as one rank knows it, or as all know it together.

    Attributes:
        lanes: L.
        ranks: R when it was saved.
        rank: Which rank; None for all together.
        seed: Of the run.
        batch: The micro-batch of the run that comes next.
        lane_states: By lane, for lanes that have begun.
        steps: The counts of the stages that count on the rank, outermost first.
        passes: The passes that were begun anew.
        ended: The pass is over.
        dataset: What the chain and its data are.
        kind: How lanes are visited; None where the state does not say.
        counted_on: The number of ranks on which ``steps`` were counted; None: ``ranks``.
    """

    lanes: int
    ranks: int
    rank: int | None
    seed: int
    batch: int = 0
    lane_states: Mapping[int, State] = field(default_factory=dict)
    steps: Sequence[int] = ()
    passes: int = 0
    ended: bool = False
    dataset: Any = None
    kind: str | None = None
    counted_on: int | None = None

    def to_plain(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "version": _VERSION,
            "lanes": self.lanes,
            "ranks": self.ranks,
            "rank": self.rank,
            "seed": self.seed,
            "kind": self.kind,
            "batch": self.batch,
            "lane": {str(number): state for number, state in sorted(self.lane_states.items())},
            "steps": list(self.steps),
            "passes": self.passes,
            "ended": self.ended,
            "dataset": self.dataset,
            **({} if self.counted_on in (None, self.ranks) else {"counted_on": self.counted_on}),
        }

    @classmethod
    def from_plain(cls, saved: Any) -> RunState:
        """Read what :meth:`to_plain` gave.

        Raises:
            StateError: It is no such state, or one of another version.
        """
        if not isinstance(saved, Mapping) or "version" not in saved:
            raise StateError(
                f"expected a state that save_state_rank() gave, found {_described(saved)}",
                hint="pass what the loader's save_state_rank() or save_state_global() returned",
            )
        if saved["version"] != _VERSION:
            raise StateError(f"expected a state of version {_VERSION}, found version {saved['version']!r}")
        try:
            state = cls(
                lanes=_integer(saved["lanes"]),
                ranks=_integer(saved["ranks"]),
                rank=None if saved["rank"] is None else _integer(saved["rank"]),
                seed=_integer(saved["seed"]),
                batch=_integer(saved["batch"]),
                lane_states={_lane(number): dict(state) for number, state in saved["lane"].items()},
                steps=[_integer(count) for count in saved["steps"]],
                passes=_integer(saved["passes"]),
                ended=bool(saved["ended"]),
                dataset=saved["dataset"],
                kind=_kind(saved.get("kind")),
                counted_on=None if saved.get("counted_on") is None else _integer(saved["counted_on"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise StateError(f"this state is damaged: {type(error).__name__}: {error}") from error
        state._check()
        return state

    def _check(self) -> None:
        """Refuse numbers that no loader saves.

        Raises:
            StateError: A number is out of range.
        """
        for name, number, stop in (
            ("lanes", self.lanes - 1, _MOST_LANES),
            ("ranks", self.ranks - 1, _MOST_LANES),
            ("rank", self.rank or 0, self.ranks),
            ("batch", self.batch, _MOST_BATCHES),
            ("steps", min(self.steps, default=0), _MOST_BATCHES),
            ("steps", max(self.steps, default=0), _MOST_BATCHES),
            ("passes", self.passes, _MOST_BATCHES),
            ("counted_on", (self.ranks if self.counted_on is None else self.counted_on) - 1, _MOST_LANES),
            ("lane", min(self.lane_states, default=0), self.lanes),
            ("lane", max(self.lane_states, default=0), self.lanes),
        ):
            if not 0 <= number < stop:
                raise StateError(f"this state is damaged: its {name!r} is out of range")


def _integer(value: Any) -> int:
    """Give an integer as one; what is rounded or parsed may not be what was saved.

    Raises:
        TypeError: It is none.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer, found {short_repr(value)}")
    return operator.index(value)


def _kind(value: Any) -> str | None:
    """Give how lanes are visited.

    Raises:
        TypeError: It is no name.
    """
    if value is not None and not isinstance(value, str):
        raise TypeError(f"expected the name of a kind, found {short_repr(value)}")
    return value


def _lane(name: Any) -> int:
    """Read the number of a lane, of which there is one name.

    Raises:
        ValueError: It is no number, or another name of it.
    """
    number = int(name)
    if str(number) != str(name):
        raise ValueError(f"expected the number of a lane, found {short_repr(name)}")
    return number


def merge_states(states: Sequence[RunState], *, lockstep: bool) -> RunState:
    """Join the states of all ranks.

    Args:
        states: One for each rank, in any order.
        lockstep: All ranks must have come equally far (a run without end, in which lanes never end). In a pass that
            ends some may be a micro-batch ahead; then the counts of virtual epochs and limits are those of the rank
            that has come furthest, so that no limit is exceeded.

    Raises:
        StateError: A rank's state is missing or there twice, or they are not of one moment of one run.
    """
    if not states:
        raise StateError("expected the states of all ranks, found none")
    first = states[0]
    ranks = sorted(-1 if state.rank is None else state.rank for state in states)
    if len(ranks) != first.ranks or ranks != list(range(len(ranks))):
        raise StateError(
            f"expected one state of each of the {first.ranks} ranks, found those of ranks {ranks}",
            hint="pass the states, or name the files, of all ranks; in a run save_state_global() gathers them",
        )
    for name in ("lanes", "ranks", "seed", "kind", "counted_on", "dataset"):
        if any(getattr(state, name) != getattr(first, name) for state in states):
            raise StateError(f"the states are of different runs: their {name!r} differ")
    if any(len(state.steps) != len(first.steps) for state in states):
        raise StateError("the states are of different runs: their 'steps' differ")
    batches = sorted({state.batch for state in states})
    if lockstep and len(batches) > 1:
        raise _different_moments("next micro-batches", batches)
    steps = sorted({tuple(state.steps) for state in states})
    if lockstep and len(steps) > 1:
        raise _different_moments("counts of virtual epochs and limits", [list(counts) for counts in steps])
    lane_states: dict[int, State] = {}
    for state in states:
        lane_states |= state.lane_states
    return RunState(
        lanes=first.lanes,
        ranks=first.ranks,
        rank=None,
        seed=first.seed,
        batch=batches[0],
        lane_states=lane_states,
        steps=list(steps[-1]),  # outermost first, so the last one is the furthest
        passes=first.passes,
        ended=all(state.ended for state in states),
        dataset=first.dataset,
        kind=first.kind,
        counted_on=first.counted_on,
    )


def _different_moments(what: str, found: Sequence[Any]) -> StateError:
    return StateError(
        f"the ranks' states are of different moments: the {what} are {', '.join(map(str, found))}",
        hint="save on all ranks after the same step",
    )


def compare_datasets(saved: Any, now: Any) -> None:
    """Compare what two chains and their data are.

    Raises:
        StateError: They differ; the message names each difference.
    """
    before, after = _outline(saved) or "nothing", _outline(now)
    # With a stage more or less, all that follows would be compared with its neighbour.
    differences = list(_differences(saved, now, "")) if before == after else [f"it was {before}, now {after}"]
    if differences:
        raise StateError(
            "the state is of another dataset or pipeline:\n  " + "\n  ".join(differences[:_MOST_SHOWN]),
            hint="build the dataset with the data and arguments of the run that was saved, or start a new run",
        )


def _outline(identity: Any) -> str:
    """Name the stages of a chain, from the data on: ``"read → decode → batch"``."""
    if not (isinstance(identity, list | tuple) and identity and isinstance(identity[0], str)):
        return ""
    sources = [outline for outline in map(_outline, identity[2:]) if outline]
    below = f"({', '.join(sources)})" if len(sources) > 1 else "".join(sources)
    return f"{below} → {identity[0]}" if below else identity[0]


def _differences(saved: Any, now: Any, place: str) -> Iterator[str]:
    """Name what differs between two descriptions of chains: nested lists and dicts of plain values."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        name = f"{place} {now['path']}" if "path" in now else place
        for key in sorted({*saved, *now}, key=str):
            if key != "path":  # data may have been moved; what it is, the uuid says
                yield from _differences(saved.get(key), now.get(key), f"{name}: {key}")
    elif isinstance(saved, list | tuple) and isinstance(now, list | tuple):
        inner = f"{place} > {now[0]}" if now and isinstance(now[0], str) else place
        if len(saved) == len(now):
            for one, other in zip(saved, now, strict=True):
                yield from _differences(one, other, inner.removeprefix(" > "))
        else:
            yield f"{inner.removeprefix(' > ')}: it had {len(saved)} parts, now {len(now)}"
    elif saved != now:
        yield f"{place or 'the stage'}: it was {saved!r}, now {now!r}"


def _described(saved: Any) -> str:
    if isinstance(saved, Mapping):
        return f"a dict with the keys {sorted(map(str, saved))[:8]}"
    return f"a {type(saved).__name__}"
