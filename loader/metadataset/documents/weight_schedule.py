"""Weights that change during a run, as a document describes them: a mapping of steps or samples to weights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...errors import ConfigError

ScheduleUnit = Literal["steps", "samples"]
"""What a schedule counts: micro-batches of a rank, or samples of the whole run, from its beginning."""

MAX_STRETCHES = 1000
"""Limit of the stretches of a mix, in each of which its weights are constant."""
RAMP_STRETCHES = 32
"""Number of equal stretches into which a linear change from one weight to the next is cut."""

_MAX_SHOWN = 6  # changes of a weight


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySchedule:
    """The weights of one place of a mix, or its shares of the samples.

    Attributes:
        unit: What ``starts`` counts.
        starts: The start of each stretch: 0 first, ascending.
        weights: The weight in each stretch: at least 0.
    """

    unit: ScheduleUnit
    starts: tuple[int, ...]
    weights: tuple[float, ...]

    def at(self, start: int) -> float:
        """Return the weight at a step or sample."""
        return self.weights[bisect_right(self.starts, start) - 1]

    def on(self, starts: tuple[int, ...]) -> tuple[float, ...]:
        """Return the weights in stretches that cut these.

        >>> EntrySchedule(unit="steps", starts=(0, 10), weights=(1.0, 0.5)).on((0, 4, 10, 20))
        (1.0, 1.0, 0.5, 0.5)
        """
        found: list[float] = []
        row = 0
        for start in starts:
            while row + 1 < len(self.starts) and self.starts[row + 1] <= start:
                row += 1
            found.append(self.weights[row])
        return tuple(found)

    def __str__(self) -> str:
        return schedule_text(self.unit, self.starts, self.weights)


def schedule_text(unit: str, starts: Sequence[int], weights: Sequence[float]) -> str:
    """Describe weights and the starts at which they change.

    >>> schedule_text("steps", [0, 10, 10000], [0.5, 0.5, 0.2])
    '0.5, 0.2 from step 10,000'
    """
    changes = [
        f"{weight:.3g} from {unit.removesuffix('s')} {start:,}"
        for before, weight, start in zip(weights, weights[1:], starts[1:], strict=False)
        if weight != before
    ]
    if len(changes) > _MAX_SHOWN:
        changes = [*changes[: _MAX_SHOWN // 2], "…", *changes[-1:]]
    return ", ".join([f"{weights[0]:.3g}", *changes])


def combine_starts(schedules: list[EntrySchedule]) -> tuple[int, ...]:
    """Return the starts of the stretches in which the weights of some schedules are constant.

    Raises:
        ConfigError: They have different units, or there are more than ``MAX_STRETCHES``.
    """
    if len({one.unit for one in schedules}) > 1:
        raise ConfigError("some weights change at steps and others at samples; use one unit for a tree of blends")
    starts = sorted({start for one in schedules for start in one.starts})
    if len(starts) > MAX_STRETCHES:
        raise ConfigError(
            f"the weights change {len(starts) - 1:,} times; expected at most {MAX_STRETCHES - 1:,} times, "
            f"where a linear change counts {RAMP_STRETCHES} times"
        )
    return tuple(starts)
