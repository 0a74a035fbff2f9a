"""Find the states of loaders within the content of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import StateError
from .plain_data import MAX_DEPTH, MAX_VALUES, check_plain
from .run_state import RunState

__all__ = ["FoundState", "Place", "find_states", "place_text"]

Place = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_STATE_KEYS = frozenset({"version", "lanes", "ranks", "rank", "lane"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundState:
    """A state and its place in the document."""

    place: Place
    state: RunState


def find_states(document: Any) -> list[FoundState]:
    """Find all states of ranks in nested dicts and lists, in their order.

    Args:
        document: The content of a checkpoint. Values other than dicts, lists and tuples are ignored, and so are values
            nested deeper than 64 levels.

    Raises:
        StateError: A state is damaged or of another version, or the document has millions of dicts and lists.

    >>> find_states({"model": {}, "step": 3})
    []
    """
    found = []
    for place, value in _mappings(document):
        try:
            check_plain(value, is_json=True)
            state = RunState.from_plain(value)
        except StateError as error:
            error.at = place_text(place) or None
            raise
        found.append(FoundState(place=place, state=state))
    return found


def place_text(place: Place) -> str:
    """Return a place as a Python expression.

    >>> place_text(("data", "loader", 0))
    'data.loader[0]'
    """
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")


def _mappings(document: Any) -> Iterator[tuple[Place, Mapping[Any, Any]]]:
    """Yield the mappings that have the keys of a state, with their places."""
    seen: set[int] = set()  # a pickle may hold reference cycles, or few lists that nest to billions by references
    pending: list[tuple[Place, Any]] = [((), document)]
    while pending:
        place, value = pending.pop()
        if id(value) in seen or len(place) > MAX_DEPTH:
            continue
        seen.add(id(value))
        if len(seen) + len(pending) > MAX_VALUES:
            raise _too_many()
        if isinstance(value, Mapping):
            if value.keys() >= _STATE_KEYS:
                yield place, value
                continue
            entries: Iterator[tuple[str | int, Any]] = ((str(key), inner) for key, inner in value.items())
        elif isinstance(value, list | tuple):
            entries = iter(enumerate(value))
        else:
            continue
        inner = [(key, one) for key, one in entries if isinstance(one, Mapping | list | tuple)]
        if len(inner) > MAX_VALUES:
            raise _too_many()
        pending.extend(((*place, key), one) for key, one in reversed(inner))


def _too_many() -> StateError:
    return StateError(f"expected a checkpoint, found more than {MAX_VALUES:,} dicts and lists")
