"""Record each call of a loader's workers and its training loop for some steps."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
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
        meters: The measurements of the loader by rank: one rank, or all data ranks that it serves.
        stats: Returns its statistics.
        path: File for the trace; None writes none.
        steps: Number of micro-batches to record; None records until the end of the block.

    Attributes:
        stats: The statistics of the block, after its end.

    >>> loader = get_loader(get_val_dataset("photos", split_part="train", batch_size=2))
    >>> with loader.profile() as profile:
    ...     captions = [batch.caption for batch in loader]
    >>> profile.stats.steps
    2
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
            rank: {LOOP: meter.events} | {index: worker.counts.events for index, worker in enumerate(meter.workers)}
            for rank, meter in self._meters.items()
        }


def check_trace_path(path: str | os.PathLike[str] | None) -> None:
    """Check, before the steps and not after them, that a trace can be written."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise ConfigError(f"there is no folder for the trace: {str(Path(path).parent)!r}")
    if Path(path).is_dir():
        raise ConfigError(f"expected a file for the trace, found a folder: {str(Path(path))!r}")


LOOP = -1
"""The number of the training loop; workers count from 0."""


Calls = Mapping[int, Sequence[Event]]
"""Calls by worker, and by :data:`LOOP` for the training loop."""


def write_trace(path: str | os.PathLike[str], calls: Mapping[int, Calls]) -> None:
    """Write calls as a trace."""
    first_ns = min(
        (event.begin_ns for workers in calls.values() for events in workers.values() for event in events), default=0
    )
    events_json = [
        event for rank, workers in calls.items() for event in trace_events(workers, rank=rank, first_ns=first_ns)
    ]
    document = {"traceEvents": events_json, "displayTimeUnit": "ms"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, separators=(",", ":"))


def trace_events(calls: Calls, *, rank: int, first_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a rank: complete events in microseconds since ``first_ns``, and the names of tracks."""
    # A rank is a process of the trace; its training loop and workers are threads.
    yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"loader of rank {rank}"}}
    for worker, events in sorted(calls.items()):
        track = worker + 1
        name = "training loop" if worker == LOOP else f"worker {worker}"
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": rank, "tid": track, "args": {"sort_index": track}}
        # Viewers nest events of one track by their times, so the longer one comes first.
        for event in sorted(events, key=lambda event: (event.begin_ns, -event.duration_ns)):
            yield {
                "ph": "X",
                "name": event.name,
                "cat": "loop" if worker == LOOP else "worker",
                "pid": rank,
                "tid": track,
                "ts": (event.begin_ns - first_ns) / 1e3,
                "dur": event.duration_ns / 1e3,
            }


PROFILE_VARIABLE = "ENERGON_LOADER_PROFILE"
"""Environment variable ``<steps>:<folder>``: each loader of the process records so many steps."""

_numbers = count()


@dataclass(slots=True, kw_only=True)
class ScriptProfile:
    """The profile of one loader of a program."""

    folder: Path
    steps: int
    profile: LoaderProfile | None = None
    _stats: Path | None = None
    _pid: int = 0

    @staticmethod
    def of_environment() -> ScriptProfile | None:
        """Return the profile that the environment requests; None if it requests none."""
        steps, separator, folder = os.environ.get(PROFILE_VARIABLE, "").partition(":")
        if not separator or not steps.isdecimal():
            return None
        return ScriptProfile(folder=Path(folder), steps=int(steps))

    def begin(self, make: Callable[[Path, int], LoaderProfile]) -> None:
        """Begin the profile with the first iteration, and end it with the program at the latest."""
        if self.profile is None:
            name = f"loader-{os.getpid()}-{next(_numbers)}"
            self.profile = make(self.folder / f"{name}.trace.json", self.steps)
            self.profile.__enter__()  # end() leaves it
            self._stats, self._pid = self.folder / f"{name}.stats.json", os.getpid()
            atexit.register(self.end)

    def end(self) -> None:
        """End the profile, if it runs, and write its statistics; the next iteration may begin another one."""
        profile, self.profile = self.profile, None
        if profile is None or self._stats is None or os.getpid() != self._pid:
            return  # a fork inherits the function
        profile.__exit__(None, None, None)
        stats = profile.stats
        if stats is not None and stats.steps:
            document = {"line": str(stats), "suggestions": stats.suggestions, **stats.to_dict()}
            self._stats.write_text(json.dumps(document), encoding="utf-8")
