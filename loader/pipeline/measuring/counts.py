"""Counts of one worker: plain numbers that add up, and travel to the rank with its micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import add, attrgetter
from typing import Any, NamedTuple

STORAGE = "storage"
"""The activity of the reader: locate samples and read their bytes, or wait until they are fetched."""

DECODE = "decode"
"""The activity that decodes parts and builds samples."""


class SourceCounts(NamedTuple):
    """Counts of one source.

    Attributes:
        samples: Samples that were read, or passed over because they are excluded.
        size_bytes: Bytes of their parts.
        repeats: Those of a second or later epoch.
        excluded: Those that are excluded.
        dropped: Those that a hook skipped or failed for, as far as their source is known.
    """

    samples: int = 0
    size_bytes: int = 0
    repeats: int = 0
    excluded: int = 0
    dropped: int = 0

    def plus(self, other: Iterable[int]) -> SourceCounts:
        """Return the sum."""
        return SourceCounts(*map(add, self, other))


class Event(NamedTuple):
    """One call in the trace of a worker; times are those of ``time.perf_counter_ns``."""

    name: str
    begin_ns: int
    duration_ns: int


PackedCounts = tuple[tuple[int, ...], dict[str, Any]]
"""Counts in a message: the numbers, and the collections that are not empty, by name. Plain tuples and dicts pickle in a
tenth of the time of objects."""


class Counts:
    """Counts and times of a worker.

    Attributes:
        batches: Micro-batches that it made.
        make_ns: Time to make them.
        transport_ns: Time to pack them for the rank.
        idle_ns: Time in which it waited for the rank: for a request, or for space in the pipe.
        timed: Micro-batches whose activities were timed.
        timed_ns: Time to make these, without the activities that are always timed.
        activities: Of ``timed_ns``, the time of each activity by name.
        always: Time of the activities that are always timed, by name; part of ``make_ns``.
        cost_ns: Estimated time that measuring itself took.
        sources: By the number of a source.
        dropped: Samples that were skipped, by reason.
        sizes: By metric and number of a source: its sum over the measured samples, and their number.
        exact_sizes: By metric and number of a source: its sum over the items that a blend has yielded, if the blend
            measures each.
        events: Calls while a trace is recorded.
    """

    __slots__ = (
        "activities",
        "always",
        "batches",
        "cost_ns",
        "dropped",
        "events",
        "exact_sizes",
        "idle_ns",
        "make_ns",
        "sizes",
        "sources",
        "timed",
        "timed_ns",
        "transport_ns",
    )

    def __init__(self) -> None:
        self.batches = self.make_ns = self.transport_ns = self.idle_ns = 0
        self.timed = self.timed_ns = self.cost_ns = 0
        self.activities: dict[str, int] = {}
        self.always: dict[str, int] = {}
        self.sources: dict[int, SourceCounts] = {}
        self.dropped: dict[str, int] = {}
        self.sizes: dict[tuple[str, int], tuple[float, int]] = {}
        self.exact_sizes: dict[tuple[str, int], float] = {}
        self.events: list[Event] = []

    def packed(self) -> PackedCounts:
        """Return the counts as they travel to the rank."""
        found: dict[str, Any] = {
            name: values for name, values in zip(_COLLECTIONS, _collections_of(self), strict=True) if values
        }
        if self.sources:
            found["sources"] = {source: tuple(counts) for source, counts in self.sources.items()}
        return _numbers_of(self), found

    def add_packed(self, packed: PackedCounts) -> None:
        """Add the counts of a later time, which were packed."""
        numbers, collections = packed
        for name, number in zip(_NUMBERS, numbers, strict=True):
            if number:
                setattr(self, name, getattr(self, name) + number)
        for name, values in collections.items():
            if name == "sources":
                for source, counts in values.items():
                    self.add_source(source, counts)
            elif name == "sizes":
                for (unit, source), (total, samples) in values.items():
                    self.add_size(unit, source, total, samples)
            elif name == "events":
                self.events += values
            else:
                add_numbers(getattr(self, name), values)

    def add_but_events(self, other: Counts) -> None:
        """Add other counts, without their events."""
        numbers, collections = other.packed()
        collections.pop("events", None)
        self.add_packed((numbers, collections))

    def add_source(self, source: int, counts: Iterable[int]) -> None:
        """Add the counts of a source."""
        self.sources[source] = self.sources.get(source, _NONE).plus(counts)

    def add_size(self, unit: str, source: int, total: float, samples: int) -> None:
        """Add the sizes of measured samples of a source."""
        known, measured = self.sizes.get((unit, source), (0.0, 0))
        self.sizes[unit, source] = known + total, measured + samples

    def add_exact_size(self, unit: str, source: int, total: float) -> None:
        """Add the sizes of samples of a source of which each is measured."""
        self.exact_sizes[unit, source] = self.exact_sizes.get((unit, source), 0.0) + total

    def total_sizes(self) -> tuple[dict[str, float], dict[int, dict[str, float]]]:
        """Return the sums of metrics over all samples that were kept, and those of each source.

        Sums that blends count are exact; they include what later hooks skip. Others are estimates: the mean size of the
        measured samples of a source is that of all its samples. The sum over all sources also has samples of which none
        of the same source was measured, or whose source is not known, with the mean of all.
        """
        kept = {number: one.samples - one.excluded - one.dropped for number, one in self.sources.items()}
        unknown = sum(one.dropped for one in self.sources.values()) - sum(self.dropped.values())  # 0 or less
        totals: dict[str, float] = {}
        by_source: dict[int, dict[str, float]] = {}
        for unit in dict.fromkeys(unit for unit, _ in [*self.sizes, *self.exact_sizes]):
            measured = {source: size for (own, source), size in self.sizes.items() if own == unit}
            found = {source: size for (own, source), size in self.exact_sizes.items() if own == unit}
            for source, (size, number) in measured.items():
                if number and source in kept:
                    found.setdefault(source, size / number * max(0, kept[source]))
            total, samples = (sum(column) for column in zip(*measured.values(), (0, 0), strict=True))
            if not samples and not found:
                continue
            for source, size in found.items():
                by_source.setdefault(source, {})[unit] = size
            rest = sum(kept.values()) + min(0, unknown) - sum(kept.get(source, 0) for source in found)
            totals[unit] = sum(found.values()) + (total / samples * max(0, rest) if samples else 0.0)
        return totals, by_source

    def times(self) -> dict[str, float]:
        """Return the seconds of each activity, extrapolated from the timed micro-batches, and those of the rest.

        The sum is that of ``make_ns``. The rest, ``"other"``, is the pipeline's own work.
        """
        found: dict[str, float] = dict(self.always)
        rest = max(0, self.make_ns - sum(self.always.values()))
        if self.timed_ns > 0:
            factor = rest / max(self.timed_ns, sum(self.activities.values()))
            add_numbers(found, {name: ns * factor for name, ns in self.activities.items()})
        found["other"] = max(0.0, self.make_ns - sum(found.values()))
        return {name: ns / 1e9 for name, ns in found.items()}


_NUMBERS = ("batches", "make_ns", "transport_ns", "idle_ns", "timed", "timed_ns", "cost_ns")
_COLLECTIONS = tuple(name for name in Counts.__slots__ if name not in _NUMBERS)
_numbers_of = attrgetter(*_NUMBERS)
_collections_of = attrgetter(*_COLLECTIONS)
_NONE = SourceCounts()


def add_numbers(mine: dict[Any, Any], more: Mapping[Any, float]) -> None:
    """Add numbers by name."""
    for name, number in more.items():
        mine[name] = mine.get(name, 0) + number
