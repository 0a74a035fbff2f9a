"""The decorator of samples and batches: a dataclass with keyword arguments only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["edataclass"]

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
