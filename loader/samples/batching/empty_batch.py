"""Batches without samples, with the fields of other batches."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ...lazy_torch import torch
from ..hooks import library_hook


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
    for known in fields(batch):
        value = _empty_field(known.name, getattr(batch, known.name))
        object.__setattr__(emptied, known.name, value)  # the class may be frozen
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
