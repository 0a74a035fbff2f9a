"""Write a trace in the format of Chrome's ``about:tracing`` and Perfetto: a track for each worker and the loop."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...pipeline.measuring.counts import Event

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
