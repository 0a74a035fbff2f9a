"""Which hooks of a task encoder do nothing, so that the pipeline leaves their stages out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["does_nothing", "is_default", "is_library_hook", "library_hook", "stands_for"]

F = TypeVar("F", bound=Callable[..., Any])

_LIBRARY = "__library_hook__"
_NOTHING_UNLESS = "__nothing_unless__"


def library_hook(hook: F) -> F:
    """Mark a method of the library's own encoders, which an encoder around another one may take for its own."""
    setattr(hook, _LIBRARY, True)
    return hook


def does_nothing(*, unless: str = "") -> Callable[[F], F]:
    """Mark a method of the library's own encoders that returns its argument, or only says that it is not defined.

    The mark is on the function, so a method that overrides it does not have it, whatever class it is in.

    Args:
        unless: The attribute of the encoder that gives the hook something to do where it is not None.
    """

    def mark(hook: F) -> F:
        setattr(hook, _NOTHING_UNLESS, unless)
        return library_hook(hook)

    return mark


def is_default(hook: Callable[..., Any]) -> bool:
    """Tell whether a bound hook is one that nobody defined.

    >>> from loader.samples import TaskEncoder
    >>> class Encoder(TaskEncoder):
    ...     def encode_sample(self, sample):
    ...         return sample
    >>> is_default(Encoder().encode_sample), is_default(Encoder().encode_batch)
    (False, True)
    """
    unless = getattr(hook, _NOTHING_UNLESS, None)
    if unless is None:
        return False
    return not unless or getattr(getattr(hook, "__self__", None), unless, None) is None


def is_library_hook(attribute: object) -> bool:
    """Tell whether an attribute of a class is a method of the library's own encoders."""
    return getattr(attribute, _LIBRARY, False) is True


def stands_for(other: str) -> Callable[[F], F]:
    """Make a hook be another hook of the same encoder, until a subclass defines it.

    So it has the marks of the other one, too, and costs no call of its own. What is decorated is only its description.
    """

    def replace(described: F) -> F:
        return cast("F", _StandsFor(other, described))

    return replace


class _StandsFor:
    __library_hook__ = True

    def __init__(self, other: str, described: Callable[..., Any]) -> None:
        self._other = other
        self._described = described

    def __get__(self, encoder: Any, owner: type[Any] | None = None) -> Callable[..., Any]:
        hook: Callable[..., Any] = self._described if encoder is None else getattr(encoder, self._other)
        return hook
