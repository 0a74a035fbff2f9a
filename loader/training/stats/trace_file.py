"""Write a trace in the format of Chrome's ``about:tracing`` and Perfetto: a track for each worker and the loop."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...pipeline.measuring.counts import Event

__all__ = ["LOOP", "trace_events", "write_trace"]

LOOP = -1
"""The number of the training loop, next to those of the workers."""


def write_trace(path: str | os.PathLike[str], calls: Mapping[int, Sequence[Event]], *, rank: int) -> None:
    """Write calls as a trace.

    Args:
        path: The file, which is replaced.
        calls: By worker, and by :data:`LOOP` for the training loop.
        rank: The rank, which is a process of the trace.
    """
    document = {"traceEvents": [*trace_events(calls, rank=rank)], "displayTimeUnit": "ms"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, separators=(",", ":"))


def trace_events(calls: Mapping[int, Sequence[Event]], *, rank: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a trace: complete events in microseconds since the first one, and the names of tracks."""
    first_ns = min((event.begin_ns for events in calls.values() for event in events), default=0)
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
