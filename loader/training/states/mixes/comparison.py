"""Check that a state is of the same chain and data as a run."""

from __future__ import annotations

from typing import Any

from ....errors import StateError
from ....escaped_log import get_logger
from .differences import chain_differences

_log = get_logger(__name__)
_MAX_SHOWN = 8
_MAX_LINE = 2000  # characters


def compare_datasets(saved: Any, now: Any) -> None:
    """Check that a state is of the same chain and data.

    Args:
        saved: The description in the state.
        now: The description of the present chain.

    Raises:
        StateError: They differ; the message lists the differences.
    """
    found = chain_differences(saved, now)
    if found:
        lines = [str(one)[:_MAX_LINE] for one in found[:_MAX_SHOWN]]
        if len(found) > _MAX_SHOWN:
            lines.append(f"… and {len(found) - _MAX_SHOWN} more (energon diff lists all)")
        raise StateError(
            "the state is of another dataset or pipeline:\n  " + "\n  ".join(lines),
            hint="build the dataset with the data and arguments of the run that was saved, or start a new run",
        )
