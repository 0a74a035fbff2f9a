"""Record each call of a loader's workers and its training loop for some steps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...errors import ConfigError
from ...pipeline.measuring.counts import Event
from .meter import RankMeter
from .snapshot import LoaderStats


class LoaderProfile:
    """A profile of some steps of a loader: a context manager, which :meth:`DataLoader.profile` returns.

    Args:
        meters: The measurements of the loader by rank: one, or those of the data ranks that it serves.
        stats: Returns its statistics.
        path: File for the trace; None writes none.
        steps: Number of micro-batches to record; None records until the end of the block.

    Attributes:
        stats: The statistics of the block, after its end.
    """

    def __init__(
        self,
        meters: Mapping[int, RankMeter],
        stats: Callable[[], LoaderStats],
        *,
        path: str | os.PathLike[str] | None,
        steps: int | None,
    ) -> None:
        self._meters = meters
        self._statistics = stats
        self._path = path
        self._steps = steps
        self._before: LoaderStats | None = None
        self.stats: LoaderStats | None = None

    def __enter__(self) -> Self:
        self._before = self._statistics()
        for meter in self._meters.values():
            meter.begin_trace(self._steps)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stats = self._statistics().since(self._before)
        calls = self.calls()
        for meter in self._meters.values():
            meter.end_trace()
        if self._path is not None:
            write_trace(self._path, calls)

    def calls(self) -> dict[int, dict[int, list[Event]]]:
        """Return the calls that were recorded by rank: of each worker, and of the training loop."""
        return {
            rank: {LOOP: meter.events} | {number: worker.counts.events for number, worker in enumerate(meter.workers)}
            for rank, meter in self._meters.items()
        }


def check_trace_path(path: str | os.PathLike[str] | None) -> None:
    """Check, before the steps and not after them, that a trace can be written.

    Raises:
        ConfigError: The file has no folder, or is one itself.
    """
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise ConfigError(f"there is no folder for the trace: {str(Path(path).parent)!r}")
    if Path(path).is_dir():
        raise ConfigError(f"expected a file for the trace, found a folder: {str(Path(path))!r}")


LOOP = -1
"""The number of the training loop, next to those of the workers."""


Calls = Mapping[int, Sequence[Event]]
"""Calls by worker, and by :data:`LOOP` for the training loop."""


def write_trace(path: str | os.PathLike[str], calls: Mapping[int, Calls]) -> None:
    """Write calls as a trace.

    Args:
        path: The file, which is replaced.
        calls: By rank, which is a process of the trace.
    """
    first_ns = min((event.begin_ns for own in calls.values() for events in own.values() for event in events), default=0)
    found = [event for rank, own in calls.items() for event in trace_events(own, rank=rank, first_ns=first_ns)]
    document = {"traceEvents": found, "displayTimeUnit": "ms"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, separators=(",", ":"))


def trace_events(calls: Calls, *, rank: int, first_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a rank: complete events in microseconds since ``first_ns``, and the names of tracks."""
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"loader of rank {rank}"}}
    for number, events in sorted(calls.items()):
        track = number + 1
        name = "training loop" if number == LOOP else f"worker {number}"
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": track, "args": {"sort_index": track}}
        for event in sorted(events, key=lambda event: (event.begin_ns, -event.duration_ns)):
            yield {
                "ph": "X",
                "name": event.name,
                "cat": "loop" if number == LOOP else "worker",
                "pid": rank,
                "tid": track,
                "ts": (event.begin_ns - first_ns) / 1e3,
                "dur": event.duration_ns / 1e3,
            }
