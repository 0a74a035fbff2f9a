"""Batches: their base type, and padding, which are micro-batches without samples for ranks whose data has ended."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np

from ...errors import ConfigError, SampleError
from ...lazy_torch import torch
from ..hooks import library_hook
from ..sample_dataclass import (
    ExtendableDataclassMixin,
    PinMemoryMixin,
    SummaryMixin,
    TagsMixin,
    edataclass,
    with_field_names,
)
from ..source_info import SourceInfo
from .collate import batch_columns, key_of, no_samples

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


class PaddingDict(dict[Any, Any]):
    """A dict that is padding; copies of its type, as a move to a device makes them, are padding, too."""

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
    """
    if is_padding(batch):
        return batch
    kind = type(batch)
    if kind in _MARKED:
        return _MARKED[kind](batch)
    # Other objects take an attribute, or become an object of a subclass that has it.
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


@edataclass
class Batch(SummaryMixin, PinMemoryMixin, ExtendableDataclassMixin, TagsMixin):
    """Base of batch types; derive from it and add fields.

    Args:
        __key__: The keys of its samples.
        __restore_key__: Identifies the batch in the run, to load it again: nested tuples of str and int.
        __subflavors__: The subflavors of each sample; ``__tags__`` is another name.
        __sources__: The files that the parts of all samples were read from.

    >>> @edataclass
    ... class TextBatch(Batch):
    ...     text: list[str]
    >>> TextBatch(__key__=["s.tar/0", "s.tar/1"], text=["a cat", "a dog"])
    TextBatch(__key__=['s.tar/0', 's.tar/1'], text=['a cat', 'a dog'])
    """

    # Factories, for the reason given in Sample.
    __key__: list[str]
    __restore_key__: tuple[Any, ...] = field(default_factory=tuple, repr=False)
    __subflavors__: list[dict[str, Any] | None] | None = field(default_factory=NoneType, repr=False)
    __sources__: tuple[SourceInfo, ...] | None = field(default_factory=NoneType, repr=False)

    @classmethod
    def from_samples(cls, samples: Sequence[Any], **fields_given: Any) -> Self:
        """Build a batch of this type from samples.

        Args:
            samples: At least one, all of the same type.
            fields_given: Ready values of fields. All others are batched with
                :func:`~loader.samples.batching.collate.generic_batch` from the samples' fields of the same names;
                fields that samples lack keep their defaults.

        Raises:
            SampleError: There are no samples, they lack a field without default, or their values cannot be batched.

        >>> import torch
        >>> from loader import CaptioningSample
        >>> @edataclass
        ... class ImageBatch(Batch):
        ...     image: torch.Tensor
        >>> samples = [CaptioningSample(__key__=f"{i}", image=torch.ones(3, 2, i), caption="") for i in (1, 2)]
        >>> ImageBatch.from_samples(samples).image.shape
        torch.Size([2, 3, 2, 2])
        """
        if not samples:
            raise no_samples()
        fields_given = with_field_names(fields_given)
        # Collect the columns of the fields that the caller does not give.
        getter = itemgetter if isinstance(samples[0], dict) else attrgetter
        columns: dict[str, list[Any]] = {}
        for known in fields(cls):
            name = known.name
            if name in fields_given or not known.init:
                continue
            try:
                columns[name] = list(map(getter(name), samples))
            except (AttributeError, KeyError):
                # A field with a default may be missing in all samples, but not in some.
                required = known.default is MISSING and known.default_factory is MISSING
                if required or _has(samples[0], name):
                    raise _missing_field(cls, samples, name) from None
        return cls(**batch_columns(columns, samples) | fields_given)

    @classmethod
    def derive_from(cls, base_batch: Batch, **fields_given: Any) -> Self:
        """Create a batch of this type with the keys and sources of ``base_batch`` and the given fields.

        >>> @edataclass
        ... class TextBatch(Batch):
        ...     text: list[str]
        >>> TextBatch.derive_from(Batch(__key__=["s.tar/0"]), text=["a cat"])
        TextBatch(__key__=['s.tar/0'], text=['a cat'])
        """
        return cls(**{name: getattr(base_batch, name) for name in _SHARED} | fields_given)


_SHARED = tuple(known.name for known in fields(Batch))


def _has(sample: Any, name: str) -> bool:
    return name in sample if isinstance(sample, dict) else hasattr(sample, name)


def _missing_field(cls: type[Batch], samples: Sequence[Any], name: str) -> SampleError:
    sample = next(sample for sample in samples if not _has(sample, name))
    key = key_of(sample)
    which = "a sample" if key is None else f"sample {key!r}"
    return SampleError(
        f"cannot build a {cls.__name__}: {which} of type {type(sample).__name__} has no field {name!r}",
        key=key,
        hint=f"pass it: {cls.__name__}.from_samples(samples, {name}=…)",
    )
