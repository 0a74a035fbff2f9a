"""Padding: micro-batches without samples, marked as such, for ranks whose data has ended before the others'."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import ConfigError
from ...lazy_torch import torch
from ..hooks import library_hook

_MARK = "__padding__"


def is_padding(batch: Any) -> bool:
    """Return True if a micro-batch is padding, which ``pad_ranks=True`` yields after the data of a rank.

    Padding has the attribute ``__padding__``, which is true.

    >>> is_padding({"text": ["a cat"]}), is_padding(mark_padding({"text": []}))
    (False, True)
    """
    return bool(getattr(batch, _MARK, False))


@library_hook
def empty_batch(batch: Any) -> Any:
    """Return a micro-batch of the same structure, without samples.

    Tensors and arrays of shape (B, …) get the shape (0, …), those without a dimension become 0, as numbers do. Lists
    and sets are empty, and so are tuples, unless they have a tensor, an array, a dict or a dataclass in them: those
    keep their number of values, as the fields of dicts, dataclasses and named tuples do. A ``__key__`` that is a text
    is empty. Everything else stays: texts, booleans, None, objects of other classes.

    Args:
        batch: A micro-batch; it is not changed.

    >>> empty_batch({"ids": torch.tensor([[1, 2]]), "text": ["a cat"], "tokens": 2, "split": "val"})
    {'ids': tensor([], size=(0, 2), dtype=torch.int64), 'text': [], 'tokens': 0, 'split': 'val'}
    """
    if isinstance(batch, torch.Tensor):
        return batch.new_zeros((0, *batch.shape[1:]) if batch.dim() else ())
    if isinstance(batch, np.ndarray):
        return np.zeros((0, *batch.shape[1:]) if batch.ndim else (), dtype=batch.dtype)
    if isinstance(batch, int | float | complex | np.number) and not isinstance(batch, bool):
        return type(batch)(0)
    if isinstance(batch, list | set | frozenset):
        return type(batch)()
    if isinstance(batch, tuple):
        return _empty_tuple(batch)
    if isinstance(batch, MutableMapping):
        emptied = copy.copy(batch)
        for name, value in batch.items():
            emptied[name] = _empty_field(name, value)
        return emptied
    if is_dataclass(batch) and not isinstance(batch, type):
        return _empty_dataclass(batch)
    return batch


def _empty_dataclass(batch: Any) -> Any:
    emptied = copy.copy(batch)
    for field in fields(batch):
        value = _empty_field(field.name, getattr(batch, field.name))
        object.__setattr__(emptied, field.name, value)  # the class may be frozen
    return emptied


def _empty_field(name: Any, value: Any) -> Any:
    return "" if name == "__key__" and isinstance(value, str) else empty_batch(value)


def _empty_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if hasattr(values, "_make"):  # a named tuple
        made: tuple[Any, ...] = values._make(map(empty_batch, values))
        return made
    return tuple(map(empty_batch, values)) if any(map(_is_structure, values)) else ()


def _is_structure(value: Any) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray | MutableMapping):
        return True
    return is_dataclass(value) and not isinstance(value, type)


class PaddingDict(dict[Any, Any]):
    """A dict that is padding; copies of its type are padding, too, such as those that move a batch to a device."""

    __padding__: ClassVar[bool] = True


class PaddingList(list[Any]):
    """A list that is padding."""

    __padding__: ClassVar[bool] = True


class PaddingTuple(tuple[Any, ...]):
    """A tuple that is padding."""

    __slots__ = ()
    __padding__: ClassVar[bool] = True


_MARKED: dict[type, type] = {dict: PaddingDict, list: PaddingList, tuple: PaddingTuple}


def mark_padding(batch: Any) -> Any:
    """Mark a micro-batch as padding.

    Args:
        batch: The micro-batch. An object with attributes is changed; the result for a dict, list or tuple is a copy of
            a subclass.

    Raises:
        ConfigError: Values of its class have no attributes.
    """
    if is_padding(batch):
        return batch
    kind = type(batch)
    if kind in _MARKED:
        return _MARKED[kind](batch)
    try:
        object.__setattr__(batch, _MARK, True)
    except (AttributeError, TypeError):
        return _of_marked_class(batch)
    return batch


def _of_marked_class(batch: Any) -> Any:
    """Return an object without a ``__dict__`` as one of a subclass that has the mark."""
    kind = type(batch)
    try:
        marked: Any = type(kind.__name__, (kind,), {"__slots__": (), _MARK: True, "__module__": kind.__module__})
        if hasattr(batch, "_make"):
            return marked._make(batch)
        object.__setattr__(batch, "__class__", marked)
    except (AttributeError, TypeError):
        raise ConfigError(
            f"padding of the type {kind.__name__} cannot be marked, since its values have no attributes",
            hint="let the hook padding_batch of the task encoder return a dict, list, tuple or dataclass",
        ) from None
    return batch
