"""The shares of a blend's entries in each stretch of a run whose weights change."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from sys import float_info

from ...errors import ConfigError
from ..documents.spec import BlendSpec
from ..documents.weight_schedule import EntrySchedule, combine_starts


def scheduled_shares(blend: BlendSpec, outer: EntrySchedule | None, weight: float | None) -> list[EntrySchedule] | None:
    """Return the shares of all samples for each entry of a blend; None if no weight changes.

    Args:
        blend: The blend.
        outer: The share of the blend in each stretch; None if it never changes.
        weight: The share of the blend if it never changes; None: all samples.

    Raises:
        ConfigError: The weights change in different units or too often, or all are 0 in a stretch that the blend has a
            share of.
    """
    known = [entry.schedule for entry in blend.entries if entry.schedule is not None]
    known += [] if outer is None else [outer]
    if not known:
        return None
    unit, starts = known[0].unit, combine_starts(known)
    outer_shares = (1.0 if weight is None else weight,) * len(starts) if outer is None else outer.on(starts)
    columns = [
        (entry.amount,) * len(starts) if entry.schedule is None else entry.schedule.on(starts)
        for entry in blend.entries
    ]
    rows = []
    for start, share, weights in zip(starts, outer_shares, zip(*columns, strict=True), strict=True):
        if any(weights):
            # Nested shares may underflow to 0, which would drop the entry.
            inner = normalised(weights)
            least = float_info.min if share else 0.0
            rows.append([max(share * one, least) if one else 0.0 for one in inner])
        elif share:
            raise ConfigError(f"from {unit.removesuffix('s')} {start:,} on every weight is 0; expected one above 0")
        else:
            rows.append([0.0] * len(columns))
    return [EntrySchedule(unit=unit, starts=starts, weights=own) for own in zip(*rows, strict=True)]


def normalised(weights: Sequence[float]) -> list[float]:
    """Return weights in proportion, with the sum 1; an entry of a weight above 0 keeps one above 0.

    Args:
        weights: At least 0, and one of them above 0.
    """
    largest = max(weights)  # dividing by it first keeps the sum of large weights finite
    total = fsum(weight / largest for weight in weights)
    return [max(weight / largest / total, float_info.min) if weight else 0.0 for weight in weights]
