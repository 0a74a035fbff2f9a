"""Apply a function to the values of nested containers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import is_
from types import NoneType
from typing import Any

from ..lazy_torch import torch

PLAIN = frozenset({bool, bytes, float, int, str, NoneType})
"""Classes of values that stay."""


@lru_cache(maxsize=256)
def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, without those that describe the sample."""
    return tuple(field.name for field in fields(kind) if not field.name.startswith("__"))


def _is_packed(value: Any) -> bool:
    """Return True for a sequence that torch has packed: a NamedTuple, part of which stays on the CPU."""
    return isinstance(value, torch.nn.utils.rnn.PackedSequence)


def map_values(value: Any, function: Callable[[Any], Any], *, is_leaf: Callable[[Any], bool] = _is_packed) -> Any:
    """Apply a function to the values in nested dicts, lists, tuples, NamedTuples and dataclasses.

    Containers of which no value changes are returned as they are; others are copied, with their classes. Numbers, text
    and bytes in containers stay, and so do fields such as ``__sources__``, which describe the samples.

    Args:
        value: The nested values.
        function: Returns the new value, or the same object.
        is_leaf: Returns True for containers that the function gets as a whole.

    >>> map_values({"a": [1, {2}], "b": (3,)}, lambda value: sorted(value))
    {'a': [1, [2]], 'b': (3,)}
    """
    if is_leaf(value):
        return function(value)
    if isinstance(value, Mapping):
        changed = {
            key: new for key, old in value.items() if (new := map_values(old, function, is_leaf=is_leaf)) is not old
        }
        if not changed:
            return value
        if type(value) is dict:
            return value | changed
        copied: Any = copy.copy(value)
        for key, new in changed.items():
            copied[key] = new
        return copied
    if isinstance(value, list | tuple):
        found = [item if type(item) in PLAIN else map_values(item, function, is_leaf=is_leaf) for item in value]
        if all(map(is_, found, value)):
            return value
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if is_dataclass(value) and not isinstance(value, type):
        return _mapped_fields(value, function, is_leaf)
    return function(value)


def _mapped(value: Any, function: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    return value if type(value) in PLAIN else map_values(value, function, is_leaf=is_leaf)


def _mapped_fields(value: Any, function: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    copied = value
    kind: Any = type(value)
    for name in field_names(kind):
        old = getattr(value, name, None)
        new = _mapped(old, function, is_leaf)
        if new is not old:
            copied = copy.copy(value) if copied is value else copied
            object.__setattr__(copied, name, new)  # also of a frozen class
    return copied
