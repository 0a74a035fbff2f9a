"""What samples and batches have in common with other dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self, TypeVar, dataclass_transform, overload

__all__ = ["ExtendableDataclassMixin", "PinMemoryMixin", "edataclass", "pinned", "with_pinned_fields"]


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


T = TypeVar("T")


@overload
def edataclass(cls: type[T], /) -> type[T]: ...


@overload
def edataclass(cls: None = None, /, **options: Any) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(kw_only_default=True)
def edataclass(cls: type[T] | None = None, /, **options: Any) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a dataclass whose arguments are all given by keyword.

    So a subclass may add required fields to a class that has optional ones. Use it with or without options, which are
    those of :func:`dataclasses.dataclass`.

    >>> @edataclass
    ... class Point:
    ...     x: int = 0
    ...     y: int
    >>> Point(y=1)
    Point(x=0, y=1)
    """
    options.setdefault("kw_only", True)
    decorate: Callable[[type[T]], type[T]] = dataclass(**options)
    return decorate if cls is None else decorate(cls)


def pinned(value: Any) -> Any:
    """Copy a value with all its tensors in page-locked memory; what holds no tensor is passed on.

    Looks into dataclasses, dicts, lists and tuples, and asks other objects that have a method ``pin_memory``.
    """
    if isinstance(value, str | bytes | int | float | None):
        return value
    if hasattr(value, "pin_memory"):  # tensors do
        return value.pin_memory()
    if isinstance(value, dict):
        copied = copy(value)
        copied.update({name: pinned(inner) for name, inner in value.items()})
        return copied
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pinned, value))
    if type(value) in {list, tuple}:
        return type(value)(map(pinned, value))
    return with_pinned_fields(value) if is_dataclass(value) and not isinstance(value, type) else value


def with_pinned_fields(value: Any) -> Any:
    """Copy a dataclass with all tensors of its fields in page-locked memory."""
    copied = copy(value)
    for known in fields(value):
        # A frozen dataclass is copied, too, and the class's own __init__ need not understand batched fields.
        object.__setattr__(copied, known.name, pinned(getattr(value, known.name)))
    return copied
