"""A running lint: its findings so far, up to a maximum, and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from ..format.worker_pool import run_in_workers
from .report import CheckedTask, Finding, LintProgress, PictureCounts


class RunningLint:
    """A lint whose tasks run in worker processes.

    Args:
        workers: Number of worker processes.
        max_findings: Number of findings to stop at; None finds all.
        on_progress: Called with the progress.

    Attributes:
        findings: The findings so far.
        pictures: The traits of the pictures so far.
        decoded_media: Number of parts with sound or video that were decoded so far.
        complete: All tasks are done, and no finding was dropped.
    """

    def __init__(
        self, *, workers: int, max_findings: int | None, on_progress: Callable[[LintProgress], None] | None
    ) -> None:
        self.findings: list[Finding] = []
        self.pictures: PictureCounts = Counter()
        self.decoded_media = 0
        self.complete = True
        self._workers = workers
        self._max_findings = max_findings
        self._on_progress = on_progress

    def add(self, findings: Sequence[Finding]) -> None:
        """Add findings, up to the maximum."""
        self.findings += findings
        if self._max_findings is not None and len(self.findings) > self._max_findings:
            del self.findings[self._max_findings :]
            self.complete = False

    def take(self, checked: CheckedTask) -> None:
        """Add the result of a task."""
        self.add(checked.findings)
        self.pictures += checked.pictures
        self.decoded_media += checked.decoded_media

    @property
    def is_full(self) -> bool:
        """True if the maximum is reached."""
        return self._max_findings is not None and len(self.findings) >= self._max_findings

    def results(self, check: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
        """Yield the number of finished tasks, the number of the task and its result, until the lint is full."""
        with closing(run_in_workers(check, tasks, workers=self._workers)) as results:
            for finished, (number, result) in enumerate(results, start=1):
                yield finished, number, result
                if finished < len(tasks) and self.is_full:
                    self.complete = False
                    return

    def report(self, done: int, total: int, unit: str) -> None:
        """Report the progress."""
        if self._on_progress is not None:
            self._on_progress(LintProgress(done=done, total=total, unit=unit, findings=len(self.findings)))
