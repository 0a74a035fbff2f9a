"""Collate values of samples to values of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial, reduce
from itertools import accumulate, chain
from math import prod
from operator import attrgetter
from typing import Any, Self

from ...errors import SampleError
from ...lazy_torch import torch
from ..batch_memory import place
from ..hooks import library_hook
from ..types import CrudeSample, crude_batch

SMALL = 1 << 20
"""Number of elements that fit into a processor's cache, where clearing the whole tensor first costs next to nothing.

In a larger tensor each element is written once: only the padding is cleared."""


def stack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack B tensors of one shape to a tensor of shape (B, …)."""
    tensors = _one_dtype(tensors)
    return torch.stack(list(tensors), out=place((len(tensors), *tensors[0].shape), like=tensors[0]))


def pad_stack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack B tensors of shapes (d1_i, …, dn_i) to one of shape (B, max d1, …, max dn), padded with zeros.

    Raises:
        MismatchError: The ranks differ.
    """
    shapes = [tensor.shape for tensor in tensors]
    if len(set(shapes)) == 1:
        return stack(tensors)
    # Use the memory of an earlier batch for a large one; torch pads few numbers in one call.
    longest = _longest(shapes)
    tensors = _one_dtype(tensors)
    shape = (len(tensors), *longest)
    batch = place(shape, like=tensors[0])
    if batch is None:
        if prod(shape) <= SMALL and len({shape[1:] for shape in shapes}) == 1:
            return torch.nn.utils.rnn.pad_sequence(list(tensors), batch_first=True)
        batch = torch.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device)
    _fill(batch, map(partial(batch.select, 0), range(len(tensors))), tensors)
    return batch


def pad_concat(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate tensors of shapes (d1_i, …, dn_i), n ≥ 1, to shape (Σ d1_i, max d2, …, max dn), padded with zeros.

    Raises:
        MismatchError: The ranks differ.
    """
    shapes = [tensor.shape for tensor in tensors]
    longest = _longest(shapes)
    tensors = _one_dtype(tensors)
    lengths = [len(tensor) for tensor in tensors]
    shape = (sum(lengths), *longest[1:])
    joined = place(shape, like=tensors[0])
    # Nothing is padded if only the first dimension differs.
    if len({shape[1:] for shape in shapes}) == 1:
        return torch.cat(list(tensors), out=joined)
    if joined is None:
        joined = torch.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device)
    starts = accumulate(lengths[:-1], initial=0)
    _fill(joined, map(partial(joined.narrow, 0), starts, lengths), tensors)
    return joined


def _longest(shapes: Sequence[torch.Size]) -> tuple[int, ...]:
    first = shapes[0]
    for sample_index, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise MismatchError(0, sample_index, f"a tensor of shape {tuple(first)}", f"one of shape {tuple(shape)}")
    return tuple(map(max, zip(*shapes, strict=True)))


