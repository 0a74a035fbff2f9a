"""Tensors to page-locked memory, wherever in a sample or batch they are."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

__all__ = ["pinned", "with_pinned_fields"]


def pinned(value: Any) -> Any:
    """Copy a value with all its tensors in page-locked memory; what holds no tensor is passed on.

    Looks into dataclasses, dicts, lists and tuples, and asks other objects that have a method ``pin_memory``.
    """
    if isinstance(value, Tensor):
        return value.pin_memory()
    if isinstance(value, str | bytes | int | float | None):
        return value
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, dict):
        copied = copy(value)
        copied.update({name: pinned(inner) for name, inner in value.items()})
        return copied
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pinned, value))
    if type(value) in {list, tuple}:
        return type(value)(map(pinned, value))
    return with_pinned_fields(value) if is_dataclass(value) and not isinstance(value, type) else value


def with_pinned_fields(value: Any) -> Any:
    """Copy a dataclass with all tensors of its fields in page-locked memory."""
    copied = copy(value)
    for known in fields(value):
        # A frozen dataclass is copied, too, and the class's own __init__ need not understand batched fields.
        object.__setattr__(copied, known.name, pinned(getattr(value, known.name)))
    return copied
