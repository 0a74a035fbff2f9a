"""Limit the size and depth of states, before they are converted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any

from ...errors import StateError
from ...storage import max_document_bytes
from ...storage.protocol import DOCUMENT_LIMIT_VARIABLE

HINT = "save the loader's state in a separate file: torch.save(loader.save_state_rank(), path), or as JSON"

_BYTES_PER_VALUE = 64
"""Share of the limit of bytes that allows one value. The states of 10,000 ranks have three million values."""

_MAX_DEPTH = 200  # chains of stages nest one level for each stage


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


def check_size(state: Any, limit: int | None = None) -> int:
    """Check that a state is no larger and no deeper than states are; return its number of values.

    Values that are referenced several times count each time, and long texts count as several.

    Args:
        limit: The largest number of values; None: :func:`max_values`.
    """
    limit = max_values() if limit is None else limit
    level, left = [state], limit
    for _ in range(_MAX_DEPTH + 1):
        left -= len(level) + sum(len(value) // _BYTES_PER_VALUE for value in level if isinstance(value, str))
        if left < 0:
            raise too_many_values()
        if not level:
            return limit - left
        # A few lists can nest to billions of values: take no more than are allowed.
        level = list(islice(chain.from_iterable(map(_values_in, level)), left + 1))
    raise StateError("this state is damaged: it nests deeper than the states that loaders save")


def _values_in(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [*value.values(), *(key for key in value if isinstance(key, str) and len(key) > _BYTES_PER_VALUE)]
    return value if isinstance(value, list | tuple) else ()
