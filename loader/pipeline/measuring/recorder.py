"""Measure the activities of a worker, each call in a sample of its micro-batches.

Timing a call costs about a microsecond, which is much for a hook that takes two. So the functions that stages call
are replaced by timed ones for a whole micro-batch, then restored: micro-batches that are not timed cost nothing more.
The interval between timed micro-batches follows from their calls and their duration.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

from .counts import Counts, Event, PackedCounts
from .item_sources import MeasuredLane
from .measured_sizes import Metric, Sizes, measure_items
from .skipped_items import SkippedItems

__all__ = ["Counter", "Measured", "WorkerRecorder", "register", "skipped_items"]

_CALL_NS = 1500  # of a timed call
_SWAP_NS = 3000  # to replace a function and restore it
_MAX_SHARE = 0.001  # of a worker's time that may be spent on timed calls
_MAX_INTERVAL = 10_000  # micro-batches
_MAX_COUNT_SHARE = 0.001  # of a worker's time to count samples
_SEND_COUNT_NS = 20_000  # to send the counts to the rank, and to add them there
_MAX_COUNT_WAIT_NS = 2_000_000_000  # to count those of thousands of readers takes milliseconds
_EARLY_BATCHES = 128  # after each of which samples are counted, so that short runs have exact counts
_MAX_EVENTS = 200_000  # of one worker on their way to the rank


class Measured(MeasuredLane, Protocol):
    """A lane, which knows the recorder of its worker."""

    recorder: WorkerRecorder | None


class Counter(Protocol):
    """A stage that counts the samples of sources, or their sizes, itself."""

    def add_counts(self, counts: Counts) -> None:
        """Add what was yielded since the last call."""


def register(
    lane: Measured,
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
        result_sizes: Metrics of the function's result; its id is the function's second argument, or ``owner.item_id``.
        noting: An attribute of the owner that is True while it must set ``item_id``.
    """
    if lane.recorder is not None:
        function = _Function(name, owner, attribute)
        if sizes or result_sizes:
            function.sizes = Sizes(lane, owner, sizes or result_sizes or {}, of_result=not sizes)
            function.noting = noting
        lane.recorder.add(lane.root_number, function)


def skipped_items(lane: Measured) -> Any:
    """Return the collection to which a stage adds the ids of items that it skips."""
    return _NO_ITEMS if lane.recorder is None else SkippedItems(lane, lane.recorder.skipped)


class _NoItems:
    def append(self, item: object) -> None:
        """Do nothing."""


_NO_ITEMS = _NoItems()


class _Function:
    """A function that a stage calls as an attribute of an object."""

    __slots__ = ("attribute", "name", "noting", "owner", "sizes")

    def __init__(self, name: str, owner: Any, attribute: str) -> None:
        self.name = name
        self.owner = weakref.ref(owner)
        self.attribute = attribute
        self.sizes: Sizes | None = None
        self.noting: str | None = None


