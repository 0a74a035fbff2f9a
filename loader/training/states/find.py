"""Find the states of loaders within the content of a checkpoint; rewrite them within a checkpoint of Lightning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import StateError
from ...storage import open_storage
from .checkpoint_file import load_with_tensors
from .plain_pickle import check_plain, check_size, max_values, too_many_values
from .run_state import RunState

ALL_RANKS = "states of all ranks"
"""The key under which ``state_dict()`` of a loader has the states of all ranks."""

_VERSION_KEY = "pytorch-lightning_version"
_LOADERS_KEY = "combined_loader"


def is_lightning(content: Any) -> bool:
    """Return True if the content of a file is a checkpoint of Lightning."""
    return isinstance(content, Mapping) and _VERSION_KEY in content


def rewrite_lightning(
    path: str,
    found: Sequence[FoundState],
    convert: Callable[[Sequence[RunState]], list[RunState]],
    folder: str | os.PathLike[str],
) -> list[RunState]:
    """Write a checkpoint with converted states of all its loaders.

    Args:
        folder: The folder for the new checkpoint, which has the name of the old one.
    """
    import torch

    slots: dict[tuple[Place, bool], list[RunState]] = {}
    for one in found:
        slots.setdefault(_slot(one), []).append(one.state)
    converted = {slot: convert(states) for slot, states in slots.items()}
    content = load_with_tensors(path)
    for (place, is_framework_state), parts in converted.items():
        plain = [part.to_plain() for part in parts]
        _replace(content, place, {ALL_RANKS: plain} if is_framework_state else plain)
    with open_storage(folder).create(os.path.basename(path)) as file:
        torch.save(content, file)
    return next(iter(converted.values()))


def _slot(found: FoundState) -> tuple[Place, bool]:
    """Return the place of a loader's states, and True if they are there as the result of ``state_dict()``."""
    place = found.place
    if place[-2:-1] == (ALL_RANKS,):
        return place[:-2], True
    if place[-2:-1] == (_LOADERS_KEY,):
        return place, True
    if place and isinstance(place[-1], int):
        return place[:-1], False
    raise StateError(
        f"expected the states of all ranks, found that of rank {found.state.rank} at {place_text(place)}",
        hint="save the result of state_dict() or save_state_global() in the data module's state",
    )


def _replace(content: Any, place: Place, value: Any) -> None:
    for key in place[:-1]:
        content = content[_key(content, key)]
    content[_key(content, place[-1])] = value


def _key(content: Any, name: str | int) -> Any:
    """Return the key that a place names: places have the texts of keys."""
    return next(key for key in content if str(key) == name) if isinstance(content, Mapping) else name


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
    found = []
    allowed = max_values()  # in all states: they may share their values, which are then visited once for each
    for place, value in _mappings(document):
        try:
            allowed -= check_size(value, allowed)
            check_plain(value, is_json=True)
            state = RunState.from_plain(value, allow_edited=allow_edited)
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
    limit = max_values()
    place: list[str | int] = []  # the document itself has a key, too, which is not part of places
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", document)])]  # entries that remain, by depth
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            del place[len(levels) - 1 :]
            continue
        key, value = entry
        if not isinstance(value, Mapping | list | tuple) or id(value) in seen or len(levels) > _MAX_DEPTH:
            continue
        seen.add(id(value))
        if len(seen) > limit:
            raise too_many_values()
        if isinstance(value, Mapping) and value.keys() >= _STATE_KEYS:
            yield (*place, key)[1:], value
        else:
            place.append(key)
            levels.append(_entries(value))


def _entries(value: Mapping[Any, Any] | Sequence[Any]) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return ((str(key), inner) for key, inner in value.items())
    return iter(enumerate(value))
