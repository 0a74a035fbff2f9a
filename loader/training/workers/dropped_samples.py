"""Passes in which no sample makes a micro-batch: workers report their dropped samples, and the rank raises an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import RepeatedSampleError
from ...escaped_log import get_logger
from ...pipeline.contract.lane import Lane
from ...pipeline.contract.stage import IteratedDataset, SavableDataset
from ...pipeline.failures.policy import FailurePolicy
from ...pipeline.reading.read import ReadDataset
from ...pipeline.stages.blend import BlendDataset
from ...pipeline.stages.concat import ConcatDataset
from ...pipeline.stages.repeat import RepeatDataset
from .worker_errors import PackedError, pack_error, unpack_error

_MAX_DIGITS = 15


def input_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[SavableDataset[Any], Lane] | None:
    """Return the stage below another one that a path leads to, and the lane for which it is opened; None for none.

    Args:
        dataset: The stage above.
        lane: Its lane.
        path: The path of the wanted stage's lane, which may be further below.
    """
    place = 0
    if isinstance(dataset, BlendDataset | ConcatDataset | RepeatDataset | IteratedDataset):
        # These open each source, or each pass, for a child lane; the path contains its number.
        number, slash, _ = path.removeprefix(lane.path).partition("/")
        if not slash or not number.isdecimal() or len(number) > _MAX_DIGITS:
            return None
        lane = lane.child(int(number))
        place = 0 if isinstance(dataset, RepeatDataset) else int(number)
        if isinstance(dataset, BlendDataset):
            if place not in dataset.origins:
                return None
            place = dataset.origins.index(place)
        if isinstance(dataset, IteratedDataset):
            place %= len(dataset.inputs)  # a later pass has another lane
    return (dataset.inputs[place], lane) if place < len(dataset.inputs) else None


def reader_at(dataset: SavableDataset[Any], lane: Lane, path: str) -> tuple[ReadDataset, Lane] | None:
    """Return the reader that a path leads to, and the lane for which it is opened; None if it leads to no reader."""
    found: tuple[SavableDataset[Any], Lane] | None = dataset, lane
    while found is not None and found[0].inputs:
        found = input_at(*found, path)
    if found is None or not isinstance(found[0], ReadDataset) or found[1].path != path:
        return None
    return found[0], found[1]


_log = get_logger(__name__)

_MIN_DROPPED = 10
"""Samples of a rank's pass of which some must make a micro-batch; of fewer, all may be bad by chance."""


@dataclass(frozen=True, slots=True)
class DroppedSamples:
    """The samples of a pass from which a worker made no micro-batch.

    Attributes:
        by_reason: Their number, by hook and reason.
        remainder: Why ``drop_last`` dropped samples that hooks kept; empty if it dropped none.
        last_failure: The error of the last one that failed; None if none has.
    """

    by_reason: Counter[str]
    remainder: str
    last_failure: PackedError | None


def dropped_samples(lanes: Iterable[FailurePolicy], *, worker: int) -> DroppedSamples | None:
    """Return the dropped samples of a worker's lanes; None if the lanes had no samples.

    Args:
        lanes: The counts of each lane.
        worker: The number of the worker, for messages.
    """
    dropped: Counter[str] = Counter()
    remainder, last = "", None
    for failures in lanes:
        dropped.update(failures.dropped)
        remainder = failures.remainder or remainder
        last = failures.last or last
    if not (dropped or remainder):
        return None
    packed = None
    if last is not None:
        failure, cause = last
        error = failure.stop(f"{failure.hook} failed", cause, hint="", cause=failure.text_of(cause))
        error.__cause__ = cause
        packed = pack_error(error, worker=worker)
    return DroppedSamples(dropped, remainder, packed)


def check_dropped(reports: Sequence[DroppedSamples], *, is_repeated: bool) -> None:
    """Raise an error for a pass without micro-batches, all of whose samples were dropped.

    Args:
        reports: Those of all workers of a rank; workers without samples have none.
        is_repeated: The pass is one of several without end, of which none would have a micro-batch.

    Raises:
        RepeatedSampleError: All samples were skipped, or failed; or the pass is repeated, and its samples are too few
            for a micro-batch.
    """
    dropped = sum((report.by_reason for report in reports), Counter[str]())
    remainder = next((report.remainder for report in reports if report.remainder), "")
    if remainder:
        if is_repeated:
            raise RepeatedSampleError(
                f"this run without end has no micro-batch: {remainder}",
                hint="pass a smaller batch_size, or drop_last=False (batch_drop_last=False)",
            )
        _log.warning("this pass has no micro-batch: %s", remainder)
        return
    if dropped.total() < _MIN_DROPPED:
        return
    reasons = ", ".join(f"{reason}: {samples}" for reason, samples in dropped.most_common())
    failures = [unpack_error(report.last_failure) for report in reports if report.last_failure is not None]
    last: Any = failures[-1] if failures else None
    raise RepeatedSampleError(
        f"all samples of this pass were skipped or failed ({reasons})" + (f"; {last.message}" if last else ""),
        key=last.key if last else None,
        source=last.source if last else None,
        hint="check these hooks, and read the warnings in the log; to allow a pass without micro-batches, pass "
        "WorkerConfig(skip_tolerance=None)",
        cause=last.cause if last else None,
    ) from (last.__cause__ if last else None)
