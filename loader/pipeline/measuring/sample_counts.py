"""Collect the counts of samples that the stages of a worker keep, from time to time."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any, Protocol

from .counts import Counts, SourceCounts
from .item_sources import NO_SOURCE, MeasuredLane, samples_by_source

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


_EARLY_BATCHES = 128  # up to which each is a turn, so that the counts of short runs are exact


class NextTurn:
    """The next turn of something that is done from time to time: after a while, or some more micro-batches.

    A worker may make its first micro-batch in minutes, or many in the time of a short wait. So few micro-batches are
    missing at any time, whatever their rate is, and turns become rare in proportion.

    Args:
        share: Of the micro-batches until now, those that may be missing.
    """

    __slots__ = ("_batches", "_ns", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._batches = self._ns = 0

    def is_due(self, batches: int, now_ns: int) -> bool:
        """Check whether it is time, or enough micro-batches were made."""
        return now_ns >= self._ns or batches >= self._batches

    def begin_wait(self, batches: int, now_ns: int, *, wait_ns: int) -> None:
        """Wait for this time, or for more micro-batches."""
        self._ns = now_ns + wait_ns
        self._batches = batches if batches < _EARLY_BATCHES else batches + int(self._share * batches)


_MAX_ITEMS = 2048  # that are not counted


class _Recorder(Protocol):
    counts: Counts


class _Lane(MeasuredLane, Protocol):
    recorder: Any


class SkippedItems:
    """The ids of the items that stages of a lane skipped since they were counted last.

    Args:
        lane: The lane. It is not kept alive.
        waiting: To which it adds itself with the first id.
    """

    __slots__ = ("_item_ids", "_lane", "_waiting")

    def __init__(self, lane: _Lane, waiting: list[SkippedItems]) -> None:
        self._lane = weakref.ref(lane)
        self._waiting = waiting
        self._item_ids: list[Any] = []

    def append(self, item_id: Any) -> None:
        """Add the id of an item."""
        item_ids = self._item_ids
        item_ids.append(item_id)
        if len(item_ids) == 1:
            self._waiting.append(self)
        elif len(item_ids) >= _MAX_ITEMS:
            self.count()

    def count(self) -> None:
        """Count the samples of the items by their sources, and forget the items."""
        item_ids, lane = self._item_ids, self._lane()
        self._item_ids = []
        if self in self._waiting:
            self._waiting.remove(self)
        if lane is None or lane.recorder is None:
            return
        recorder: _Recorder = lane.recorder
        for source, samples in samples_by_source(lane, item_ids).items():
            if source != NO_SOURCE:
                recorder.counts.add_source(source, SourceCounts(dropped=samples))
