"""Pad tensors of different shapes into one: the most expensive step of batching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate
from math import prod
from typing import Any, Self

from ...errors import SampleError
from ...lazy_torch import torch
from ...transport.batch_memory import place

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
    if len({shape[1:] for shape in shapes}) == 1:
        return torch.cat(list(tensors), out=joined)
    if joined is None:
        joined = torch.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device)
    starts = accumulate(lengths[:-1], initial=0)
    _fill(joined, map(partial(joined.narrow, 0), starts, lengths), tensors)
    return joined


def _longest(shapes: Sequence[torch.Size]) -> tuple[int, ...]:
    first = shapes[0]
    for number, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise MismatchError(0, number, f"a tensor of shape {tuple(first)}", f"one of shape {tuple(shape)}")
    return tuple(map(max, zip(*shapes, strict=True)))


def _one_dtype(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Convert tensors to their common dtype."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = reduce(torch.promote_types, dtypes)
    return [tensor.to(dtype) for tensor in tensors]


def _fill(batch: torch.Tensor, blocks: Iterable[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    """Copy each tensor into the corner of its block of the batch, and zeros into the rest of the block."""
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
        first: Index of one sample, or batch, in the list.
        second: Index of the other.
        found: Description of the first value.
        other: Description of the second value.
    """

    def __init__(self, first: int, second: int, found: str, other: str) -> None:
        super().__init__(found, other)
        self._numbers = first, second
        self._found = found, other
        self._place: list[str] = []

    def inside(self, name: object) -> Self:
        """Prepend the field of the values to their path."""
        self._place.insert(0, str(name))
        return self

    def of(self, samples: Sequence[Any]) -> SampleError:
        """Return the error that names the samples.

        Args:
            samples: The list that was to be batched.
        """
        keys = [key_of(samples[number]) for number in self._numbers]
        names = [
            f"number {number}" if key is None else repr(key) for key, number in zip(keys, self._numbers, strict=True)
        ]
        place = f"{'.'.join(self._place)!r} is " if self._place else ""
        return SampleError(
            f"{names[0]} and {names[1]} cannot be batched: {place}{self._found[0]} in the first, "
            f"{self._found[1]} in the second",
            key=key_of(samples[self._numbers[1]]),
            hint="give them equal types and shapes in encode_sample, or define batch in the task encoder",
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
