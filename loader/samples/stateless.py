"""The mark ``@stateless``: this hook's result depends on its arguments only, so it may be called again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from .function_mark import mark_of, marked

__all__ = ["failure_tolerance", "is_stateless", "restores_seeds", "stateless"]

F = TypeVar("F", bound=Callable[..., Any])

_STATELESS = "__stateless__"
_RESTORES_SEEDS = "__restores_seeds__"
_FAILURE_TOLERANCE = "__failure_tolerance__"


@overload
def stateless(fn: F, /) -> F: ...


@overload
def stateless(
    fn: None = None, /, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> Callable[[F], F]: ...


def stateless(
    fn: Callable[..., Any] | None = None, /, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> Any:
    """Mark a hook whose result depends on its arguments only, and, with ``restore_seeds``, on random numbers.

    What waits in a buffer when a state is saved is made again from its samples when the state is restored.

    Args:
        fn: The function or method. It is marked, not wrapped: calling it costs what it did.
        restore_seeds: Seed Python's, numpy's and torch's generators for each sample, so that a hook that draws random
            numbers gives the same result when it is called again.
        failure_tolerance: How many failures in a row of this hook stop the run; None leaves the run's own number.

    >>> @stateless(restore_seeds=True, failure_tolerance=50)
    ... def crop(sample): ...
    >>> is_stateless(crop), restores_seeds(crop), failure_tolerance(crop, 100)
    (True, True, 50)
    """
    marks: dict[str, Any] = {_STATELESS: True, _RESTORES_SEEDS: restore_seeds}
    if failure_tolerance is not None:
        marks[_FAILURE_TOLERANCE] = failure_tolerance
    return partial(marked, marks=marks) if fn is None else marked(fn, marks)


def is_stateless(fn: Callable[..., Any]) -> bool:
    """Tell whether a function, a bound method or a ``functools.partial`` of one is marked."""
    return bool(mark_of(fn, _STATELESS, False))


def restores_seeds(fn: Callable[..., Any]) -> bool:
    """Tell whether the generators are to be seeded for each call of ``fn``."""
    return bool(mark_of(fn, _RESTORES_SEEDS, False))


def failure_tolerance(fn: Callable[..., Any], default: int | None = None) -> int:
    """Get how many failures in a row of ``fn`` stop the run; where it does not say, ``default``, and 0 without one."""
    return int(mark_of(fn, _FAILURE_TOLERANCE, default or 0))
