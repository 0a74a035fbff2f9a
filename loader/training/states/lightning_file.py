"""Rewrite the states of loaders within a checkpoint of Lightning, and keep everything else in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import StateError
from ...storage import open_storage
from .checkpoint_file import load_with_tensors
from .find import FoundState, Place, place_text
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
        path: The checkpoint.
        found: The states in it; each loader is converted by itself.
        convert: Returns the new states of all ranks of a loader.
        folder: The folder for the new checkpoint, which has the name of the old one.

    Returns:
        The new states of the first loader.

    Raises:
        StateError: A loader's states are not those of all ranks, or cannot be converted; or the file holds objects that
            would run code.
        StorageError: The file cannot be written.
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
    """Return the place of a loader's states, and True if they are there as the result of ``state_dict()``.

    Raises:
        StateError: The state belongs to a single rank, to be restored by that rank.
    """
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
