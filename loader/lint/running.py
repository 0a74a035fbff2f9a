"""A running lint of any kind of data: its findings so far, up to a maximum, its progress and its report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

from ..engine.journal import Journal
from ..engine.run import Engine, JobTasks, in_order
from ..errors import EnergonError
from ..parts.part_sets import PartSets
from ..version import __version__
from .report import LintProgress, LintReport, PictureCounts
from .rule import Finding
from .stored import CheckedShard

OnProgress = Callable[[LintProgress], None]


class RequestError(Exception):
    """An error of the request, or of its job in shares: it is no finding.

    Attributes:
        error: The error.
    """

    def __init__(self, error: EnergonError) -> None:
        super().__init__(str(error))
        self.error = error


class RunningLint:
    """A lint whose tasks may run in worker processes, or on another engine.

    Args:
        engine: Where the tasks run; None for this process.
        max_findings: Number of findings to stop at; None finds all.

    Attributes:
        complete: All tasks are done, and no finding was dropped.
    """

    def __init__(
        self,
        *,
        engine: Engine | None = None,
        max_findings: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.findings: list[Finding] = []
        self.complete = True
        self.datasets, self.shards, self.samples = 1, 0, 0
        self.pictures: PictureCounts = Counter()
        self.decoded_media = 0
        self.media_note: str | None = None
        self.part_sets: PartSets | None = None
        self._engine = engine or Engine()
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

    def results(
        self, check: Callable[[Any], Any], tasks: Sequence[Any], stored: Iterable[Any] | None = None
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield the number of finished tasks, the number of the task and its result, until the lint is full.

        Results come in the order of the tasks: the findings that fit in the maximum are the first ones of the data,
        whichever worker is the fastest.

        Args:
            check: Picklable function of a task.
            tasks: The tasks.
            stored: Results of all tasks, which a merge has read; None runs the tasks.
        """
        # Findings of earlier steps may have filled the lint.
        if tasks and self.is_full:
            self.complete = False
            return
        with closing(self._engine.run(check, tasks)) if stored is None else nullcontext(enumerate(stored)) as results:
            for finished, (index, result) in enumerate(in_order(results), start=1):
                yield finished, index, result
                if finished < len(tasks) and self.is_full:
                    self.complete = False
                    return

    def stored_results(
        self,
        check: Callable[[Any], CheckedShard],
        tasks: Sequence[Any],
        *,
        sizes: Sequence[int],
        amounts: Sequence[int],
        unit: str,
        journal: Callable[[], Journal[CheckedShard]],
        command: str,
        request: Mapping[str, str],
    ) -> list[CheckedShard]:
        """Run a share of tasks whose results are stored, or return the results of all shares.

        Args:
            check: Picklable function of a task.
            sizes: Size of each task, by which shares are dealt.
            amounts: Size of each task in ``unit``, for the progress.
            journal: Opens the journal of the results.
            command: Name of the command, for messages.
            request: All that results depend on.

        Raises:
            ShareDone: The engine runs one share, and its tasks are done.
            RequestError: The journal cannot be used, or results are missing.
        """
        results: list[CheckedShard] = []
        share, done = self._engine.share, 0
        try:
            job = JobTasks(
                function=check,
                tasks=tasks,
                sizes=sizes,
                journal=journal(),
                command=command,
                request={**request, "version of energon-toolkit": __version__},
            )
            for task_index, result in job.run(self._engine):
                if share is None:
                    results.append(result)
                else:
                    done += amounts[task_index]
                    self.progress(done, max(done, sum(amounts) // share.count), unit)
        except EnergonError as error:
            raise RequestError(error) from error
        return results

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
