"""The schedule of the weights of a run's datasets, from the shares of each one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ...errors import ConfigError
from ...metadataset.documents.weight_schedule import EntrySchedule, combine_starts
from ...pipeline.reading.planned_schedule import PlannedSchedule
from .chain import ChainOptions

__all__ = ["planned_schedule"]

_MAX_WEIGHTS = 1 << 16  # each state of the run has them


class _Scheduled(Protocol):
    @property
    def weight(self) -> float | None:
        """Share of a blend without end."""

    @property
    def schedule(self) -> EntrySchedule | None:
        """Share in each stretch of the run; None if it never changes."""


def planned_schedule(specs: Sequence[_Scheduled], options: ChainOptions) -> PlannedSchedule:
    """Return the schedule of a run.

    Args:
        specs: The shares of the datasets, some of which change.
        options: The stages of the run.

    Raises:
        ConfigError: The schedule is too large, or counts steps whose samples are not known ahead.
    """
    known = [spec.schedule for spec in specs if spec.schedule is not None]
    starts = combine_starts(known)
    if len(starts) * len(specs) > _MAX_WEIGHTS:
        raise ConfigError(
            f"the weights of {len(specs):,} datasets change {len(starts) - 1:,} times; expected at most "
            f"{_MAX_WEIGHTS:,} weights",
            hint="change weights less often",
        )
    samples = options.batch_samples
    if samples is None and known[0].unit == "steps":
        raise ConfigError(
            "weights change at steps, and the samples of a step are not known ahead: samples are packed, grouped or "
            "generated",
            hint="count samples instead, as the reader counts them: weight: {unit: samples, at: {0: …}}",
        )
    columns = [
        (spec.weight or 0.0,) * len(starts) if spec.schedule is None else spec.schedule.on(starts) for spec in specs
    ]
    planned = PlannedSchedule(unit=known[0].unit, starts=starts, weights=tuple(zip(*columns, strict=True)))
    if samples is None or planned.unit == "samples":
        return planned
    return replace(planned, batch_samples=samples, ranks=options.worker_config.world_size)
