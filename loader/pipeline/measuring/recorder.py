"""Measure the activities of a worker, each call in a sample of its micro-batches.

Timing a call costs about a microsecond, which is much for a hook that takes two. So the functions that stages call
are replaced by timed ones for a whole micro-batch, then restored: micro-batches that are not timed cost nothing more.
The interval between timed micro-batches follows from their calls and their duration.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from .counts import Counts, Event, PackedCounts, SourceCounts
from .item_sources import NO_SOURCE, Metric, Sizes, measure_items, samples_by_source

_CALL_NS = 1500  # of a timed call
_SWAP_NS = 3000  # to replace a function and restore it
_MAX_SHARE = 0.0005  # of a worker's time that may be spent on timed calls
_MAX_INTERVAL = 10_000  # micro-batches
_EARLY_SHARE = 0.5  # early in a run, the interval is about this share of the micro-batches before
_EARLY_COST = 0.01  # of a worker's time: early timing may cost as much
_SEND_EVERY_NS = 10_000_000  # packing, sending and adding counts takes up to 40 µs
_UNSENT = 1 / 32  # of the micro-batches of a worker, those whose counts are not sent yet
_MAX_EVENTS = 200_000  # of one worker on their way to the rank
_MAX_COUNT_SHARE = 0.001  # of a worker's time to count samples
_MISSING = 1 / 16  # of the micro-batches of a worker, those whose samples are not counted yet
_MAX_WAIT_NS = 2_000_000_000  # to count those of thousands of readers takes milliseconds


def register(
    lane: Any,
    name: str,
    owner: Any,
    attribute: str,
    *,
    sizes: Mapping[str, Metric] | None = None,
    result_sizes: Mapping[str, Metric] | None = None,
    noting: str | None = None,
) -> None:
    """Let the recorder of a lane time a function that a stage calls; without a recorder, do nothing.

    Args:
        lane: The lane.
        name: The activity.
        owner: The object that holds the function. It is not kept alive.
        attribute: The attribute that the owner calls. It must be one of the object, not of its class: to hide a method
            by an attribute would make every later access to the object slower.
        sizes: Metrics of the items in the list that is the function's argument; ``owner.item_id`` has their ids.
        result_sizes: Metrics of the function's result; its id ends the restore key that is the function's second
            argument, or is ``owner.item_id``.
        noting: An attribute of the owner that is True while it must set ``item_id``.
    """
    if lane.recorder is not None:
        function = _Function(name, weakref.ref(owner), attribute)
        if sizes or result_sizes:
            function.sizes = Sizes(lane, owner, sizes or result_sizes or {}, of_result=not sizes)
            function.noting = noting
        lane.recorder.add(lane.root_number, function)


def skipped_items(lane: Any) -> Any:
    """Return the collection to which a stage adds the ids of items that it skips."""
    if lane.recorder is None:
        return deque(maxlen=0)  # keeps nothing
    return SkippedItems(lane, lane.recorder.skipped)


@dataclass(slots=True, eq=False)
class _Function:
    """A function that a stage calls as an attribute of an object."""

    name: str
    owner: weakref.ref[Any]
    attribute: str
    sizes: Sizes | None = None
    noting: str | None = None


class WorkerRecorder:
    """Measures the micro-batches of one worker.

    Attributes:
        counts: The measurements since they were taken last.
        skipped: The lanes and inputs with skipped items that are not counted.
        until_timed: The lanes count it down with each micro-batch; from 0 on, they call :meth:`begin_timed`.
    """

    def __init__(
        self,
        counts: Counts | None = None,
        *,
        readers: Mapping[int, int] | None = None,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        self.skipped: list[SkippedItems] = []
        self._counters: list[weakref.ref[Any]] = []
        self._dropped: list[tuple[Mapping[str, int], dict[str, int]]] = []  # of lanes, and those that are counted
        self._next_count = NextTurn(_MISSING)
        self._readers = readers or {}
        self._is_traced = False
        self._traced_from_ns = 0
        self._functions: dict[int, list[_Function]] = {}  # by lane
        self._since_ns = perf_counter_ns()
        self._bundle_ns = 0  # when the last one was made
        self._next_send = NextTurn(_UNSENT)
        self._made = 0  # micro-batches
        self.until_timed = 1
        self._next_timed = 1  # the number of the next micro-batch that is timed
        self._cost_ns = 0  # of all that were timed
        self._jitter = 0
        self._begin_ns = 0
        self._nested_ns = 0  # of the timed calls inside of the running one
        self._always_ns = 0  # of the timed micro-batch
        self._calls = self._metrics_ns = 0
        self._timed_lane = -1
        self._swapped: list[tuple[Any, str, Any]] = []  # attributes to restore

    # ------------------------------------------------------------------------------------- what is measured

    def add(self, lane: int, function: _Function) -> None:
        """Time a function of a lane; see :func:`register`."""
        self._functions.setdefault(lane, []).append(function)
        if lane == self._timed_lane:
            self._swap(function)

    def first_source(self, definition: object) -> int:
        """Return the number of a reader's first source among the sources of the chain."""
        return self._readers.get(id(definition), 0)

    # ------------------------------------------------------------------------------------- micro-batches

    def follow(self, traced: bool) -> None:
        if traced != self._is_traced:
            self._is_traced = traced
            self._traced_from_ns = perf_counter_ns()
            self.until_timed = 1

    def take_bundle(self, batches: int, begin_ns: int, make_ns: int, *, is_last: bool) -> PackedCounts | None:
        """Add a bundle that a process or a thread has made, and return all measurements if it is time to send them.

        Args:
            batches: The micro-batches in the bundle. The rank counts them when they arrive.
            begin_ns: When the last bundle was packed. From then on, the worker sent it and waited for the rank.
            make_ns: When the worker began to make the micro-batches.
            is_last: No bundle follows: all samples are counted.
        """
        # Since the last bundle, the worker sent it, waited for the next request, and made this one.
        now_ns = perf_counter_ns()
        counts = self.counts
        self._made += batches
        counts.idle_ns += make_ns - begin_ns
        counts.make_ns += now_ns - make_ns
        transport_ns = begin_ns - self._bundle_ns if self._bundle_ns else 0  # of the last bundle
        counts.transport_ns += transport_ns
        if self._is_traced:
            self._note("transport", self._bundle_ns, transport_ns)
            self._note("idle", begin_ns, make_ns - begin_ns)
        self._bundle_ns = now_ns
        # Counts are sent now and then, since packing them takes time: when due, at the end, and always during a trace.
        if is_last:
            self.count_samples()
        elif self._is_traced or self._next_send.is_due(self._made, now_ns):
            self._next_send.begin_wait(self._made, now_ns, wait_ns=_SEND_EVERY_NS)
            if self._next_count.is_due(self._made, now_ns):
                self.count_samples()
                wait_ns = int((perf_counter_ns() - now_ns) / _MAX_COUNT_SHARE)
                self._next_count.begin_wait(self._made, now_ns, wait_ns=min(wait_ns, _MAX_WAIT_NS))
        else:
            return None
        self.counts = Counts()
        return counts.packed()

    def begin_timed(self, lane: int) -> None:
        self._calls = self._always_ns = self._nested_ns = self._metrics_ns = 0
        self._timed_lane = lane
        functions = self._functions.get(lane, [])
        # The references keep the owners while others are swapped, since garbage may be collected at any allocation.
        owners = [function.owner() for function in functions]
        if any(owner is None for owner in owners):
            functions = self._functions[lane] = [
                function for function, owner in zip(functions, owners, strict=True) if owner is not None
            ]
        for function in functions:
            self._swap(function)
        self._begin_ns = perf_counter_ns()

    def end_timed(self) -> None:
        # Restore the functions that were swapped for timed ones, so that the next micro-batches run at full speed.
        took_ns = perf_counter_ns() - self._begin_ns
        swapped, self._swapped, self._timed_lane = self._swapped, [], -1
        for owner, attribute, original in swapped:
            setattr(owner, attribute, original)
        # Count the time of the micro-batch, and separately what measuring it cost.
        counts = self.counts
        counts.timed += 1
        counts.timed_ns += max(0, took_ns - self._always_ns)
        cost_ns = self._calls * _CALL_NS + len(swapped) * _SWAP_NS + self._metrics_ns
        counts.cost_ns += cost_ns
        self._cost_ns += cost_ns
        # Time the next one after an interval that keeps the cost below a fixed share of the run.
        interval = min(_MAX_INTERVAL, self._early_interval(cost_ns), int(cost_ns / (_MAX_SHARE * max(1, took_ns))))
        interval = max(1, interval)
        if self._is_traced:
            interval = 1
            self._note("micro-batch", self._begin_ns, took_ns)
        if interval > 1:
            # A fixed interval could meet each time, or never, the micro-batch that reads a chunk.
            self._jitter = (self._jitter * 1103515245 + 12345) & 0x7FFFFFFF
            interval = interval // 2 + 1 + self._jitter % interval
        self.until_timed = interval
        self._next_timed += interval

    def _early_interval(self, cost_ns: int) -> int:
        """Return the longest interval until a micro-batch that costs as much, so that short runs are timed, too."""
        elapsed_ns = max(1, perf_counter_ns() - self._since_ns)
        too_much = (self._cost_ns + cost_ns) / (_EARLY_COST * elapsed_ns) - 1  # as a share of the time until now
        return int(max(_EARLY_SHARE, too_much) * self._next_timed) + 1

    def _swap(self, function: _Function) -> None:
        owner = function.owner()
        self._replace(owner, function.attribute, self._timed(getattr(owner, function.attribute), function))
        if function.noting is not None:
            self._replace(owner, function.noting, True)

    def _replace(self, owner: Any, attribute: str, value: Any) -> None:
        self._swapped.append((owner, attribute, getattr(owner, attribute)))
        setattr(owner, attribute, value)

    def _timed(self, call: Callable[..., Any], function: _Function) -> Callable[..., Any]:
        name, sizes = function.name, function.sizes

        def timed(*arguments: Any) -> Any:
            begin_ns = perf_counter_ns()
            # Timed calls nest: an activity counts without the activities inside of it.
            outer_ns, self._nested_ns = self._nested_ns, 0
            result: Any = None
            try:
                result = call(*arguments)
                return result
            finally:
                took_ns = perf_counter_ns() - begin_ns
                activities = self.counts.activities
                activities[name] = activities.get(name, 0) + took_ns - self._nested_ns
                self._nested_ns = outer_ns + took_ns
                self._calls += 1
                if self._is_traced:
                    self._note(name, begin_ns, took_ns)
                if sizes is not None:
                    self._measure(sizes, arguments, result)

        return timed

    def _measure(self, sizes: Sizes, arguments: Sequence[Any], result: Any) -> None:
        begin_ns = perf_counter_ns()
        measure_items(sizes, arguments, result, self.counts)
        took_ns = perf_counter_ns() - begin_ns
        self._nested_ns += took_ns
        self._metrics_ns += took_ns

    # ------------------------------------------------------------------------------------- always measured

    def add_always(self, name: str, begin_ns: int) -> None:
        """Add the time of a rare activity, from ``begin_ns`` to now; the timed calls around it do not count it."""
        took_ns = perf_counter_ns() - begin_ns
        always = self.counts.always
        always[name] = always.get(name, 0) + took_ns
        self._always_ns += took_ns
        self._nested_ns += took_ns
        if self._is_traced and self._timed_lane >= 0:
            self._note(name, begin_ns, took_ns)

    def _note(self, name: str, begin_ns: int, took_ns: int) -> None:
        end_ns, begin_ns = begin_ns + took_ns, max(begin_ns, self._traced_from_ns)
        if begin_ns < end_ns and len(self.counts.events) < _MAX_EVENTS:
            self.counts.events.append(Event(name, begin_ns, end_ns - begin_ns))

    # ------------------------------------------------------------------------------------- samples

    def add_counter(self, counter: Any) -> None:
        """Let ``counter.add_counts(counts)`` add what a stage counts itself. The stage is not kept alive."""
        self._counters.append(weakref.ref(counter))

    def add_dropped(self, dropped: Mapping[str, int]) -> None:
        self._dropped.append((dropped, {}))

    def count_samples(self) -> None:
        """Add the samples and sizes that stages have counted, and the dropped samples, since the last call."""
        # Ask the stages that still exist; forget the others.
        counts = self.counts
        counters = [(reference, reference()) for reference in self._counters]
        for _, counter in counters:
            if counter is not None:
                counter.add_counts(counts)
        if any(counter is None for _, counter in counters):
            self._counters = [reference for reference, counter in counters if counter is not None]
        for skipped in [*self.skipped]:
            skipped.count()
        # Lanes count what they dropped since their start: add what is new.
        for dropped, known in self._dropped:
            if len(dropped) > len(known) or (dropped and dropped != known):
                for reason, samples in [*dropped.items()]:
                    more = samples - known.get(reason, 0)
                    counts.dropped[reason] = counts.dropped.get(reason, 0) + more
                    known[reason] = samples


