"""Weights that change during a run, as a document describes them: a mapping of steps or samples to weights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from ...errors import ConfigError
from ...format.documents.messages import short_repr
from .mapping_reader import MappingReader

ScheduleUnit = Literal["steps", "samples"]
"""What a schedule counts: micro-batches of a rank, or samples of the whole run, from its beginning."""

MAX_STRETCHES = 1000
"""Limit of the stretches of a mix, in each of which its weights are constant."""
RAMP_STRETCHES = 32
"""Number of equal stretches into which a linear change from one weight to the next is cut."""

_UNITS: tuple[ScheduleUnit, ...] = ("steps", "samples")
_CHANGES = ("steps", "linear")
_KEYS = ("unit", "change", "at")
_MAX_POINTS = MAX_STRETCHES
_MAX_DIGITS = 12
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


def parse_weight(reader: MappingReader, key: str) -> tuple[float, EntrySchedule | None]:
    """Read the weight of an entry: a number, or a schedule.

    Returns:
        The first weight, and the schedule; None if the weight never changes.
    """
    value = reader.mapping.get(key, 1.0)
    if not isinstance(value, Mapping):
        return reader.positive(key, 1.0), None
    schedule = _parse_schedule(MappingReader(value, reader.at(key), reader.faults))
    if schedule is None:
        return 1.0, None
    return schedule.weights[0], schedule if len({*schedule.weights}) > 1 else None


def _parse_schedule(reader: MappingReader) -> EntrySchedule | None:
    unit, change = "steps", "steps"
    points = reader
    if any(name in reader for name in _KEYS):
        reader.expect_keys(_KEYS)
        unit, change = _choice(reader, "unit", _UNITS), _choice(reader, "change", _CHANGES)
        found = reader.child("at")
        if found is None:
            if reader.mapping.get("at") is None:
                reader.fault("at", "this is missing; expected a mapping of steps or samples to weights")
            return None
        points = found
    faults = len(reader.faults)
    weights = _parse_points(points)
    if len(reader.faults) > faults:
        return None
    starts = sorted(weights)
    if change == "linear":
        starts, values = _cut_ramps([(start, weights[start]) for start in starts])
    else:
        values = [weights[start] for start in starts]
    if not any(values):
        points.fault("", "every weight is 0; expected one above 0, or remove the entry")
        return None
    return EntrySchedule(unit="samples" if unit == "samples" else "steps", starts=tuple(starts), weights=tuple(values))


def _choice(reader: MappingReader, key: str, known: tuple[str, ...]) -> str:
    value = reader.mapping.get(key)
    if value is None or value in known:
        return value or known[0]
    reader.fault(key, f"expected {' or '.join(known)}, found {short_repr(value)}")
    return known[0]


def _parse_points(reader: MappingReader) -> dict[int, float]:
    """Return the weight at each step or sample, with 0 among them."""
    if not 0 < len(reader.mapping) <= _MAX_POINTS:
        found = f"expected 1 to {_MAX_POINTS:,} steps or samples with their weights, found {len(reader.mapping):,}"
        reader.fault("", found)
        return {}
    weights: dict[int, float] = {}
    for key in reader.mapping:
        start = _parse_start(key)
        if start is None:
            reader.fault_at(
                key, "expected the number of a step or sample: a whole number from 0 on, of at most 12 digits"
            )
        elif start in weights:
            reader.fault_at(key, f"{start:,} has two weights")
        else:
            weights[start] = reader.at_least_0(key)
    if weights and 0 not in weights:
        reader.fault("", f"the first weight is that at {min(weights):,}; expected one at 0")
    return weights


def _parse_start(key: Any) -> int | None:
    """Return the number of a step or sample; JSON has only texts as keys."""
    if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= _MAX_DIGITS:
        return int(key)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 10**_MAX_DIGITS:
        return key
    return None


def _cut_ramps(points: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """Cut linear changes into equal stretches, each with the weight at its middle."""
    starts, weights = [], []
    for (start, weight), (end, next_weight) in pairwise(points):
        parts = 1 if weight == next_weight else min(RAMP_STRETCHES, end - start)
        for part in range(parts):
            starts.append(start + (end - start) * part // parts)
            weights.append(weight + (next_weight - weight) * ((part + 0.5) / parts))
    return [*starts, points[-1][0]], [*weights, points[-1][1]]
