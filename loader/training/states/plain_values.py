"""Check that values are plain data, and not more than a state has, before they are compared or copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import numpy as np

from ...errors import StateError
from ...storage import max_document_bytes
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE
from .plain_pickle import Opaque

HINT = "save the loader's state in a separate file: torch.save(loader.save_state_rank(), path), or as JSON"

_BYTES_PER_VALUE = 64
"""Share of the limit of bytes that allows one value. The states of 10,000 ranks have three million values."""

_MAX_DEPTH = 200  # chains of stages nest one level for each stage
_PLAIN_TYPES = (str, int, float, type(None))  # a bool is an int


def max_values() -> int:
    """Return the limit of the values in a file."""
    return max(max_document_bytes() // _BYTES_PER_VALUE, 1)


def too_many_values(path: str | None = None) -> StateError:
    """Return the error for a file with more values than :func:`max_values`."""
    needed = max_document_bytes() * 4
    return StateError(
        f"expected a state of at most {max_values():,} values, found more",
        at=path,
        hint=f"{HINT}; if it is one, set the environment variable {DOCUMENT_LIMIT_VARIABLE}={needed}",
    )


def check_size(value: Any, limit: int) -> int:
    """Check that a value is no larger and no deeper than states are; return its number of values.

    Values that are referenced several times count each time, and long strings count as several.

    Raises:
        StateError: It is larger or deeper.
    """
    level = {0: (1, value)}  # each value once, with its references: a few lists can nest to billions of values
    values = 0
    for _ in range(_MAX_DEPTH + 1):
        below: dict[int, tuple[int, Any]] = {}
        for references, outer in level.values():
            values += references * _own_size(outer)
            for inner in _inner_values(outer):
                before = below.get(id(inner))
                below[id(inner)] = (references if before is None else references + before[0], inner)
            if values + len(below) > limit:
                raise too_many_values()
        if not below:
            return values
        level = below
    raise StateError("this state is damaged: it nests deeper than the states that loaders save")


def _own_size(value: Any) -> int:
    """Return 1, and more for long strings, as a value or as keys."""
    if isinstance(value, str):
        return 1 + len(value) // _BYTES_PER_VALUE
    if isinstance(value, Mapping):
        return 1 + sum(len(key) for key in value if isinstance(key, str)) // _BYTES_PER_VALUE
    return 1


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def check_plain(state: Any, *, is_json: bool = False) -> None:
    """Check that a state, whose size was checked, is plain data.

    Args:
        state: The state.
        is_json: Refuse what JSON cannot represent, too: keys that are no strings, infinite numbers, and numbers of
            numpy, to which some frameworks convert Python's.

    Raises:
        StateError: It holds other objects, such as tensors, which do not compare as values do.
    """
    plain_types = _PLAIN_TYPES if is_json else (*_PLAIN_TYPES, np.number)
    pending = [state]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            if is_json and not all(isinstance(key, str) for key in value):
                raise StateError("this state is damaged: it has keys that are not strings")
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
        elif isinstance(value, float) and is_json and not isfinite(value):
            raise StateError(f"this state is damaged: it holds {value}, which JSON cannot represent")
        elif not isinstance(value, plain_types):
            name = value.name if isinstance(value, Opaque) else type(value).__name__
            raise StateError(f"this state is damaged: it holds a {name}, and a state is plain data")
