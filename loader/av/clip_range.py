"""Ranges of clips as callers give them, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

__all__ = ["AudioUnit", "VideoUnit", "check_ranges", "check_unit"]

VideoUnit = Literal["frames", "seconds"]
AudioUnit = Literal["samples", "seconds"]


def check_ranges(ranges: Sequence[tuple[float, float]], what: str) -> list[tuple[float, float]]:
    """Check that each range has a start and an end, in this order; the end may be ``math.inf``.

    Args:
        ranges: As the caller gave them.
        what: Their name, for the error.

    Returns:
        The ranges; those that start before 0 start at 0.

    Raises:
        ValueError: One ends before it starts, or holds what is not a number; all such are named.
    """
    faults = []
    checked = []
    for number, (start, end) in enumerate(ranges):
        if math.isnan(start) or math.isnan(end) or math.isinf(start):
            faults.append(f"{what}[{number}] is ({start}, {end}); expected two numbers, of which only the end is inf")
        elif end < start:
            faults.append(f"{what}[{number}] ends at {end}, before it starts at {start}")
        checked.append((max(start, 0), end))
    if faults:
        raise ValueError("; ".join(faults))
    return checked


def check_unit(unit: str, expected: Sequence[str], what: str) -> None:
    """Check that a unit is one of those there are.

    Raises:
        ValueError: It is not.
    """
    if unit not in expected:
        raise ValueError(f"{what} is {unit!r}; expected {' or '.join(repr(one) for one in expected)}")
