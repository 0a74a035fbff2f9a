"""Marks on functions: attributes that say how the pipeline may call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

__all__ = ["mark_of", "marked"]


def marked(fn: Callable[..., Any], marks: Mapping[str, Any]) -> Callable[..., Any]:
    """Put marks on a function. It is not wrapped: calling it costs what it did.

    What cannot take marks of its own, a bound method or a function written in C, is returned as a marked
    ``functools.partial``.
    """
    if not hasattr(fn, "__dict__") or hasattr(fn, "__self__"):
        fn = partial(fn)
    for name, value in marks.items():
        setattr(fn, name, value)
    return fn


def mark_of(fn: Any, name: str, default: Any) -> Any:
    """Get a mark of a function, a bound method, an object that can be called, or a ``functools.partial`` of these."""
    while True:
        found = getattr(fn, name, None)
        if found is None and callable(fn) and not hasattr(fn, "__code__") and not isinstance(fn, type):
            found = getattr(type(fn).__call__, name, None)
        if found is not None:
            return found
        if isinstance(fn, partial):
            fn = fn.func
        elif isinstance(fn, staticmethod):  # as a name in a class body is before the class is made
            fn = fn.__func__
        else:
            return default
