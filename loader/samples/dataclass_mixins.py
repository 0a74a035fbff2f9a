"""What samples and batches have in common with other dataclasses."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from .pin import with_pinned_fields

__all__ = ["ExtendableDataclassMixin", "PinMemoryMixin"]


class PinMemoryMixin:
    """A dataclass that can be copied to page-locked memory."""

    __slots__ = ()

    def pin_memory(self) -> Self:
        """Copy it with all its tensors in page-locked memory, so that a GPU can fetch them by itself."""
        copied: Self = with_pinned_fields(self)
        return copied


class ExtendableDataclassMixin:
    """A dataclass that can be made of another one with fewer fields."""

    __slots__ = ()

    @classmethod
    def extend(cls, base_sample: Any, **fields_given: Any) -> Self:
        """Make one of this type with all fields of ``base_sample``, and those given (which win).

        >>> from loader import CaptioningSample, ImageSample
        >>> image = ImageSample(__key__="s.tar/0", image=torch.zeros(0))
        >>> CaptioningSample.extend(image, caption="black")
        CaptioningSample(__key__='s.tar/0', image=tensor([]), caption='black')
        """
        return cls(**{known.name: getattr(base_sample, known.name) for known in fields(base_sample)} | fields_given)
