"""Find the states of loaders in the content of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import StateError
from .run_state import RunState
from .state_size import check_size, max_values, too_many_values

ALL_RANKS = "states of all ranks"
"""The key under which ``state_dict()`` of a loader has the states of all ranks."""

Place = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_STATE_KEYS = frozenset({"version", "lanes", "ranks", "rank", "lane"})
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundState:
    """A state and its place in the document."""

    place: Place
    state: RunState


def find_states(document: Any, *, allow_edited: bool = False) -> list[FoundState]:
    """Find all states of ranks in nested dicts and lists, in their order.

    Args:
        document: The content of a checkpoint. Values other than dicts, lists and tuples are ignored, and so are values
            nested deeper than 64 levels.

    >>> find_states({"model": {}, "step": 3})
    []
    """
    states = []
    allowed = max_values()  # in all states: they may share their values, which are then visited once for each
    for keys, value in _mappings(document):
        try:
            allowed -= check_size(value, allowed)
            state = RunState.from_plain(value, allow_edited=allow_edited, is_json=True)
        except StateError as error:
            error.at = place_text(keys) or None
            raise
        states.append(FoundState(place=keys, state=state))
    return states


def place_text(keys: Place) -> str:
    """Return a place as a Python expression.

    >>> place_text(("data", "loader", 0))
    'data.loader[0]'
    """
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _mappings(document: Any) -> Iterator[tuple[Place, Mapping[Any, Any]]]:
    """Yield the mappings that have the keys of a state, with their places."""
    # Walk the document depth-first, with the rest of each level on a stack.
    seen: set[int] = set()  # a pickle may hold reference cycles, or few lists that nest to billions by references
    limit = max_values()
    keys: list[str | int] = []  # the document itself has a key, too, which is not part of places
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", document)])]  # entries that remain, by depth
    while levels:
        entry = next(levels[-1], None)
        # A level is over: return to the one above.
        if entry is None:
            levels.pop()
            del keys[len(levels) - 1 :]
            continue
        key, value = entry
        # Visit each container once.
        if not isinstance(value, Mapping | list | tuple) or id(value) in seen or len(levels) > _MAX_DEPTH:
            continue
        seen.add(id(value))
        if len(seen) > limit:
            raise too_many_values()
        # A state ends the descent: its inner values are no states.
        if isinstance(value, Mapping) and value.keys() >= _STATE_KEYS:
            yield (*keys, key)[1:], value
        else:
            keys.append(key)
            levels.append(_entries(value))


def _entries(value: Mapping[Any, Any] | Sequence[Any]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return ((str(key), inner) for key, inner in value.items())
    return iter(enumerate(value))
