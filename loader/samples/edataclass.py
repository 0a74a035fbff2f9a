"""The decorator of dataclasses of samples, which print short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


class SummaryMixin:
    """Class whose objects print as a summary: shapes and types of tensors instead of their numbers."""

    __slots__ = ()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__repr__" not in vars(cls):
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign] # so that dataclass() does not replace it

    def __repr__(self) -> str:
        from .sample_format import shown_fields  # imports torch

        return shown_fields(self)

    def __str__(self) -> str:
        if type(self).__repr__ is not SummaryMixin.__repr__:  # a user's own remains the printed form
            return repr(self)
        from .sample_format import summarize  # imports torch

        return summarize(self)

    def _repr_html_(self) -> str:
        from .sample_format import sample_html  # imports torch

        return sample_html(self)


@overload
def edataclass(cls: type[T]) -> type[T]: ...


@overload
def edataclass(cls: None = None, **options: Any) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(kw_only_default=True)
def edataclass(cls: type[T] | None = None, **options: Any) -> type[T] | Callable[[type[T]], type[T]]:
    """Turn a class into a dataclass with keyword-only arguments.

    A subclass may then add required fields to a class that has optional ones. ``repr`` shows shapes and types of
    tensors instead of their numbers, and ``print`` also their ranges. The options are passed to
    :func:`dataclasses.dataclass`.

    >>> @edataclass
    ... class Point:
    ...     x: int = 0
    ...     y: int
    >>> Point(y=1)
    Point(x=0, y=1)
    """
    options.setdefault("kw_only", True)
    make: Callable[[type[T]], type[T]] = dataclass(**options)

    def decorate(given: type[T]) -> type[T]:
        if options.get("repr", True) and given.__repr__ is object.__repr__:
            given.__repr__ = SummaryMixin.__repr__  # type: ignore[assignment] # of another class
        made = make(given)
        if made.__str__ is object.__str__:
            made.__str__ = SummaryMixin.__str__  # type: ignore[assignment] # of another class
        return made

    return decorate if cls is None else decorate(cls)
