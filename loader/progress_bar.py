"""Progress bars on standard error, drawn by tqdm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def progress_bar(steps: Iterable[T], total: int | None = None, *, unit: str = "shard") -> Iterable[T]:
    """Wrap an iterable so that iterating it draws a progress bar.

    Args:
        steps: The iterable.
        total: Number of steps; None if it is unknown or endless: the bar then counts.
        unit: Name of a step.
    """
    from tqdm.auto import tqdm

    return tqdm(steps, total=total, unit=unit)
