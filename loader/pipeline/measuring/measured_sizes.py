"""Measure items by the metrics of a task encoder, and divide their sizes among the sources of their samples."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from types import GeneratorType
from typing import Any

from .counts import Counts
from .item_sources import ItemSample, MeasuredLane, samples_of

Metric = Callable[[Any], Any]


class Sizes:
    """The metrics of the items that a function takes or makes.

    Args:
        lane: The lane. It is not kept alive.
        owner: The object that has the ids of the items as ``item_id``, unless the function's second argument is the
            restore key of its result, which ends with the id. It is not kept alive.
        metrics: The metrics by unit.
        of_result: They measure the function's result; otherwise the items of the list that is its argument.
    """

    __slots__ = ("_lane", "_owner", "metrics", "of_result")

    def __init__(self, lane: MeasuredLane, owner: Any, metrics: Mapping[str, Metric], *, of_result: bool) -> None:
        self._lane = weakref.ref(lane)
        self._owner = weakref.ref(owner)
        self.metrics = metrics
        self.of_result = of_result

    def samples(self, arguments: Sequence[Any]) -> list[list[ItemSample]]:
        """Return the samples of each item of the present call."""
        lane, owner = self._lane(), self._owner()
        if lane is None or owner is None:
            return []
        if not self.of_result:
            return [[*samples_of(lane, item_id)] for item_id in owner.item_id]
        return [[*samples_of(lane, arguments[1][-1] if len(arguments) > 1 else owner.item_id)]]


def number_of(size: Any) -> float:
    """Return the result of a metric as a float: a number, or a tensor or array with one element.

    Raises:
        TypeError, ValueError, RuntimeError: The result is no number.
    """
    item = getattr(size, "item", None)
    return float(size if item is None else item())


def measure_items(sizes: Sizes, arguments: Sequence[Any], result: Any, counts: Counts) -> None:
    """Add the sizes of the items of a call to the counts of their sources; a pack's size is divided among its samples.

    Args:
        sizes: The metrics.
        arguments: The arguments of the function.
        result: Its result; None if it failed.
        counts: Where sizes are added.
    """
    if sizes.of_result and (result is None or isinstance(result, GeneratorType)):
        return
    items: Sequence[Any] = (result,) if sizes.of_result else arguments[0]
    samples = sizes.samples(arguments)
    for unit, metric in sizes.metrics.items():
        with suppress(Exception):  # a user's function that fails must not end a run that does not need it
            measured = [number_of(metric(item)) for item in items]
            if all(0 <= size < inf for size in measured):  # others, NaN among them, would spoil the sum of the run
                _add(unit, measured, samples, counts)


def _add(unit: str, measured: Sequence[float], samples: Sequence[Sequence[ItemSample]], counts: Counts) -> None:
    found: dict[int, list[float]] = {}
    for size, of_item in zip(measured, samples, strict=True):
        for source, is_first in of_item:
            total = found.setdefault(source, [0.0, 0])
            total[0] += size / len(of_item)
            total[1] += is_first
    for source, (total_size, number) in found.items():
        counts.add_size(unit, source, total_size, int(number))
