"""Collect the counts of samples that the stages of a worker keep, from time to time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Protocol

from .counts import Counts
from .next_turn import NextTurn
from .skipped_items import SkippedItems

_MAX_SHARE = 0.001  # of a worker's time to count samples
_MISSING = 1 / 16  # of the micro-batches of a worker, those whose samples are not counted yet
_MAX_WAIT_NS = 2_000_000_000  # to count those of thousands of readers takes milliseconds


class Counter(Protocol):
    """A stage that counts the samples of sources, or their sizes, itself."""

    def add_counts(self, counts: Counts) -> None:
        """Add what was yielded since the last call."""


class SampleCounts:
    """The counts of the stages of a worker.

    Attributes:
        skipped: The lanes and inputs with skipped items that are not counted.
    """

    def __init__(self) -> None:
        self.skipped: list[SkippedItems] = []
        self._counters: list[weakref.ref[Counter]] = []
        self._dropped: list[tuple[Mapping[str, int], dict[str, int]]] = []  # of lanes, and those that are counted
        self._next = NextTurn(_MISSING)

    def add_counter(self, counter: Counter) -> None:
        """Add the counts of a stage to those of the worker. The stage is not kept alive."""
        self._counters.append(weakref.ref(counter))

    def add_dropped(self, dropped: Mapping[str, int]) -> None:
        """Count the samples that a lane drops, by reason: a counter that grows."""
        self._dropped.append((dropped, {}))

    def count(self, counts: Counts) -> None:
        """Add the samples and sizes that stages have counted, and the dropped samples, since the last call.

        Args:
            counts: Those of the worker's recorder, to which skipped items are added as well.
        """
        counters = [(reference, reference()) for reference in self._counters]
        for _, counter in counters:
            if counter is not None:
                counter.add_counts(counts)
        if any(counter is None for _, counter in counters):
            self._counters = [reference for reference, counter in counters if counter is not None]
        for skipped in [*self.skipped]:
            skipped.count()
        for dropped, known in self._dropped:
            if len(dropped) > len(known) or (dropped and dropped != known):
                for reason, samples in [*dropped.items()]:
                    more = samples - known.get(reason, 0)
                    counts.dropped[reason] = counts.dropped.get(reason, 0) + more
                    known[reason] = samples

    def count_if_due(self, counts: Counts, batches: int, now_ns: int) -> None:
        """Count, unless this was done a short time or few micro-batches before.

        Args:
            counts: Those of the worker.
            batches: The micro-batches that it has made.
            now_ns: The time.
        """
        if self._next.is_due(batches, now_ns):
            self.count(counts)
            wait_ns = int((perf_counter_ns() - now_ns) / _MAX_SHARE)
            self._next.begin_wait(batches, now_ns, wait_ns=min(wait_ns, _MAX_WAIT_NS))
