"""Samples that killed their workers: found by what a worker noted last, passed over, and written to a report."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import ConfigError, StorageError
from ...escaped_log import get_logger
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.reading.quarantined_sample import QuarantinedSample
from ..stats.sources import readers_of
from .input_paths import reader_at
from .running_lane import LaneHost, open_lane
from .worker_board import RecordedSample

_log = get_logger(__name__)

_MAX_SHOWN = 80  # characters of a line


def find_recorded(host: LaneHost, recorded: RecordedSample) -> QuarantinedSample | None:
    """Return the sample that a worker recorded; None if the chain has no order of samples there."""
    lane = open_lane(host.dataset, recorded.lane, host.lanes)
    found = reader_at(host.dataset, lane, recorded.path)
    if found is None:
        return None
    reader, lane = found
    order = reader.lane_order(lane.number, lanes=lane.count, seed=lane.seed, deals=lane.deals)
    numbers, _, sample = order.locate(recorded.position, recorded.position + 1)
    number = int(reader.opened.index_numbers(numbers, sample)[0])
    source = reader.sources[int(numbers[0])]
    identity = source.identity()
    return QuarantinedSample(
        dataset=str(identity.get("path", "")),
        uuid=identity.get("uuid"),
        number=number,
        key=source.folder.full_key(number),
    )


def quarantine_samples(dataset: SavableDataset[Any], samples: Sequence[QuarantinedSample]) -> None:
    """Pass over samples in all readers of a chain."""
    for reader in readers_of(dataset):
        reader.quarantine(
            (number, sample.number)
            for number, source in enumerate(reader.sources)
            for sample in samples
            if sample.is_in(source)
        )


def append_report(path: str | os.PathLike[str], sample: QuarantinedSample, **facts: Any) -> None:
    """Append a line of JSON about a sample to a report, in one write: ranks may share the file.

    A report that cannot be written is logged, and does not end the run.
    """
    line = json.dumps({**sample.to_plain(), **facts, "time": time.time()}) + "\n"
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except OSError as error:
        _log.error("cannot write the quarantine file %s: %s", os.fspath(path), error.strerror or error)


def read_report(path: str | os.PathLike[str]) -> tuple[QuarantinedSample, ...]:
    """Return the samples of a report, each once; none if there is no such file yet.

    Raises:
        ConfigError: A line is not one of a report, or there is no folder for the file.
        StorageError: The file cannot be read.
    """
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
                yield QuarantinedSample.from_plain(json.loads(line))
            except (ValueError, TypeError, LookupError, RecursionError) as error:
                raise ConfigError(
                    f"expected a JSON object with dataset, uuid, number and key in line {row} of a quarantine file, "
                    f"found {line[:_MAX_SHOWN]!r}",
                    at=os.fspath(path),
                    hint="loaders write these lines: remove this one, or pass another file as quarantine",
                ) from error
