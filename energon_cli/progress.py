"""Progress of long work: a bar on a terminal, and lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from loader.inspect import format_bytes

from .console import error_console, is_terminal
from .settings import output_settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_MIN_DELAY_S = 1.0  # of the bar
# Often enough to see that a job runs, without filling its log.
_LINE_PERIOD_S = 30.0
_REQUESTED_PERIOD_S = 5.0  # with --progress


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """The progress of a task on standard error, its rate and the time left.

    On a terminal, a bar appears after one second. In a log, a line is printed every 30 seconds, or every 5 seconds with
    ``--progress``. With ``--no-progress``, nothing is.

    Args:
        what: A description of the task, printed before the bar.
        unit: The unit of the counts; ``"bytes"`` prints as kB, MB …
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, what: str, *, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._unit = unit
        enabled = output_settings().progress
        self._enabled = enabled is not False and sys.stderr is not None
        self._draws = self._enabled and is_terminal(sys.stderr)
        self._period_s = _REQUESTED_PERIOD_S if enabled else _LINE_PERIOD_S
        self._clock = clock
        self._start_s = clock()
        self._last_line_s = self._start_s
        self._first: tuple[float, float] | None = None  # amount done and time of the first update
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def update(self, done: float, total: float | None) -> None:
        """Set the amount done, and the total if it is known."""
        if not self._enabled:
            return
        if not self._draws:
            self._print_line(done, total)
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

    def _print_line(self, done: float, total: float | None) -> None:
        now_s = self._clock()
        if self._first is None:  # what a resumed task had done, and the time before it starts, would distort the rate
            self._first = (done, now_s)
        if now_s - self._last_line_s < self._period_s:
            return
        self._last_line_s = now_s
        first_done, first_s = self._first
        rate = (done - first_done) / (now_s - first_s) if now_s > first_s else 0.0
        click.echo(f"{self._what}: {_line(done, total, rate, self._unit)}", err=True)

    def stop(self, *_: object) -> None:
        """Leave the terminal, until the next update; at the end of the block, too."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    __exit__ = stop


def _line(done: float, total: float | None, rate: float, unit: str) -> str:
    """Format counts, rate and time left.

    >>> _line(1043, 5000, 35.2, "shards")
    '1,043 of 5,000 shards (20.8 %), 35 shards/s, 0:01:52 left'
    >>> _line(3e9, None, 0, "bytes")
    '3.0 GB'
    """
    if unit == "bytes":
        counts = format_bytes(int(done)) + (f" of {format_bytes(int(total))}" if total else "")
        speed = f"{format_bytes(int(rate))}/s"
    else:
        counts = f"{int(done):,}" + (f" of {int(total):,}" if total else "") + f" {unit}"
        speed = f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.1f} {unit}/s"
    pieces = [f"{counts} ({int(1000 * done / total) / 10:.1f} %)" if total else counts]
    if rate > 0:
        pieces.append(speed)
        pieces += [f"{timedelta(seconds=int((total - done) / rate))} left"] if total else []
    return ", ".join(pieces)


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

    # Bytes have columns of rich; other units have a rate of their own.
    class RateColumn(ProgressColumn):
        """Items per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} {unit}/s")

    counted: list[ProgressColumn] = (
        [DownloadColumn(), TransferSpeedColumn()] if unit == "bytes" else [MofNCompleteColumn(), RateColumn()]
    )
    # The bar goes when the task is done.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *counted,
        TimeRemainingColumn(),
        console=error_console(),
        get_time=clock,
        transient=True,
    )
