"""Check the weights in the description of a saved chain."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ....errors import StateError
from ....pipeline.reading.planned_schedule import check_schedule

_WEIGHTED = ("read", "blend", "BlendDataset")  # names of stages that have weights


def check_saved_weights(identity: Any) -> None:
    """Check the weights of all readers and blends, and their schedules.

    Args:
        identity: The description of the chain in a state: ``[name, settings, *inputs]``.

    Raises:
        StateError: A weight is no number above 0, or a schedule is damaged.
    """
    if not isinstance(identity, list | tuple):
        return
    if len(identity) > 2 and identity[0] in _WEIGHTED and isinstance(identity[1], Mapping):
        try:
            _check(identity[1], len(identity) - 2)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise StateError(
                f"this state is damaged: the weights of {identity[0]!r}: {error}", hint="restore another state"
            ) from error
    for part in identity[2:]:
        check_saved_weights(part)


def _check(settings: Mapping[str, Any], sources: int) -> None:
    schedule = settings.get("schedule")
    if schedule is not None:
        check_schedule(schedule, sources)
        return
    weights = settings.get("weights", [])
    for weight in weights if isinstance(weights, list | tuple) else [weights]:
        if not isinstance(weight, int | float) or not isfinite(weight) or weight <= 0:
            raise ValueError(f"expected numbers above 0, found {weight!r:.80}")
