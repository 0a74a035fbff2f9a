"""The base type of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, field, fields
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any, Self

from ...errors import SampleError
from ..edataclass import SummaryMixin, edataclass
from ..sample_dataclass import ExtendableDataclassMixin, PinMemoryMixin, TagsMixin, with_field_names
from ..source_info import SourceInfo
from .collate import batch_columns, key_of, no_samples


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
