"""Statistics of a loader that serves several data ranks: their sums, and the waits of the loop for all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...pipeline.measuring.counts import add_numbers
from .headroom import HeadroomTrial
from .profile import LoaderProfile, check_trace_path
from .run_stats import RunStats
from .snapshot import LoaderStats, SourceStats

_SUMS = (
    "waited_s",
    "samples",
    "size_bytes",
    "repeats",
    "skipped",
    "queue",
    "queue_capacity",
    "shared_bytes",
    "restarts",
    "quarantined",
)
_SUMS_BY_NAME = ("waited_for", "worker_s", "dropped", "sizes")


class ServedStats:
    """The statistics of the data ranks that one process serves. It has the methods of :class:`.RunStats`.

    Args:
        runs: Those of each data rank, by number.
        headroom: Compare new steps with cached ones.

    Attributes:
        trial: This comparison; None for none.
    """

    def __init__(self, runs: Mapping[int, RunStats], *, headroom: bool) -> None:
        self._runs = runs
        self.trial: HeadroomTrial | None = HeadroomTrial(self._queued) if headroom else None

    def _queued(self) -> int:
        """Return the steps that wait for the training loop, at most."""
        return max(run.meter.queued() for run in self._runs.values())

    def begin_trial(self, rounds: int | None) -> None:
        """Compare new steps with cached ones in the iterations that follow."""
        self.trial = HeadroomTrial(self._queued, rounds=rounds)

    def profile(self, path: str | os.PathLike[str] | None, steps: int | None) -> LoaderProfile:
        """Return a profile, which begins with its ``with`` block; each data rank is a process of its trace."""
        check_trace_path(path)
        meters = {rank: run.meter for rank, run in self._runs.items()}
        return LoaderProfile(meters, self.stats, path=path, steps=steps)

    def each(self) -> list[LoaderStats]:
        """Return the statistics of each data rank."""
        return [run.stats() for run in self._runs.values()]

    def stats(self) -> LoaderStats:
        """Return the sums over the data ranks, since the first iteration."""
        meters = [run.meter for run in self._runs.values()]
        begins = [meter.begin_ns for meter in meters if meter.begin_ns]
        ends = [meter.begin_ns + meter.elapsed_ns for meter in meters if meter.begin_ns]
        elapsed_s = (max(ends) - min(begins)) / 1e9 if begins else 0.0
        found = _sum_of(self.each(), elapsed_s)
        return replace(found, headroom=None if self.trial is None else self.trial.found)


def _sum_of(parts: Sequence[LoaderStats], elapsed_s: float) -> LoaderStats:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in parts) for name in _SUMS}
    for name in _SUMS_BY_NAME:
        total: dict[str, float] = {}
        for one in parts:
            add_numbers(total, getattr(one, name))
        sums[name] = dict(sorted(total.items(), key=lambda item: -item[1]))
    workers = [worker for one in parts for worker in one.workers]
    busy_s = [sum(worker.busy_s for worker in one.workers) for one in parts]
    cost_s = sum(one.cost_share * busy for one, busy in zip(parts, busy_s, strict=True))
    return replace(
        parts[0],
        steps=max(one.steps for one in parts),
        step=max(one.step for one in parts),
        elapsed_s=elapsed_s,
        sources=tuple(_source_of(same) for same in zip(*(one.sources for one in parts), strict=True)),
        workers=tuple(replace(worker, worker=number) for number, worker in enumerate(workers)),
        cost_share=cost_s / sum(busy_s) if sum(busy_s) else 0.0,
        **sums,
    )


def _source_of(parts: Sequence[SourceStats]) -> SourceStats:
    sizes: dict[str, float] = {}
    for one in parts:
        add_numbers(sizes, one.sizes)
    numbers = {
        name: sum(getattr(one, name) for one in parts) for name in ("samples", "size_bytes", "repeats", "skipped")
    }
    return SourceStats(name=parts[0].name, sizes=sizes, **numbers)