def _one_dtype(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = reduce(torch.promote_types, dtypes)
    return [tensor.to(dtype) for tensor in tensors]


def _fill(batch: torch.Tensor, blocks: Iterable[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    """Copy each tensor into the corner of its block of the batch, and zeros into the rest of the block."""
    # Clear a small batch by one call; of a large one, clear only what is padded.
    small = batch.numel() <= SMALL
    if small:
        batch.zero_()
    for block, tensor in zip(blocks, tensors, strict=True):
        corner = block
        if small:
            corner = block.as_strided(tensor.shape, block.stride(), block.storage_offset())
        else:
            for dimension, (length, longest) in enumerate(zip(tensor.shape, block.shape, strict=True)):
                if length != longest:
                    corner.narrow(dimension, length, longest - length).zero_()
                    corner = corner.narrow(dimension, 0, length)
        corner.copy_(tensor)


class MismatchError(Exception):
    """Two values cannot be batched; internal, converted to a SampleError where the samples are known.

    Args:
        other: Description of the second value.
    """

    def __init__(self, first: int, second: int, kind: str, other: str) -> None:
        super().__init__(kind, other)
        self._numbers = first, second
        self._found = kind, other
        self._place: list[str] = []

    def inside(self, name: object) -> Self:
        self._place.insert(0, str(name))
        return self

    def of(self, samples: Sequence[Any]) -> SampleError:
        keys = [key_of(samples[index]) for index in self._numbers]
        names = [
            f"number {index}" if key is None else repr(key) for key, index in zip(keys, self._numbers, strict=True)
        ]
        field = f"{'.'.join(self._place)!r} is " if self._place else ""
        hint = "give them equal types and shapes in encode_sample"
        if "missing" in self._found:
            hint = "give all samples the same parts in encode_sample, choose a sample type that has a field for them"
        return SampleError(
            f"{names[0]} and {names[1]} cannot be batched: {field}{self._found[0]} in the first, "
            f"{self._found[1]} in the second",
            key=key_of(samples[self._numbers[1]]),
            hint=f"{hint}, or define batch in the task encoder",
        )


def key_of(sample: Any) -> str | None:
    """Return the key of a sample, or the first key of a batch; None if it has none."""
    key = sample.get("__key__") if isinstance(sample, Mapping) else getattr(sample, "__key__", None)
    if isinstance(key, list):  # a batch
        key = key[0] if key else None
    return None if key is None else str(key)


def kind_of(value: Any) -> str:
    """Describe a value's type for a message.

    >>> kind_of(3), kind_of(None)
    ('of type int', 'None')
    """
    return "None" if value is None else f"of type {type(value).__name__}"


@library_hook
def batch_stack(batch: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack B tensors of one shape to a tensor of shape (B, …).

    Raises:
        SampleError: The shapes differ, or there are no tensors.

    >>> batch_stack([torch.zeros(3), torch.ones(3)]).shape
    torch.Size([2, 3])
    """
    if not batch:
        raise no_samples()
    first = batch[0].shape
    for sample_index, tensor in enumerate(batch):
        if tensor.shape != first:
            kinds = f"a tensor of shape {tuple(first)}", f"one of shape {tuple(tensor.shape)}"
            raise MismatchError(0, sample_index, *kinds).of(batch)
    return stack(batch)


@library_hook
def batch_pad_stack(batch: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack tensors of equal rank, zero-padding every dimension to the longest.

    Args:
        batch: B tensors of shape (d1_i, …, dn_i). If their dtypes differ, the result has their common dtype.

    Returns:
        Shape (B, max d1, …, max dn).

    Raises:
        SampleError: The ranks differ, or there are no tensors.

    >>> batch_pad_stack([torch.ones(2), torch.ones(3)])
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """
    stacked: torch.Tensor = join_all(pad_stack, batch)
    return stacked


@library_hook
def batch_list(batch: Sequence[Any]) -> list[Any]:
    """Return the values as a list.

    >>> batch_list(("a cat", "a dog"))
    ['a cat', 'a dog']
    """
    return list(batch)


@library_hook
def generic_batch(batch: Sequence[Any]) -> Any:
    """Build a batch from samples, or from one value of each.

    Tensors are zero-padded to the longest and stacked. Dicts become a dict and dataclasses a dataclass of their class,
    field by field: ``__restore_key__`` a tuple, ``__subflavors__`` a list, ``__sources__`` a list of tuples.
    All other values become a list: text, numbers, lists, numpy arrays, None.

    Args:
        batch: At least one sample or value, all of the same type.

    Raises:
        SampleError: There are no samples, or one differs from the first in its fields, its class or the rank of a
            tensor; the message names both.

    >>> generic_batch([{"ids": torch.tensor([1]), "text": "a"}, {"ids": torch.tensor([2, 3]), "text": "a b"}])
    {'ids': tensor([[1, 0],
            [2, 3]]), 'text': ['a', 'a b']}
    """
    batched = join_all(_batch, list(batch))
    return crude_batch(batched) if isinstance(batch[0], CrudeSample) else batched


def collate(samples: Sequence[Any]) -> Any:
    """Build a batch as :func:`generic_batch` does, but of tuples field by field, as torch does.

    >>> collate([(torch.tensor([1]), "a"), (torch.tensor([2, 3]), "a b")])
    [tensor([[1, 0],
            [2, 3]]), ['a', 'a b']]
    """
    if not all(isinstance(sample, tuple) for sample in samples):
        return generic_batch(samples)
    columns = generic_batch([dict(enumerate(sample)) for sample in samples]).values()
    return getattr(type(samples[0]), "_make", list)(columns)


def join_all(join: Callable[[Any], Any], samples: Any) -> Any:
    """Join samples to a batch; raise a ``SampleError`` for an empty list, or if two samples do not match."""
    if not samples:
        raise no_samples()
    try:
        return join(samples)
    except MismatchError as error:
        raise error.of(samples) from None


def batch_columns(columns: Mapping[str, list[Any]], samples: Sequence[Any]) -> dict[str, Any]:
    """Batch each list of values, by field; ``__sources__`` to one tuple, as a ``Batch`` has."""
    batch = {}
    for name, column in columns.items():
        try:
            batch[name] = (join_sources if name == "__sources__" else _SHARED.get(name, _batch))(column)
        except MismatchError as error:
            raise error.inside(name).of(samples) from None
    return batch


def join_sources(sources: Sequence[Any]) -> tuple[Any, ...] | None:
    """Concatenate the ``__sources__`` of samples, or of batches; return None if none of them has any.

    >>> join_sources([("a",), None, ("b", "c")])
    ('a', 'b', 'c')
    """
    if None in sources:
        sources = [each for each in sources if each is not None]
    return tuple(chain.from_iterable(sources)) if sources else None


def no_samples() -> SampleError:
    """Return the error for an empty list of samples."""
    return SampleError("cannot build a batch of an empty list", hint="skip batches without samples")


def list_unless_none(values: list[Any]) -> list[Any] | None:
    """Return a list of values; None if each of them is None."""
    return None if all(value is None for value in values) else values


# How the fields of all samples are batched, without inspecting their values.
_SHARED: dict[str, Callable[[list[Any]], Any]] = {
    "__key__": list,
    "__restore_key__": tuple,
    "__sources__": list_unless_none,
    "__subflavors__": list,
}


def _batch(column: list[Any]) -> Any:
    kinds: list[Any] = list(map(type, column))
    alike = kinds.count(kinds[0]) == len(kinds)
    collate = _collate_of(kinds[0]) if alike else _collate_of_several(column, kinds)
    return column if collate is None else collate(column)


@lru_cache(maxsize=256)
def _collate_of(kind: Any) -> Callable[[list[Any]], Any] | None:
    """Return the function that batches values of a class; None keeps the list. Cached, because it inspects fields."""
    if issubclass(kind, torch.Tensor):
        return pad_stack
    if issubclass(kind, dict):
        return _batch_dicts
    return join_of_dataclass(kind, _SHARED, _batch) if is_dataclass(kind) else None


def _collate_of_several(column: list[Any], kinds: list[Any]) -> Callable[[list[Any]], Any] | None:
    """Return the function that batches values of several classes, such as tensors and parameters, or text and None.

    Raises:
        MismatchError: The classes are batched in different ways.
    """
    collates = [_collate_of(kind) for kind in kinds]
    for sample_index, other in enumerate(collates):
        if other is not collates[0]:
            raise MismatchError(0, sample_index, kind_of(column[0]), kind_of(column[sample_index]))
    return collates[0]


Join = Callable[[list[Any]], Any]
"""Joins the values of a field, one of each sample or batch."""


def join_of_dataclass(kind: Any, shared: Mapping[str, Join], join: Join) -> Join:
    """Return the function that joins dataclasses field by field, those in ``shared`` by a function of their own."""
    names = tuple(known.name for known in fields(kind) if known.init)
    columns = tuple((name, attrgetter(name), shared.get(name, join)) for name in names)

    def join_dataclasses(samples: list[Any]) -> Any:
        batch = {}
        for name, get, collate in columns:
            try:
                batch[name] = collate(list(map(get, samples)))
            except MismatchError as error:
                raise error.inside(name) from None
        return kind(**batch)

    return join_dataclasses


def join_of_dicts(shared: Mapping[str, Join], join: Join) -> Join:
    """Return the function that joins dicts of the same keys, as :func:`join_of_dataclass` does."""

    def join_dicts(samples: list[dict[str, Any]]) -> dict[str, Any]:
        first = samples[0]
        batch = {}
        # Batch one column after the other; the errors name the field and the two samples that differ.
        for name in first:
            try:
                column = [sample[name] for sample in samples]
            except KeyError:
                sample_index = next(sample_index for sample_index, sample in enumerate(samples) if name not in sample)
                raise MismatchError(0, sample_index, "present", "missing").inside(name) from None
            try:
                batch[name] = shared.get(name, join)(column)
            except MismatchError as error:
                raise error.inside(name) from None
        # All have the keys of the first one, so another number of keys shows further keys.
        if sum(map(len, samples)) != len(first) * len(samples):
            sample_index = next(sample_index for sample_index, sample in enumerate(samples) if len(sample) > len(first))
            name = next(name for name in samples[sample_index] if name not in first)
            raise MismatchError(0, sample_index, "missing", "present").inside(name)
        return batch

    return join_dicts


_batch_dicts = join_of_dicts(_SHARED, _batch)
