"""Metrics of a task encoder: functions that measure a sample in the unit of a blend's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from ...errors import ConfigError
from ..hooks import mark_of, marked

__all__ = ["sample_size_metric", "size_metrics"]

F = TypeVar("F", bound=Callable[..., Any])

_METRIC = "__sample_size_metric__"
_RESERVED = "samples"


@overload
def sample_size_metric(fn: F, /) -> F: ...


@overload
def sample_size_metric(fn: str | None = None, /) -> Callable[[F], F]: ...


def sample_size_metric(fn: Callable[..., Any] | str | None = None, /) -> Callable[..., Any]:
    """Register a method of a task encoder as the metric of ``blend_weight_unit``.

    The method takes a sample as ``encode_sample`` returns it (``preencode_sample`` with packing), and returns its size.
    It must return the same on all ranks.

    Args:
        fn: The method, whose name is the unit; or another name of the unit.

    Raises:
        ConfigError: The name is ``samples``, which needs no metric.

    >>> from loader import DefaultTaskEncoder
    >>> class Encoder(DefaultTaskEncoder):
    ...     @sample_size_metric
    ...     def tokens(self, sample):
    ...         return len(sample.text)
    >>> list(size_metrics(Encoder()))
    ['tokens']
    """
    if fn is None or isinstance(fn, str):
        return lambda method: _registered(method, fn or method.__name__)
    return _registered(fn, fn.__name__)


def _registered(method: Callable[..., Any], unit: str) -> Callable[..., Any]:
    if unit == _RESERVED:
        raise ConfigError(
            f"the unit {_RESERVED!r} counts samples, and has no metric", hint="name the metric after what it measures"
        )
    return marked(method, {_METRIC: unit})


def size_metrics(encoder: object) -> dict[str, Callable[[Any], float]]:
    """Return the metrics of a task encoder: unit → bound method; those of an inner encoder are included."""
    inner = vars(encoder).get("_task_encoder") if hasattr(encoder, "__dict__") else None
    found: dict[str, Callable[[Any], float]] = {} if inner is None else size_metrics(inner)
    for name in dir(type(encoder)):
        unit = None if name.startswith("__") else mark_of(getattr(type(encoder), name, None), _METRIC, None)
        if unit is not None:
            found[unit] = getattr(encoder, name)
    return found
