"""Metrics of a task encoder: functions that measure a sample in the unit of a blend's weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from ...errors import ConfigError
from ..hook_marks import mark_of, marked

F = TypeVar("F", bound=Callable[..., Any])

_METRIC = "__sample_size_metric__"
_RESERVED = "samples"

After = Literal["encode", "packing"]


@dataclass(frozen=True, slots=True)
class SizeMetric:
    """A metric."""

    function: Callable[[Any], float]  # returns the size of a sample
    after: After  # the sample is one as ``encode_sample`` returns it, or with ``"packing"`` a pack


@overload
def sample_size_metric(fn: F, /, *, after: After = ...) -> F: ...


@overload
def sample_size_metric(fn: str | None = None, /, *, after: After = ...) -> Callable[[F], F]: ...


def sample_size_metric(fn: Callable[..., Any] | str | None = None, /, *, after: After = "encode") -> Callable[..., Any]:
    """Register a method of a task encoder as the metric of ``blend_weight_unit``.

    The method takes a sample as ``encode_sample`` returns it (``preencode_sample`` with packing), and returns its size:
    a finite number of at least 0. It must return the same on all ranks.

    Args:
        fn: The method, whose name is the unit; or another name of the unit.
        after: With ``"packing"``, the method takes a pack as ``pack_selected_samples`` returns it. Each dataset is then
            packed on its own, and whole packs are blended. In a run without packing, it takes single samples.

    Raises:
        ConfigError: The name is ``samples``, which needs no metric; or ``after`` has another value.

    >>> from loader import DefaultTaskEncoder
    >>> class Encoder(DefaultTaskEncoder):
    ...     @sample_size_metric
    ...     def tokens(self, sample):
    ...         return len(sample.text)
    >>> list(size_metrics(Encoder()))
    ['tokens']
    """
    if after not in ("encode", "packing"):
        raise ConfigError(f"expected after='encode' or after='packing', found {after!r}")
    if fn is None or isinstance(fn, str):
        return lambda method: _registered(method, fn or method.__name__, after)
    return _registered(fn, fn.__name__, after)


def _registered(method: Callable[..., Any], unit: str, after: After) -> Callable[..., Any]:
    if unit == _RESERVED:
        raise ConfigError(
            f"the unit {_RESERVED!r} counts samples, and has no metric", hint="name the metric after what it measures"
        )
    return marked(method, {_METRIC: (unit, after)})


def size_metrics(encoder: object) -> dict[str, SizeMetric]:
    """Return the metrics of a task encoder, inner encoders included, by their units."""
    inner = vars(encoder).get("_task_encoder") if hasattr(encoder, "__dict__") else None
    metrics: dict[str, SizeMetric] = {} if inner is None else size_metrics(inner)
    for name in dir(type(encoder)):
        mark = None if name.startswith("__") else mark_of(getattr(type(encoder), name, None), _METRIC, None)
        if mark is not None:
            metrics[mark[0]] = SizeMetric(getattr(encoder, name), mark[1])
    return metrics
