"""Decide what follows from the end of a worker: another process in its place, or the end of the run."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable

from ...errors import WorkerError
from ...escaped_log import get_logger
from ...pipeline.reading.quarantined_sample import QuarantinedSample
from .quarantine import append_report, find_recorded, quarantine_samples, read_report
from .running_lane import LaneHost
from .stream_options import StreamOptions
from .worker_board import RecordedSample, WorkerBoard

_log = get_logger(__name__)

_DEATHS = 2  # at one sample and by one cause, before it is quarantined
_KILLS = 3  # likewise, by SIGKILL, which also others send


class Replacements:
    """The replaced workers of a rank, and the samples that killed them.

    Args:
        options: The limits, and the file for samples.
        rank: This rank.

    Attributes:
        replaced: The number of workers that were replaced in the run.
        quarantined: The samples that are passed over.
    """

    def __init__(self, options: StreamOptions, *, rank: int) -> None:
        self._options = options
        self._rank = rank
        self.replaced = 0
        self.quarantined = () if options.quarantine is None else read_report(options.quarantine)
        self._added = 0  # by this loader
        # By place and exit code. Without a sample, the place is the number of the micro-batch of the worker.
        self._deaths: Counter[tuple[RecordedSample | tuple[int, int], int | None]] = Counter()

    def restore(self, replaced: int, quarantined: Iterable[QuarantinedSample]) -> None:
        """Continue with the counts of a saved run; samples that are quarantined already stay so."""
        self.replaced = replaced
        self.quarantined = tuple(dict.fromkeys((*self.quarantined, *quarantined)))

    def handle(
        self,
        worker: int,
        died: WorkerError,
        *,
        exit_code: int | None,
        host: LaneHost,
        board: WorkerBoard,
        replace: Callable[[int], None],
    ) -> None:
        """Replace a worker that has ended, or raise its error.

        Args:
            worker: The number of the worker.
            died: The error that names the end of the worker.
            exit_code: Its exit code, below 0 for a signal; None if it was killed because it made no progress.
            host: The lanes of the rank.
            board: What the workers recorded.
            replace: Starts another process instead of a worker.

        Raises:
            WorkerError: The error, if the run has replaced as many workers as it may; if the sample at which the worker
                ended has killed others, and may not be quarantined; or if several ended at one micro-batch in a hook
                for several samples.
        """
        if self.replaced >= self._options.max_worker_restarts:
            if self._options.max_worker_restarts:
                died.add_note(f"The run has replaced {self.replaced} workers, which is its max_worker_restarts.")
            raise died
        recorded = board.read(worker)
        if not board.is_idle(worker):
            death = recorded or (worker, board.made(worker)), exit_code
            self._deaths[death] += 1
            if self._deaths[death] >= (_KILLS if exit_code == -signal.SIGKILL else _DEATHS):
                if recorded is None:
                    died.add_note("Several workers have ended at this micro-batch, so another one would, too.")
                    raise died
                self._quarantine(recorded, died, host, worker)
                del self._deaths[death]
        self.replaced += 1
        _log.warning(
            "%s; a new process continues with the same batches (%d of %d replacements)",
            _in_one_line(died),
            self.replaced,
            self._options.max_worker_restarts,
        )
        replace(worker)

    def _quarantine(self, recorded: RecordedSample, died: WorkerError, host: LaneHost, worker: int) -> None:
        sample = find_recorded(host, recorded)
        if sample is None or self._added >= self._options.max_quarantined:
            died.add_note(f"This sample has ended several workers: {recorded if sample is None else sample}.")
            raise died
        self.quarantined += (sample,)
        self._added += 1
        quarantine_samples(host.dataset, (sample,))
        _log.error("quarantined sample %s: it has ended several workers; the last: %s", sample, _in_one_line(died))
        if self._options.quarantine is not None:
            append_report(
                self._options.quarantine,
                sample,
                rank=self._rank,
                worker=worker,
                cause=died.message,
                stack="\n".join(getattr(died, "__notes__", [])) or None,
            )


def _in_one_line(died: WorkerError) -> str:
    return " · ".join(part for part in (died.message, died.at) if part)
