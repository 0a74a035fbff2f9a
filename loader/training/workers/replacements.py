"""Decide what follows from the end of a worker: another process in its place, or the end of the run."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from ...errors import ConfigError, StorageError, WorkerError, plural
from ...escaped_log import get_logger
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.quarantined_sample import QuarantinedSample
from ..stats.meter import readers_of
from .running_lane import LaneHost, open_lane
from .stream_options import StreamOptions
from .worker_board import RecordedSample, WorkerBoard
from .worker_errors import reader_at

_log = get_logger(__name__)

_MAX_SHOWN = 80  # characters of a line


def find_recorded(host: LaneHost, recorded: RecordedSample) -> QuarantinedSample | None:
    """Return the sample that a worker recorded; None if the chain has no order of samples there."""
    # Find the reader and its order of samples.
    lane = open_lane(host.dataset, recorded.lane, host.lanes)
    opened = reader_at(host.dataset, lane, recorded.path)
    if opened is None:
        return None
    reader, lane = opened
    order = reader.lane_order(lane.number, lanes=lane.count, seed=lane.seed, deals=lane.deals)
    # Locate the position in it.
    numbers, _, sample = order.locate(recorded.position, recorded.position + 1)
    sample_number = int(reader.opened.index_numbers(numbers, sample)[0])
    source = reader.sources[int(numbers[0])]
    identity = source.identity()
    return QuarantinedSample(
        dataset=str(identity.get("path", "")),
        uuid=identity.get("uuid"),
        number=sample_number,
        key=source.folder.full_key(sample_number),
    )


def quarantine_samples(dataset: SavableDataset[Any], samples: Sequence[QuarantinedSample]) -> None:
    """Pass over samples in all readers of a chain."""
    for reader in readers_of(dataset):
        reader.quarantine(
            (index, sample.number)
            for index, source in enumerate(reader.sources)
            for sample in samples
            if sample.is_in(source)
        )


def append_report(path: str | os.PathLike[str], sample: QuarantinedSample, **facts: Any) -> None:
    """Append a line of JSON about a sample to a report, in one write: ranks may share the file.

    A report that cannot be written is logged, and does not end the run.
    """
    line = json.dumps({**asdict(sample), **facts, "time": time.time()}) + "\n"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), "ab", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        _log.error("cannot write the quarantine file %s: %s", os.fspath(path), error.strerror or error)


def read_report(path: str | os.PathLike[str]) -> tuple[QuarantinedSample, ...]:
    """Return the samples of a report, each once; none if there is no such file yet."""
    if not Path(path).absolute().parent.is_dir():  # else it would be noticed when a sample is lost, after hours
        raise ConfigError(
            "there is no folder for the quarantine file", at=os.fspath(path), hint="create it; the file must be local"
        )
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StorageError(
            f"cannot read this quarantine file: {error.strerror or error}", path=os.fspath(path)
        ) from error
    return tuple(dict.fromkeys(_samples_of(lines, path)))


def _samples_of(lines: Iterable[str], path: str | os.PathLike[str]) -> Iterator[QuarantinedSample]:
    for row, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield msgspec.json.decode(line, type=QuarantinedSample)
            except (ValueError, RecursionError) as error:
                raise ConfigError(
                    f"expected a JSON object with dataset, uuid, number and key in line {row} of a quarantine file, "
                    f"found {line[:_MAX_SHOWN]!r}",
                    at=os.fspath(path),
                    hint="loaders write these lines: remove this one, or pass another file as quarantine",
                ) from error


_DEATHS = 2  # at one sample and by one cause, before it is quarantined
_KILLS = 3  # likewise, by SIGKILL, which also others send


class Replacements:
    """The replaced workers of a rank, and the samples that killed them."""

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
            exit_code: Its exit code, below 0 for a signal; None if it was killed because it made no progress.
        """
        if self.replaced >= self._options.max_worker_restarts:
            if self._options.max_worker_restarts:
                died.add_note(f"The run has replaced {plural(self.replaced, 'worker')}, its max_worker_restarts.")
            raise died
        # Count the deaths at this sample; one that has ended enough workers is quarantined.
        recorded = board.read(worker)
        if not board.cells[worker].is_idle:
            death = recorded or (worker, board.cells[worker].made), exit_code
            self._deaths[death] += 1
            if self._deaths[death] >= (_KILLS if exit_code == -signal.SIGKILL else _DEATHS):
                if recorded is None:
                    died.add_note("Several workers have ended at this micro-batch, so another one would, too.")
                    raise died
                self._quarantine(recorded, died, host, worker)
                del self._deaths[death]
        # Replace the worker.
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
        # Pass over it from now on, on this rank; the state keeps it for all.
        self.quarantined += (sample,)
        self._added += 1
        quarantine_samples(host.dataset, (sample,))
        _log.error("quarantined sample %s: it has ended several workers; the last: %s", sample, _in_one_line(died))
        # Write it to the report, with the cause, for the maintainers of the data.
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
