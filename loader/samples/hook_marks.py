"""Marks on the methods of task encoders: stateless, seeded, failure tolerance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])


def marked(fn: Callable[..., Any], marks: Mapping[str, Any]) -> Callable[..., Any]:
    """Set marks on a function. The function is not wrapped, so calls cost no more.

    Bound methods and functions written in C take no attributes: these are returned as a marked ``functools.partial``.
    """
    if not hasattr(fn, "__dict__") or hasattr(fn, "__self__"):
        fn = partial(fn)
    for name, value in marks.items():
        setattr(fn, name, value)
    return fn


def mark_of(fn: Any, name: str, default: Any) -> Any:
    """Return a mark of a function, a bound method, a callable object, or a ``functools.partial`` of these."""
    # Marks may be on the function itself, on the __call__ of its class, or on what a partial or staticmethod wraps.
    while True:
        mark = getattr(fn, name, None)
        if mark is None and callable(fn) and not hasattr(fn, "__code__") and not isinstance(fn, type):
            mark = getattr(type(fn).__call__, name, None)
        if mark is not None:
            return mark
        if isinstance(fn, partial):
            fn = fn.func
        elif isinstance(fn, staticmethod):  # a name in a class body, before the class exists
            fn = fn.__func__
        else:
            return default


_STATELESS = "__stateless__"
_RESTORES_SEEDS = "__restores_seeds__"
_RESTORES_ENCODER_SEEDS = "__restores_task_encoder_seeds__"
_FAILURE_TOLERANCE = "__failure_tolerance__"


@overload
def stateless(fn: F) -> F: ...


@overload
def stateless(
    fn: None = None,
    *,
    restore_seeds: bool = False,
    restore_task_encoder_seeds: bool = False,
    failure_tolerance: int | None = None,
) -> Callable[[F], F]: ...


def stateless(
    fn: Callable[..., Any] | None = None,
    *,
    restore_seeds: bool = False,
    restore_task_encoder_seeds: bool = False,
    failure_tolerance: int | None = None,
) -> Any:
    """Mark a hook whose result depends on its arguments only, and, with ``restore_seeds``, on random numbers.

    A saved state then contains the ids of buffered items only: they are rebuilt from their samples on restore.

    Args:
        fn: The function or method. It is marked, not wrapped, so calls cost no more.
        restore_seeds: Seed Python's, numpy's and torch's generators for each sample, so that a hook that draws random
            numbers returns the same result when it is called again.
        restore_task_encoder_seeds: The same for the generators of ``TaskEncoder.rng``.
        failure_tolerance: Number of consecutive failures of this hook that stops the run; None uses the run's number.

    >>> @stateless(restore_seeds=True, failure_tolerance=50)
    ... def crop(sample): ...
    >>> is_stateless(crop), restores_seeds(crop), failure_tolerance(crop, 100)
    (True, True, 50)
    """
    marks: dict[str, Any] = {_STATELESS: True, _RESTORES_SEEDS: restore_seeds}
    if restore_task_encoder_seeds:
        marks[_RESTORES_ENCODER_SEEDS] = True
    if failure_tolerance is not None:
        marks[_FAILURE_TOLERANCE] = failure_tolerance
    return partial(marked, marks=marks) if fn is None else marked(fn, marks)


def is_stateless(fn: Callable[..., Any]) -> bool:
    """Return True if a function, a bound method or a ``functools.partial`` of one is marked as stateless."""
    return bool(mark_of(fn, _STATELESS, False))


def restores_seeds(fn: Callable[..., Any]) -> bool:
    """Return True if the random generators must be seeded for each call of ``fn``."""
    return bool(mark_of(fn, _RESTORES_SEEDS, False))


def restores_encoder_seeds(fn: Callable[..., Any]) -> bool:
    """Return True if the generators of ``TaskEncoder.rng`` must be seeded for each call of ``fn``."""
    return bool(mark_of(fn, _RESTORES_ENCODER_SEEDS, False))


@overload
def skip_safe(fn: F) -> F: ...


@overload
def skip_safe(fn: None = None) -> Callable[[F], F]: ...


def skip_safe(fn: Callable[..., Any] | None = None) -> Any:
    """Mark a hook that may be omitted for samples of other workers; accepted for code written for megatron-energon.

    It has no effect: the order of samples is known in advance, so no worker calls hooks for samples of another one.
    """
    return skip_safe if fn is None else fn


def failure_tolerance(fn: Callable[..., Any], default_failure_tolerance: int | None = None) -> int:
    """Return the number of consecutive failures of ``fn`` that stops the run: its mark, else the default, else 0."""
    return int(mark_of(fn, _FAILURE_TOLERANCE, default_failure_tolerance or 0))


def default_failure_tolerance(fn: Callable[..., Any], default: int) -> int:
    """Return ``__default_failure_tolerance__`` of the task encoder that a bound method belongs to, else ``default``."""
    for owner in (fn, getattr(fn, "__self__", None)):
        tolerance = getattr(owner, "__default_failure_tolerance__", None)
        if tolerance is not None:
            return int(tolerance)
    return default
