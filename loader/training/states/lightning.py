"""Rewrite the states of loaders within a checkpoint of Lightning, whose tensors stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import StateError
from ...storage import EPath, open_storage
from .found_states import ALL_RANKS, FoundState, Place, place_text
from .run_state import RunState
from .state_size import HINT

_VERSION_KEY = "pytorch-lightning_version"
_LOADERS_KEY = "combined_loader"


def is_lightning(content: Any) -> bool:
    """Return True if the content of a file is a checkpoint of Lightning."""
    return isinstance(content, Mapping) and _VERSION_KEY in content


def rewrite_lightning(
    path: str,
    placed: Sequence[FoundState],
    convert: Callable[[Sequence[RunState]], list[RunState]],
    folder: str | os.PathLike[str],
) -> list[RunState]:
    """Write a checkpoint with converted states of all its loaders.

    Args:
        folder: The folder for the new checkpoint, which has the name of the old one.
    """
    import torch

    slots: dict[tuple[Place, bool], list[RunState]] = {}
    for placed_state in placed:
        slots.setdefault(_slot(placed_state), []).append(placed_state.state)
    converted = {slot: convert(states) for slot, states in slots.items()}
    content = load_with_tensors(path)
    for (keys, is_framework_state), parts in converted.items():
        plain = [part.to_plain() for part in parts]
        _replace(content, keys, {ALL_RANKS: plain} if is_framework_state else plain)
    with open_storage(folder).create(os.path.basename(path)) as file:
        torch.save(content, file)
    return next(iter(converted.values()))


def _slot(placed: FoundState) -> tuple[Place, bool]:
    """Return the place of a loader's states, and True if they are there as the result of ``state_dict()``."""
    keys = placed.place
    if keys[-2:-1] == (ALL_RANKS,):
        return keys[:-2], True
    if keys[-2:-1] == (_LOADERS_KEY,):
        return keys, True
    if keys and isinstance(keys[-1], int):
        return keys[:-1], False
    raise StateError(
        f"expected the states of all ranks, found that of rank {placed.state.rank} at {place_text(keys)}",
        hint="save the result of state_dict() or save_state_global() in the data module's state",
    )


def _replace(content: Any, keys: Place, value: Any) -> None:
    for key in keys[:-1]:
        content = content[_key(content, key)]
    content[_key(content, keys[-1])] = value


def _key(content: Any, name: str | int) -> Any:
    """Return the key that a place names: places have the texts of keys."""
    return next(key for key in content if str(key) == name) if isinstance(content, Mapping) else name


def load_with_tensors(path: str) -> Any:
    """Load a file of ``torch.save`` that :func:`read_checkpoint` accepted, with its tensors on the CPU.

    The data of tensors is read when it is used.
    """
    import torch

    try:
        return torch.load(EPath(path).local_path(), map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StateError(f"torch cannot read this file: {reason}", at=path, hint=HINT) from error
