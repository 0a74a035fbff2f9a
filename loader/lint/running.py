"""A running lint of any kind of data: its findings so far, up to a maximum, its progress and its report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from ..accounting.part_sets import PartSets
from ..engine.workers import run_in_workers
from .report import LintProgress, LintReport, PictureCounts
from .rule import Finding

OnProgress = Callable[[LintProgress], None]


class RunningLint:
    """A lint whose tasks may run in worker processes.

    Args:
        max_findings: Number of findings to stop at; None finds all.

    Attributes:
        complete: All tasks are done, and no finding was dropped.
    """

    def __init__(
        self, *, workers: int = 1, max_findings: int | None = None, on_progress: OnProgress | None = None
    ) -> None:
        self.findings: list[Finding] = []
        self.complete = True
        self.datasets, self.shards, self.samples = 1, 0, 0
        self.pictures: PictureCounts = Counter()
        self.decoded_media = 0
        self.media_note: str | None = None
        self.part_sets: PartSets | None = None
        self._workers = workers
        self._max_findings = max_findings
        self._on_progress = on_progress
        self._started = time.perf_counter()

    def add(self, *findings: Finding) -> None:
        """Add findings, up to the maximum."""
        self.findings += findings
        if self._max_findings is not None and len(self.findings) > self._max_findings:
            del self.findings[self._max_findings :]
            self.complete = False

    @property
    def is_full(self) -> bool:
        """True if the maximum is reached."""
        return self._max_findings is not None and len(self.findings) >= self._max_findings

    def results(self, check: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield the number of finished tasks, the number of the task and its result, until the lint is full.

        Results come in the order of the tasks: the findings that fit in the maximum are the first ones of the data,
        whichever worker is the fastest.
        """
        # Findings of earlier steps may have filled the lint.
        if tasks and self.is_full:
            self.complete = False
            return
        with closing(run_in_workers(check, tasks, workers=self._workers)) as results:
            for finished, (index, result) in enumerate(_in_order(results), start=1):
                yield finished, index, result
                if finished < len(tasks) and self.is_full:
                    self.complete = False
                    return

    def progress(self, done: int, total: int, unit: str) -> None:
        """Report the progress."""
        if self._on_progress is not None:
            self._on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(self.findings)))

    def report(self) -> LintReport:
        """Return the report of what was found so far."""
        return LintReport(
            findings=tuple(self.findings),
            complete=self.complete,
            datasets=self.datasets,
            shards=self.shards,
            samples=self.samples,
            seconds=time.perf_counter() - self._started,
            pictures=self.pictures,
            decoded_media=self.decoded_media,
            media_note=self.media_note,
            part_sets=self.part_sets,
        )


def _in_order(results: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    # Results that arrive before an earlier one wait here.
    early: dict[int, Any] = {}
    following = 0
    for index, result in results:
        early[index] = result
        while following in early:
            yield following, early.pop(following)
            following += 1