class WorkerRecorder:
    """Measures the micro-batches of one worker.

    Args:
        counts: Where the measurements are added.
        readers: The number of the first source of each reader of the chain, by the reader's ``id``.

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
        self._readers = readers or {}
        self._is_traced = False
        self._functions: dict[int, list[_Function]] = {}  # by lane
        self._counters: list[weakref.ref[Counter]] = []
        self._dropped: list[tuple[Mapping[str, int], dict[str, int]]] = []  # of lanes, and those that are counted
        self._next_count_ns = 0
        self._made = 0  # micro-batches
        self.until_timed = 1
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

    def add_counter(self, counter: Counter) -> None:
        """Add the counts of a stage to those of the worker. The stage is not kept alive."""
        self._counters.append(weakref.ref(counter))

    def first_source(self, definition: object) -> int:
        """Return the number of a reader's first source among the sources of the chain."""
        return self._readers.get(id(definition), 0)

    def add_dropped(self, dropped: Mapping[str, int]) -> None:
        """Count the samples that a lane drops, by reason: a counter that grows."""
        self._dropped.append((dropped, {}))

    # ------------------------------------------------------------------------------------- micro-batches

    def follow(self, traced: bool) -> None:
        """Record each call of all micro-batches from now on, or no longer."""
        if traced != self._is_traced:
            self._is_traced = traced
            self.until_timed = 1

    def add_made(self, batches: int, begin_ns: int) -> None:
        """Add micro-batches that were made since ``begin_ns``."""
        self._made += batches
        self.counts.batches += batches
        self.counts.make_ns += perf_counter_ns() - begin_ns

    def begin_timed(self, lane: int) -> None:
        """Begin a micro-batch of a lane whose calls are timed."""
        self._calls = self._always_ns = self._nested_ns = self._metrics_ns = 0
        self._timed_lane = lane
        functions = self._functions.get(lane, [])
        if any(function.owner() is None for function in functions):
            functions = self._functions[lane] = [one for one in functions if one.owner() is not None]
        for function in functions:
            self._swap(function)
        self._begin_ns = perf_counter_ns()

    def end_timed(self) -> None:
        """End this micro-batch, also if it failed."""
        took_ns = perf_counter_ns() - self._begin_ns
        swapped, self._swapped, self._timed_lane = self._swapped, [], -1
        for owner, attribute, original in swapped:
            setattr(owner, attribute, original)
        counts = self.counts
        counts.timed += 1
        counts.timed_ns += max(0, took_ns - self._always_ns)
        cost_ns = self._calls * _CALL_NS + len(swapped) * _SWAP_NS + self._metrics_ns
        counts.cost_ns += cost_ns
        interval = min(_MAX_INTERVAL, max(1, int(cost_ns / (_MAX_SHARE * max(1, took_ns)))))
        if self._is_traced:
            interval = 1
            self._note("micro-batch", self._begin_ns, took_ns)
        if interval > 1:
            # A fixed interval could meet each time, or never, the micro-batch that reads a chunk.
            self._jitter = (self._jitter * 1103515245 + 12345) & 0x7FFFFFFF
            interval = interval // 2 + 1 + self._jitter % interval
        self.until_timed = interval

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
        """Measure items, apart from the activity that takes or makes them."""
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

    def add_idle(self, begin_ns: int) -> None:
        """Add a wait for the rank, from ``begin_ns`` to now."""
        took_ns = perf_counter_ns() - begin_ns
        self.counts.idle_ns += took_ns
        if self._is_traced:
            self._note("idle", begin_ns, took_ns)

    def add_transport(self, begin_ns: int) -> None:
        """Add the time in which micro-batches were packed for the rank, from ``begin_ns`` to now."""
        took_ns = perf_counter_ns() - begin_ns
        self.counts.transport_ns += took_ns
        if self._is_traced:
            self._note("transport", begin_ns, took_ns)

    def _note(self, name: str, begin_ns: int, took_ns: int) -> None:
        if len(self.counts.events) < _MAX_EVENTS:
            self.counts.events.append(Event(name, begin_ns, took_ns))

    # ------------------------------------------------------------------------------------- results

    def count_samples(self) -> None:
        """Add the samples and sizes that stages have counted, and the dropped samples, since the last call."""
        counters = [(reference, reference()) for reference in self._counters]
        for _, counter in counters:
            if counter is not None:
                counter.add_counts(self.counts)
        if any(counter is None for _, counter in counters):
            self._counters = [reference for reference, counter in counters if counter is not None]
        for skipped in [*self.skipped]:
            skipped.count()
        for dropped, known in self._dropped:
            if len(dropped) > len(known) or (dropped and dropped != known):
                for reason, samples in [*dropped.items()]:
                    more = samples - known.get(reason, 0)
                    self.counts.dropped[reason] = self.counts.dropped.get(reason, 0) + more
                    known[reason] = samples

    def count_samples_at_times(self) -> None:
        """Do the same, unless it was done a short time ago."""
        now_ns = perf_counter_ns()
        if now_ns >= self._next_count_ns:
            self.count_samples()
            if self._made >= _EARLY_BATCHES:
                wait_ns = int((perf_counter_ns() - now_ns + _SEND_COUNT_NS) / _MAX_COUNT_SHARE)
                self._next_count_ns = now_ns + min(wait_ns, _MAX_COUNT_WAIT_NS)

    def take(self, *, is_last: bool = False) -> PackedCounts:
        """Return the measurements since the last call; with ``is_last``, all samples are counted."""
        if is_last:
            self.count_samples()
        else:
            self.count_samples_at_times()
        taken, self.counts = self.counts, Counts()
        return taken.packed()
