"""The schedule of the weights of a run's datasets, from the shares of each one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import ConfigError
from ...metadataset.documents.leaf_plan import LeafPlan
from ...metadataset.documents.weight_schedule import EntrySchedule, combine_starts
from ...metadataset.plans.blend_units import UnitBlend
from ...pipeline.reading.planned_schedule import PlannedSchedule
from .chain import ChainOptions

_MAX_WEIGHTS = 1 << 16  # each state of the run has them


def planned_schedule(plans: Sequence[LeafPlan], options: ChainOptions) -> PlannedSchedule:
    """Return the schedule of a run.

    Args:
        plans: The shares of the datasets, some of which change.
        options: The stages of the run.

    Raises:
        ConfigError: The schedule is too large, or counts steps whose samples are not known ahead.
    """
    planned = _planned([plan.weight or 0.0 for plan in plans], [plan.schedule for plan in plans])
    samples = options.batch_samples
    if samples is None and planned.unit == "steps":
        raise ConfigError(
            "weights change at steps, and the samples of a step are not known ahead: samples are packed, grouped or "
            "generated",
            hint="count samples instead, as the reader counts them: weight: {unit: samples, at: {0: …}}",
        )
    if samples is None or planned.unit == "samples":
        return planned
    return replace(planned, batch_samples=samples, ranks=options.worker_config.world_size)


def planned_volumes(blend: UnitBlend, options: ChainOptions) -> PlannedSchedule | None:
    """Return the schedule of a blend by volume, which counts micro-batches as steps; None if its weights never change.

    Raises:
        ConfigError: The schedule is too large.
    """
    if not blend.is_scheduled:
        return None
    planned = _planned(blend.weights, blend.schedules)
    rows = [row for row in planned.weights if any(row)]
    rows = [row if any(row) else rows[0] for row in planned.weights]  # where the blend has no share
    ranks = options.worker_config.world_size if planned.unit == "steps" else 1
    return replace(planned, weights=tuple(rows), ranks=ranks)


def _planned(weights: Sequence[float], schedules: Sequence[EntrySchedule | None]) -> PlannedSchedule:
    """Return the schedule of some weights.

    Raises:
        ConfigError: It is too large.
    """
    known = [schedule for schedule in schedules if schedule is not None]
    starts = combine_starts(known)
    if len(starts) * len(weights) > _MAX_WEIGHTS:
        raise ConfigError(
            f"the weights of {len(weights):,} datasets change {len(starts) - 1:,} times; expected at most "
            f"{_MAX_WEIGHTS:,} weights",
            hint="change weights less often",
        )
    columns = [
        (weight,) * len(starts) if schedule is None else schedule.on(starts)
        for weight, schedule in zip(weights, schedules, strict=True)
    ]
    return PlannedSchedule(unit=known[0].unit, starts=starts, weights=tuple(zip(*columns, strict=True)))
