"""Record each call of a loader's workers and its training loop for some steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ...pipeline.measuring.counts import Event
from .meter import RankMeter
from .snapshot import LoaderStats
from .trace_file import LOOP, write_trace

__all__ = ["LoaderProfile"]


class LoaderProfile:
    """A profile of some steps of a loader: a context manager, which :meth:`DataLoader.profile` returns.

    Args:
        meter: The measurements of the loader.
        stats: Returns its statistics.
        path: File for the trace; None writes none.
        steps: Number of micro-batches to record; None records until the end of the block.
        rank: The rank.

    Attributes:
        stats: The statistics of the block, after its end.
    """

    def __init__(
        self,
        meter: RankMeter,
        stats: Callable[[], LoaderStats],
        *,
        path: str | os.PathLike[str] | None,
        steps: int | None,
        rank: int,
    ) -> None:
        self._meter = meter
        self._statistics = stats
        self._path = path
        self._steps = steps
        self._rank = rank
        self._before: LoaderStats | None = None
        self.stats: LoaderStats | None = None

    def __enter__(self) -> Self:
        self._before = self._statistics()
        self._meter.begin_trace(self._steps)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stats = self._statistics().since(self._before)
        calls = self.calls()
        self._meter.end_trace()
        if self._path is not None:
            write_trace(self._path, calls, rank=self._rank)

    def calls(self) -> dict[int, list[Event]]:
        """Return the calls that were recorded, by worker, and of the training loop."""
        workers = {number: worker.counts.events for number, worker in enumerate(self._meter.workers)}
        return {LOOP: self._meter.events, **workers}
