"""Measure the mean size of a source's samples, for blends whose weights are shares of a volume."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.rng import preserve_rng_state, seed_sample
from ...pipeline.contract.stage import SKIPPED, SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...pipeline.reading.order_plan import ShuffledPlan
from ...pipeline.reading.read import ReadDataset
from ...pipeline.reading.source import Source
from ...samples.encoding.size_metric import size_metrics
from ...samples.hooks import in_hook_context
from ..workers.lane_host import open_lane

__all__ = ["MeanSizes"]

_MEASURED = 256
"""Samples of each source that are measured; it must not change, or the order of existing runs would."""


class MeanSizes:
    """Mean sizes of the sources of a run, measured from the same samples on every rank.

    Args:
        sources: The sources.
        build: Builds the chain above a reader, up to encoded samples.
        encoder: The task encoder, whose metrics are used.
        worker_config: The worker config of the run, for its error handlers.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        build: Callable[[ReadDataset], SavableDataset[Any]],
        encoder: object,
        worker_config: WorkerConfig,
    ) -> None:
        self._sources = sources
        self._build = build
        self._encoder = encoder
        self._metrics = size_metrics(encoder)
        self._config = replace(
            worker_config, rank=0, world_size=1, num_workers=0, lanes=1, seed_offset=0, data_parallel_group=None
        )
        self._found: dict[tuple[int, str], float] = {}

    def __call__(self, source: int, unit: str) -> float:
        """Return the mean size of a source's samples.

        Raises:
            ConfigError: The task encoder has no such metric, or the measured samples have no size.
            Exception: A hook raised it, and it is not tolerated.
        """
        if unit not in self._metrics:
            known, encoder = ", ".join(map(repr, self._metrics)) or "none", type(self._encoder).__name__
            raise ConfigError(
                f"a blend has the unit {unit!r}, which is no metric of {encoder}; known are {known}",
                hint=f"add a method {unit}(self, sample) with @sample_size_metric to the task encoder",
            )
        if (source, unit) not in self._found:
            self._measure(source)
        return self._found[source, unit]

    def _measure(self, number: int) -> None:
        """Measure a source in all units, from samples drawn evenly over it."""
        source = self._sources[number]
        measured = min(_MEASURED, source.samples)
        totals = dict.fromkeys(self._metrics, 0.0)
        for sample in self._samples(source, measured / source.samples):
            for unit, metric in self._metrics.items():
                totals[unit] += self._size(metric(sample), unit)
        for unit, total in totals.items():
            self._found[number, unit] = total / measured
        empty = [unit for unit, total in totals.items() if not total]
        if empty:
            raise ConfigError(
                f"{measured} samples of this source have no {empty[0]}",
                at=source.describe(),
                hint="check the metric, or remove the dataset from the blend",
            )

    def _samples(self, source: Source, share: float) -> list[Any]:
        plan = ShuffledPlan(
            slice_lengths=(1,), shuffle_buffer=0, epochs_together=(1,), weights=(1.0,), repetitions=(share,)
        )
        chain = self._build(ReadDataset((source,), plan, worker_config=self._config))
        lane = open_lane(chain, 0, 1)
        found: list[Any] = []
        with in_hook_context(lane.context), preserve_rng_state():
            seed_sample(lane.seed, 0, 0)
            running = chain.open(lane, {})
            while True:
                try:
                    value, _ = running.next()
                except StopIteration:
                    return found
                if value is not SKIPPED:
                    found.append(value)

    def _size(self, size: Any, unit: str) -> float:
        number = float(size)
        if not isfinite(number) or number < 0:
            raise ConfigError(
                f"expected the metric {unit!r} to return a number of at least 0, found {size!r}",
                hint=f"check {type(self._encoder).__name__}",
            )
        return number