_EARLY_BATCHES = 128  # up to which each is a turn, so that the counts of short runs are exact


class NextTurn:
    """The next turn of something that is done from time to time: after a while, or some more micro-batches.

    A worker may make its first micro-batch in minutes, or many in the time of a short wait. So few micro-batches are
    missing at any time, whatever their rate is, and turns become rare in proportion.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._batches = self._ns = 0

    def is_due(self, batches: int, now_ns: int) -> bool:
        return now_ns >= self._ns or batches >= self._batches

    def begin_wait(self, batches: int, now_ns: int, *, wait_ns: int) -> None:
        self._ns = now_ns + wait_ns
        self._batches = batches if batches < _EARLY_BATCHES else batches + int(self._share * batches)


_MAX_ITEMS = 2048  # that are not counted


class SkippedItems:
    """The ids of the items that stages of a lane skipped since they were counted last.

    Args:
        lane: The lane. It is not kept alive.
    """

    def __init__(self, lane: Any, waiting: list[SkippedItems]) -> None:
        self._lane = weakref.ref(lane)
        self._waiting = waiting
        self._item_ids: list[Any] = []

    def append(self, item_id: Any) -> None:
        item_ids = self._item_ids
        item_ids.append(item_id)
        if len(item_ids) == 1:
            self._waiting.append(self)
        elif len(item_ids) >= _MAX_ITEMS:
            self.count()

    def count(self) -> None:
        item_ids, lane = self._item_ids, self._lane()
        self._item_ids = []
        if self in self._waiting:
            self._waiting.remove(self)
        if lane is None or lane.recorder is None:
            return
        recorder: WorkerRecorder = lane.recorder
        for source, samples in samples_by_source(lane, item_ids).items():
            if source != NO_SOURCE:
                recorder.counts.add_source(source, SourceCounts(dropped=samples))
