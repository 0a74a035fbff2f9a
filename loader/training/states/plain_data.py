"""Check that a state is plain data of bounded size, before it is compared or copied."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from ...errors import StateError

__all__ = ["MAX_DEPTH", "MAX_VALUES", "check_plain"]

MAX_DEPTH = 64
MAX_VALUES = 2_000_000
_PLAIN_TYPES = (str, int, float, type(None))  # a bool is an int


def check_plain(state: Any, *, is_json: bool = False) -> None:
    """Check that a state is plain data of bounded size.

    A pickle may hold tensors, which do not compare as values do, reference cycles, and few lists that nest to billions
    by references.

    Args:
        state: The state.
        is_json: Refuse what JSON cannot represent, too: keys that are no strings, infinite numbers, and numbers
            of numpy, to which some frameworks convert Python's.

    Raises:
        StateError: The state holds other objects, or too many values.
    """
    pending = [(0, state)]
    values = 0
    while pending:
        depth, value = pending.pop()
        values += 1
        if values + len(pending) > MAX_VALUES or depth > MAX_DEPTH:
            raise StateError("this state is damaged: it is larger than the states that loaders save")
        if isinstance(value, Mapping):
            if is_json and not all(isinstance(key, str) for key in value):
                raise StateError("this state is damaged: it has keys that are not strings")
            pending.extend((depth + 1, inner) for inner in value.values())
        elif isinstance(value, list | tuple):
            pending.extend((depth + 1, inner) for inner in value)
        elif isinstance(value, float) and is_json and not isfinite(value):
            raise StateError(f"this state is damaged: it holds {value}, which JSON cannot represent")
        elif not isinstance(value, _PLAIN_TYPES if is_json else (*_PLAIN_TYPES, np.number)):
            raise StateError(f"this state is damaged: it holds a {type(value).__name__}, and a state is plain data")
