"""The schedule of a reader's weights, as its documents define it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from ...errors import ConfigError, plural
from ...metadataset.documents.leaf_plan import MAX_STRETCHES, schedule_text
from ...order import MAX_SCHEDULED_SAMPLES, WeightSchedule

_MAX_RANKS = 1 << 32
_MAX_WEIGHTS = 1 << 25  # of a saved schedule: a short file may ask for the product of stretches and datasets
_SCHEDULED = ("read", "blend", "BlendDataset")  # names of stages that have schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """Weights that change at steps, or at numbers of samples, counted from the beginning of the run.

    Args:
        unit: What ``starts`` counts. A step is a micro-batch on each rank that the run began with.
        starts: The start of each stretch: 0 first, ascending.
        weights: For each stretch, the weight of each source; 0 leaves a source out.
        batch_samples: Samples of a micro-batch; only steps need them.
        ranks: The number of ranks with which the run began; only steps need it.

    Raises:
        ConfigError: A start is too large.
    """

    unit: Literal["steps", "samples"]
    starts: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]
    batch_samples: int = 1
    ranks: int = 1

    def __post_init__(self) -> None:
        if self.starts[-1] * self.step_samples > MAX_SCHEDULED_SAMPLES:
            raise ConfigError(
                f"expected weights that change within {MAX_SCHEDULED_SAMPLES:,} samples, found a change at "
                f"{self.starts[-1]:,} {self.unit}, which is {plural(self.starts[-1] * self.step_samples, 'sample')}",
                hint="lower the last step or sample of the weight schedule",
            )

    @property
    def step_samples(self) -> int:
        return self.batch_samples * self.ranks if self.unit == "steps" else 1

    @property
    def in_samples(self) -> WeightSchedule:
        """The schedule as the order takes it."""
        starts = tuple(start * self.step_samples for start in self.starts)
        return WeightSchedule(starts, self.weights, self.batch_samples if self.unit == "steps" else 1)

    def settings(self) -> dict[str, Any]:
        columns = zip(*self.weights, strict=True)
        return {
            "unit": self.unit,
            "starts": [*self.starts],
            "weights": [column[0] if len({*column}) == 1 else [*column] for column in columns],
            **({"batch_samples": self.batch_samples, "ranks": self.ranks} if self.unit == "steps" else {}),
        }


def saved_schedule(settings: Mapping[str, Any] | None, sources: int) -> WeightSchedule | None:
    """Return the schedule in the settings of a saved reader; None if it has none.

    Raises:
        ArithmeticError, LookupError, TypeError, ValueError: It is damaged.
    """
    if settings is None or sources == 1:
        return None
    return check_schedule(settings, sources)


def scheduled_ranks(identity: Any) -> int | None:
    """Return the number of ranks on which a saved run counts the steps at which weights change; None if it has none."""
    if not isinstance(identity, list | tuple) or len(identity) < 2:
        return None
    settings = identity[1] if isinstance(identity[1], Mapping) else {}
    schedule = settings.get("schedule") if identity[0] in _SCHEDULED else None
    ranks = schedule.get("ranks") if isinstance(schedule, Mapping) else None
    if isinstance(ranks, int) and 0 < ranks < _MAX_RANKS:
        return ranks
    return next((inner for part in identity[2:] if (inner := scheduled_ranks(part)) is not None), None)


def schedule_texts(settings: Mapping[str, Any], sources: int, *, whole: float = 1.0) -> list[str]:
    """Describe the share of each source in each stretch of a schedule.

    Raises:
        ArithmeticError, LookupError, TypeError, ValueError: It is damaged.
    """
    # Texts count steps, whatever their samples; comparisons leave those out.
    rows = check_schedule({"batch_samples": 1, "ranks": 1, **settings}, sources).weights
    totals = list(map(sum, rows))
    return [
        schedule_text(
            settings["unit"],
            settings["starts"],
            [weight / total * whole for weight, total in zip(row, totals, strict=True)],
        )
        for row in zip(*rows, strict=True)
    ]


def check_schedule(settings: Mapping[str, Any], sources: int) -> WeightSchedule:
    """Return the schedule in the settings of a saved reader or blend, also of a single source.

    Raises:
        ArithmeticError, LookupError, TypeError, ValueError: It is damaged.
    """
    if settings["unit"] not in ("steps", "samples"):
        raise ValueError(f"expected steps or samples, found {settings['unit']!r}")
    deal, ranks = (settings["batch_samples"], settings["ranks"]) if settings["unit"] == "steps" else (1, 1)
    rows = zip(*_columns(settings, sources), strict=True)
    return WeightSchedule(
        tuple(operator.index(start * deal * ranks) for start in settings["starts"]),
        tuple(map(_checked, rows)),
        operator.index(deal),
    )


def _columns(settings: Mapping[str, Any], sources: int) -> list[Sequence[float]]:
    stretches, columns = len(settings["starts"]), settings["weights"]
    if stretches > MAX_STRETCHES or stretches * sources > _MAX_WEIGHTS:
        raise ValueError(
            f"expected at most {MAX_STRETCHES:,} stretches and {_MAX_WEIGHTS:,} weights, "
            f"found {plural(stretches, 'stretch', 'stretches')} of {plural(sources, 'dataset')}"
        )
    if len(columns) != sources:
        raise ValueError(f"expected the schedules of {plural(sources, 'dataset')}, found {len(columns)}")
    return [weights if isinstance(weights, list | tuple) else [weights] * stretches for weights in columns]


def _checked(row: Sequence[float]) -> tuple[float, ...]:
    if not (all(isfinite(weight) and weight >= 0 for weight in row) and any(row)):
        raise ValueError("expected weights of at least 0, and one above 0")
    return tuple(map(float, row))
