"""The items that the stages of a lane skip, whose sources are found later, many at once."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from .counts import Counts, SourceCounts
from .item_sources import NO_SOURCE, MeasuredLane, samples_by_source

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
