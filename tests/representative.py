"""Parameters of tests whose options do not interact: a few combinations run quickly, the others are slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest


def every_value_once(*options: Iterable[Any]) -> list[Any]:
    """Return all combinations of options; those are quick that have each value of the longest option once.

    The values of the other options take turns.
    """
    values = [list(option) for option in options]
    longest = max(map(len, values))
    quick = {tuple(turn % len(option) for option in values) for turn in range(longest)}
    places = product(*(range(len(option)) for option in values))
    return [
        pytest.param(
            *(option[at] for option, at in zip(values, place, strict=True)),
            marks=() if place in quick else pytest.mark.slow,
        )
        for place in places
    ]
