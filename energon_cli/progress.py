"""A progress bar that appears only on a terminal, and only for work longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["ProgressBar"]

_MIN_DELAY_S = 1.0


class ProgressBar:
    """A bar on standard error with the progress of a task, its rate and the time left.

    It appears after one second, and only if standard error is a terminal.

    Args:
        what: A description of the task, printed before the bar.
        unit: The unit of the counts; ``"bytes"`` prints as kB, MB …
        enabled: False disables the bar (``--no-progress``).
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, what: str, *, unit: str, enabled: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._unit = unit
        self._enabled = enabled and sys.stderr.isatty()
        self._clock = clock
        self._start_s = clock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def update(self, done: float, total: float | None) -> None:
        """Set the amount done, and the total if it is known."""
        if not self._enabled:
            return
        if self._progress is None:
            if self._clock() - self._start_s < _MIN_DELAY_S:
                return
            self._progress = _make_progress(self._unit, self._clock)
            self._task = self._progress.add_task(self._what, total=total)
            self._progress.tasks[0].start_time = self._start_s
            self._progress.start()
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _make_progress(unit: str, clock: Callable[[], float]) -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    from .console import error_console

    class RateColumn(ProgressColumn):
        """Items per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} {unit}/s")

    counted: list[ProgressColumn] = (
        [DownloadColumn(), TransferSpeedColumn()] if unit == "bytes" else [MofNCompleteColumn(), RateColumn()]
    )
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *counted,
        TimeRemainingColumn(),
        console=error_console(),
        get_time=clock,
        transient=True,
    )
