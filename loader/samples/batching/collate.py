"""Values of samples to values of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

from torch import Tensor

from ...errors import SampleError
from ..hooks import library_hook
from .pad import UnlikeError, kind_of, pad_stack, stack

__all__ = [
    "batch_columns",
    "batch_list",
    "batch_pad_stack",
    "batch_stack",
    "generic_batch",
    "join_sources",
    "no_samples",
]


@library_hook
def batch_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack B tensors of one shape to a tensor of shape (B, …).

    Raises:
        SampleError: The shapes differ, or there are no tensors.

    >>> batch_stack([torch.zeros(3), torch.ones(3)]).shape
    torch.Size([2, 3])
    """
    if not tensors:
        raise no_samples()
    first = tensors[0].shape
    for number, tensor in enumerate(tensors):
        if tensor.shape != first:
            found = f"a tensor of shape {tuple(first)}", f"one of shape {tuple(tensor.shape)}"
            raise UnlikeError(0, number, *found).of(tensors)
    return stack(tensors)


@library_hook
def batch_pad_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors of equal rank, zero-padding every dimension to the longest.

    Args:
        tensors: B tensors of shape (d1_i, …, dn_i). Where their types differ, the batch has one that holds them all.

    Returns:
        Shape (B, max d1, …, max dn).

    Raises:
        SampleError: The ranks differ, or there are no tensors.

    >>> batch_pad_stack([torch.ones(2), torch.ones(3)])
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    if not tensors:
        raise no_samples()
    try:
        return pad_stack(tensors)
    except UnlikeError as error:
        raise error.of(tensors) from None


@library_hook
def batch_list(values: Sequence[Any]) -> list[Any]:
    """Make a list of the values.

    >>> batch_list(("a cat", "a dog"))
    ['a cat', 'a dog']
    """
    return list(values)


@library_hook
def generic_batch(samples: Sequence[Any]) -> Any:
    """Make a batch of samples, or of one value of each.

    Tensors are zero-padded to the longest and stacked. A dict gives a dict and a dataclass one of its own class, made
    name by name: ``__restore_key__`` a tuple, ``__subflavors__`` a list, ``__sources__`` all sources in one tuple.
    Everything else gives a list: text, numbers, lists, numpy arrays, None.

    Args:
        samples: At least one, all of one kind.

    Raises:
        SampleError: There are no samples, or one of them has other names, another class or a tensor of another rank
            than the first; the message names both.

    >>> generic_batch([{"ids": torch.tensor([1]), "text": "a"}, {"ids": torch.tensor([2, 3]), "text": "a b"}])
    {'ids': tensor([[1, 0],
            [2, 3]]), 'text': ['a', 'a b']}
    """
    if not samples:
        raise no_samples()
    try:
        return _batch(list(samples))
    except UnlikeError as error:
        raise error.of(samples) from None


def batch_columns(columns: Mapping[str, list[Any]], samples: Sequence[Any]) -> dict[str, Any]:
    """Make a batch of each list of values.

    Args:
        columns: By name, a value of each sample.
        samples: The samples, to name them in errors.

    Raises:
        SampleError: The values of two samples don't fit together.
    """
    batch = {}
    for name, column in columns.items():
        try:
            batch[name] = _SHARED.get(name, _batch)(column)
        except UnlikeError as error:
            raise error.inside(name).of(samples) from None
    return batch


def join_sources(sources: Sequence[Any]) -> tuple[Any, ...] | None:
    """Join the ``__sources__`` of samples, or of batches; None where none of them has any.

    >>> join_sources([("a",), None, ("b", "c")])
    ('a', 'b', 'c')
    """
    if None in sources:
        sources = [each for each in sources if each is not None]
    return tuple(chain.from_iterable(sources)) if sources else None


def no_samples() -> SampleError:
    """Make the error about a batch of nothing."""
    return SampleError(
        "there is nothing to make a batch of: the list is empty", hint="leave out batches without samples"
    )


def _as_it_is(column: list[Any]) -> list[Any]:
    return column


# What the names that all samples share become; none of them needs a look at its values.
_SHARED: dict[str, Callable[[list[Any]], Any]] = {
    "__key__": _as_it_is,
    "__restore_key__": tuple,
    "__sources__": join_sources,
    "__subflavors__": _as_it_is,
}


def _batch(column: list[Any]) -> Any:
    kinds: list[Any] = list(map(type, column))
    alike = kinds.count(kinds[0]) == len(kinds)
    collate = _collate_of(kinds[0]) if alike else _collate_of_several(column, kinds)
    return column if collate is None else collate(column)


@lru_cache(maxsize=256)
def _collate_of(kind: Any) -> Callable[[list[Any]], Any] | None:
    """Find how values of one class are batched, once for each class: this looks at its fields. None: as a list."""
    if issubclass(kind, Tensor):
        return pad_stack
    if issubclass(kind, dict):
        return _batch_dicts
    return _collate_of_dataclass(kind) if is_dataclass(kind) else None


def _collate_of_several(column: list[Any], kinds: list[Any]) -> Callable[[list[Any]], Any] | None:
    """Find how values of several classes are batched: tensors and parameters, dicts and crude samples, text and None.

    Raises:
        UnlikeError: Each of them would be batched in another way.
    """
    collates = [_collate_of(kind) for kind in kinds]
    for number, other in enumerate(collates):
        if other is not collates[0]:
            raise UnlikeError(0, number, kind_of(column[0]), kind_of(column[number]))
    return collates[0]


def _collate_of_dataclass(kind: Any) -> Callable[[list[Any]], Any]:
    names = tuple(known.name for known in fields(kind) if known.init)
    columns = tuple((name, attrgetter(name), _SHARED.get(name, _batch)) for name in names)

    def batch_dataclasses(samples: list[Any]) -> Any:
        batch = {}
        for name, get, collate in columns:
            try:
                batch[name] = collate(list(map(get, samples)))
            except UnlikeError as error:
                raise error.inside(name) from None
        return kind(**batch)

    return batch_dataclasses


def _batch_dicts(samples: list[dict[str, Any]]) -> dict[str, Any]:
    first = samples[0]
    batch = {}
    for name in first:
        try:
            column = [sample[name] for sample in samples]
        except KeyError:
            number = next(number for number, sample in enumerate(samples) if name not in sample)
            raise UnlikeError(0, number, "there", "missing").inside(name) from None
        try:
            batch[name] = _SHARED.get(name, _batch)(column)
        except UnlikeError as error:
            raise error.inside(name) from None
    if sum(map(len, samples)) != len(first) * len(samples):
        number = next(number for number, sample in enumerate(samples) if len(sample) > len(first))
        name = next(name for name in samples[number] if name not in first)
        raise UnlikeError(0, number, "missing", "there").inside(name)
    return batch
