"""Concatenate batches to one, to mix datasets within a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from torch import Tensor

from ...errors import ConfigError
from .collate import (
    Join,
    MismatchError,
    join_all,
    join_of_dataclass,
    join_of_dicts,
    join_sources,
    kind_of,
    list_unless_none,
    pad_concat,
    pad_stack,
)


def concat_pad(batch: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along their first dimension, zero-padding all others to the longest.

    Args:
        batch: Tensors of shape (d1_i, …, dn_i), n ≥ 1. If their dtypes differ, the result has their common dtype.

    Returns:
        Shape (Σ d1_i, max d2, …, max dn).

    Raises:
        SampleError: The ranks differ, or there are no tensors.

    >>> import torch
    >>> concat_pad([torch.ones(1, 2), torch.ones(2, 3)])
    tensor([[1., 1., 0.],
            [1., 1., 1.],
            [1., 1., 1.]])
    """
    joined: Tensor = join_all(pad_concat, batch)
    return joined


def generic_concat(batch: Sequence[Any]) -> Any:
    """Concatenate batches, or one value of each.

    Tensors are concatenated with :func:`concat_pad`, scalars stacked; lists and tuples are concatenated. Dicts become a
    dict and dataclasses a dataclass of their class, field by field: ``__restore_key__`` a tuple of the batches' keys,
    ``__sources__`` a list or tuple as in the batches. If all values are None, so is the result; other values become a
    list.

    Raises:
        SampleError: There are no batches, or one differs from the first in its fields, its class or the rank of a
            tensor.

    >>> import torch
    >>> generic_concat([{"ids": torch.tensor([[1]]), "text": ["a"]}, {"ids": torch.tensor([[2, 3]]), "text": ["b"]}])
    {'ids': tensor([[1, 0],
            [2, 3]]), 'text': ['a', 'b']}
    """
    return join_all(_concat, list(batch))


def homogeneous_concat_mix(samples: Sequence[Any]) -> Any:
    """Concatenate batches of one type with :func:`generic_concat`.

    It is the default ``batch_mix_fn`` of ``MixBatchDataset``.

    Raises:
        ConfigError: The batches are of several types.
        SampleError: Their values cannot be concatenated.
    """
    kinds = dict.fromkeys(map(type, samples))
    if len(kinds) > 1:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise ConfigError(
            f"homogeneous_concat_mix joins batches of one type, found {names}",
            hint="pass your own batch_mix_fn, which builds one batch from such a list",
        )
    return generic_concat(samples)


def _concat(values: list[Any]) -> Any:
    kinds: list[Any] = list(map(type, values))
    joins = list(map(_join_of, kinds))
    for sample_index, join in enumerate(joins):
        if join is not joins[0]:
            raise MismatchError(0, sample_index, kind_of(values[0]), kind_of(values[sample_index]))
    return joins[0](values)


@lru_cache(maxsize=256)
def _join_of(kind: Any) -> Join:
    if issubclass(kind, Tensor):
        return _concat_tensors
    if issubclass(kind, dict):
        return _concat_dicts
    if kind in {list, tuple}:
        return lambda values: kind(chain.from_iterable(values))
    return join_of_dataclass(kind, _SHARED, _concat) if is_dataclass(kind) else list_unless_none


def _concat_tensors(tensors: list[Tensor]) -> Tensor:
    return pad_concat(tensors) if all(tensor.ndim for tensor in tensors) else pad_stack(tensors)


def _join_subflavors(values: list[Any]) -> Any:
    """Concatenate lists of subflavors; a dict is the subflavors of a single sample."""
    return _concat([[value] if isinstance(value, dict) else value or [] for value in values]) or None


def _join_sources(values: list[Any]) -> Any:
    joined = join_sources(values)
    return list(joined) if joined is not None and any(isinstance(value, list) for value in values) else joined


# How the fields of all batches are concatenated.
_SHARED: dict[str, Join] = {
    "__restore_key__": tuple,
    "__sources__": _join_sources,
    "__subflavors__": _join_subflavors,
}

_concat_dicts = join_of_dicts(_SHARED, _concat)
