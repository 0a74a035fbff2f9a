"""Dataclasses of samples and batches: conversion and page-locked copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import is_
from types import NoneType
from typing import Any, Self, TypeVar

from ..lazy_torch import torch

PLAIN = frozenset({bool, bytes, float, int, str, NoneType})
"""Classes of values that stay."""


@lru_cache(maxsize=256)
def field_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, without those that describe the sample."""
    return tuple(field.name for field in fields(kind) if not field.name.startswith("__"))


def _is_packed(value: Any) -> bool:
    """Return True for a sequence that torch has packed: a NamedTuple that partly stays on the CPU."""
    return isinstance(value, torch.nn.utils.rnn.PackedSequence)


def map_values(value: Any, function: Callable[[Any], Any], *, is_leaf: Callable[[Any], bool] = _is_packed) -> Any:
    """Apply a function to the values in nested dicts, lists, tuples, NamedTuples and dataclasses.

    Containers without a changed value are returned as they are; others are copied, with their classes. Numbers, text
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
        # Copy only what changes: values that stay the same are shared with the original.
        changed = {
            key: new for key, old in value.items() if (new := map_values(old, function, is_leaf=is_leaf)) is not old
        }
        if not changed:
            return value
        if type(value) is dict:
            return value | changed
        copied: Any = copy(value)
        for key, new in changed.items():
            copied[key] = new
        return copied
    if isinstance(value, list | tuple):
        items = [item if type(item) in PLAIN else map_values(item, function, is_leaf=is_leaf) for item in value]
        if all(map(is_, items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _mapped_fields(value, function, is_leaf)
    return function(value)


def _mapped_fields(value: Any, function: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    copied = value
    kind: Any = type(value)
    for name in field_names(kind):
        old = getattr(value, name, None)
        new = old if type(old) in PLAIN else map_values(old, function, is_leaf=is_leaf)
        if new is not old:
            copied = copy(value) if copied is value else copied
            object.__setattr__(copied, name, new)  # also of a frozen class
    return copied


class PinMemoryMixin:
    """Dataclass that can be copied to page-locked memory."""

    __slots__ = ()

    def pin_memory(self) -> Self:
        """Return a copy whose tensors are in page-locked memory, so that a GPU can copy them asynchronously."""
        copied: Self = with_pinned_fields(self)
        return copied


class TagsMixin:
    """Dataclass whose ``__subflavors__`` have a second name, ``__tags__``."""

    __slots__ = ()

    @property
    def __tags__(self) -> Any:
        """Other name of ``__subflavors__``."""
        return self.__subflavors__  # type: ignore[attr-defined] # a field of the dataclass

    @__tags__.setter
    def __tags__(self, value: Any) -> None:
        object.__setattr__(self, "__subflavors__", value)  # a field of the dataclass, which has no slots


def with_field_names(fields_given: dict[str, Any]) -> dict[str, Any]:
    """Replace ``__tags__`` among given fields by ``__subflavors__``, the name of the field.

    Raises:
        TypeError: Both are given.
    """
    if "__tags__" not in fields_given:
        return fields_given
    if "__subflavors__" in fields_given:
        raise TypeError("expected __subflavors__ or __tags__, its other name, found both")
    given = dict(fields_given)
    given["__subflavors__"] = given.pop("__tags__")
    return given


class ExtendableDataclassMixin:
    """Dataclass that can be created from another one with fewer fields."""

    __slots__ = ()

    @classmethod
    def extend(cls, src: Any, **fields_given: Any) -> Self:
        """Create one of this type from all fields of ``src``; the given fields override them.

        >>> from loader import CaptioningSample, ImageSample
        >>> image = ImageSample(__key__="s.tar/0", image=torch.zeros(0))
        >>> CaptioningSample.extend(image, caption="black")
        CaptioningSample(__key__='s.tar/0', image=Tensor(float32, [0]), caption='black')
        """
        return cls(**{known.name: getattr(src, known.name) for known in fields(src)} | with_field_names(fields_given))


T = TypeVar("T")


def pinned(value: Any) -> Any:
    """Return a copy of a value whose tensors are in page-locked memory; a value without tensors is returned as it is.

    Recurses as :func:`map_values` does, and calls ``pin_memory`` of all objects that have it, as tensors do.
    """
    return map_values(value, _pin, is_leaf=_is_pinned_whole)


def with_pinned_fields(value: Any) -> Any:
    """Return a dataclass whose fields' tensors are in page-locked memory: a copy, if it has any."""
    return _mapped_fields(value, _pin, _is_pinned_whole)


def _pin(value: Any) -> Any:
    return value.pin_memory() if hasattr(value, "pin_memory") else value


def _is_pinned_whole(value: Any) -> bool:
    return hasattr(value, "pin_memory") or (isinstance(value, Mapping) and not isinstance(value, dict))
