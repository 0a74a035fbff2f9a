"""Counts of one worker: plain numbers that add up, and travel to the rank with its micro-batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import sqrt
from operator import add, attrgetter, sub
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import IntArray

STORAGE = "storage"
"""The activity of the reader: locate samples and read their bytes, or wait until they are fetched."""

DECODE = "decode"
"""The activity that decodes parts and builds samples."""


class SourceCounts(NamedTuple):
    """Counts of one source."""

    samples: int = 0  # samples that were read, or passed over because they are excluded
    size_bytes: int = 0  # bytes of their parts
    repeats: int = 0  # samples of a second or later epoch
    excluded: int = 0  # samples that are excluded
    dropped: int = 0  # those that a hook skipped or failed for, as far as their source is known

    def plus(self, other: Iterable[int]) -> SourceCounts:
        return SourceCounts(*map(add, self, other))


class CostSums(NamedTuple):
    """The planned costs of samples next to those that were measured, as sums over the measured samples."""

    samples: int = 0
    planned: float = 0.0
    measured: float = 0.0
    planned_squares: float = 0.0
    measured_squares: float = 0.0
    products: float = 0.0

    @property
    def bias(self) -> float:
        """The share by which measured costs exceed planned ones, below 0 if they are smaller; 0 without samples."""
        return self.measured / self.planned - 1 if self.planned else 0.0

    @property
    def correlation(self) -> float:
        """The correlation of planned and measured costs over samples; 1 if one of them never changes."""
        planned = self.samples * self.planned_squares - self.planned**2
        measured = self.samples * self.measured_squares - self.measured**2
        # Of equal costs, rounding leaves a rest.
        if planned <= _ROUNDING * self.planned**2 or measured <= _ROUNDING * self.measured**2:
            return 1.0
        return (self.samples * self.products - self.planned * self.measured) / sqrt(planned * measured)

    def plus(self, other: Iterable[float]) -> CostSums:
        return CostSums._make(map(add, self, other))

    def minus(self, other: Iterable[float]) -> CostSums:
        return CostSums._make(map(sub, self, other))


_ROUNDING = 1e-12  # of squares of sums: the error of sums of floats stays below it


class Event(NamedTuple):
    """One call in the trace of a worker; times as by ``time.perf_counter_ns``."""

    name: str
    begin_ns: int
    duration_ns: int


PackedCounts = tuple[tuple[int, ...], dict[str, Any]]
"""Counts in a message: the numbers, and the collections that are not empty, by name. Plain tuples and dicts pickle in a
tenth of the time of objects."""


@dataclass(slots=True, eq=False)
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
        costs: By planned cost and number of a source: the planned next to the measured costs.
        events: Calls while a trace is recorded.
    """

    batches: int = 0
    make_ns: int = 0
    transport_ns: int = 0
    idle_ns: int = 0
    timed: int = 0
    timed_ns: int = 0
    cost_ns: int = 0
    activities: dict[str, int] = field(default_factory=dict)
    always: dict[str, int] = field(default_factory=dict)
    sources: dict[int, SourceCounts] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    sizes: dict[tuple[str, int], tuple[float, int]] = field(default_factory=dict)
    exact_sizes: dict[tuple[str, int], float] = field(default_factory=dict)
    costs: dict[tuple[str, int], CostSums] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def packed(self) -> PackedCounts:
        """Return the counts as they travel to the rank."""
        fields: dict[str, Any] = {
            name: values for name, values in zip(_COLLECTIONS, _collections_of(self), strict=True) if values
        }
        if self.sources:
            fields["sources"] = {source: tuple(counts) for source, counts in self.sources.items()}
        if self.costs:
            fields["costs"] = {key: tuple(sums) for key, sums in self.costs.items()}
        return _numbers_of(self), fields

    def add_packed(self, packed: PackedCounts) -> None:
        """Add the counts of a later time, which were packed."""
        numbers, collections = packed
        for name, count in zip(_NUMBERS, numbers, strict=True):
            if count:
                setattr(self, name, getattr(self, name) + count)
        for name, values in collections.items():
            if name == "sources":
                for source, counts in values.items():
                    self.add_source(source, counts)
            elif name == "sizes":
                for (unit, source), (total, samples) in values.items():
                    self.add_size(unit, source, total, samples)
            elif name == "costs":
                for (cost, source), sums in values.items():
                    self.add_cost(cost, source, sums)
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
        self.sources[source] = self.sources.get(source, _NONE).plus(counts)

    def add_size(self, unit: str, source: int, total: float, samples: int) -> None:
        known, measured = self.sizes.get((unit, source), (0.0, 0))
        self.sizes[unit, source] = known + total, measured + samples

    def add_cost(self, cost: str, source: int, sums: Iterable[float]) -> None:
        self.costs[cost, source] = self.costs.get((cost, source), CostSums()).plus(sums)

    def add_exact_size(self, unit: str, source: int, total: float) -> None:
        self.exact_sizes[unit, source] = self.exact_sizes.get((unit, source), 0.0) + total

    def total_sizes(self) -> tuple[dict[str, float], dict[int, dict[str, float]]]:
        """Return the sums of metrics over all samples that were kept, in total and by source.

        Sums that blends count are exact; they include what later hooks skip. Other sums are estimates: all samples of a
        source count with the mean size of its measured samples. In the total, samples whose source is not known, or has
        no measured sample, count with the mean over all sources.
        """
        # The samples that were kept, by source; and the dropped ones whose source is not known.
        kept = {source: counts.samples - counts.excluded - counts.dropped for source, counts in self.sources.items()}
        unknown = sum(counts.dropped for counts in self.sources.values()) - sum(self.dropped.values())  # 0 or less
        totals: dict[str, float] = {}
        by_source: dict[int, dict[str, float]] = {}
        for unit in dict.fromkeys(unit for unit, _ in [*self.sizes, *self.exact_sizes]):
            # Exact sums first, then estimates of the sources that have only some measured samples.
            measured = {source: size for (name, source), size in self.sizes.items() if name == unit}
            sums = {source: size for (name, source), size in self.exact_sizes.items() if name == unit}
            for source, (size, samples) in measured.items():
                if samples and source in kept:
                    sums.setdefault(source, size / samples * max(0, kept[source]))
            # All other samples count with the mean over the measured ones of all sources.
            total, samples = (sum(column) for column in zip(*measured.values(), (0, 0), strict=True))
            if not samples and not sums:
                continue
            for source, size in sums.items():
                by_source.setdefault(source, {})[unit] = size
            rest = sum(kept.values()) + min(0, unknown) - sum(kept.get(source, 0) for source in sums)
            totals[unit] = sum(sums.values()) + (total / samples * max(0, rest) if samples else 0.0)
        return totals, by_source

    def times(self) -> dict[str, float]:
        """Return the seconds of each activity, extrapolated from the timed micro-batches.

        They add up to ``make_ns``: the rest is ``"other"``, the pipeline's own work.
        """
        times: dict[str, float] = dict(self.always)
        rest = max(0, self.make_ns - sum(self.always.values()))
        if self.timed_ns > 0:
            factor = rest / max(self.timed_ns, sum(self.activities.values()))
            add_numbers(times, {name: ns * factor for name, ns in self.activities.items()})
        times["other"] = max(0.0, self.make_ns - sum(times.values()))
        return {name: ns / 1e9 for name, ns in times.items()}


_NUMBERS = ("batches", "make_ns", "transport_ns", "idle_ns", "timed", "timed_ns", "cost_ns")
_COLLECTIONS = tuple(each.name for each in fields(Counts) if each.name not in _NUMBERS)
_numbers_of = attrgetter(*_NUMBERS)
_collections_of = attrgetter(*_COLLECTIONS)
_NONE = SourceCounts()


def add_numbers(mine: dict[Any, Any], more: Mapping[Any, float]) -> None:
    """Add numbers by name."""
    for name, amount in more.items():
        mine[name] = mine.get(name, 0) + amount


_MAX_WAITING = 4000  # samples of chunks that were not counted; their arrays take memory

_Columns = tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_] | None]
"""Columns of n samples, shape (n,) each: source, epoch, bytes (-1 if they are not one range), and whether the sample is
excluded (None instead of an array if no sample is)."""


class SourceCounter:
    """Counts the samples that a reader has yielded in one lane."""

    def __init__(self, first: int, position: int, mean_bytes: Callable[[int], int], *, sources: int) -> None:
        self._first = first
        self._is_one = sources == 1
        self._mean_bytes = mean_bytes
        self._counted = self._noted = position
        self._chunks: deque[tuple[range, _Columns]] = deque()  # with the positions of their samples

    def add_chunk(
        self,
        positions: range,
        source: IntArray,
        epoch: IntArray,
        size_bytes: IntArray,
        excluded: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Note the samples that follow; those that were noted before and did not come, since a read failed, go."""
        while self._chunks and self._chunks[-1][0].stop > positions.start:
            last, columns = self._chunks.pop()
            if last.start < positions.start:
                self._chunks.append((range(last.start, positions.start), columns))
        self._chunks.append((positions, (source, epoch, size_bytes, excluded)))
        self._noted = positions.stop

    @property
    def is_full(self) -> bool:
        return self._noted - self._counted > _MAX_WAITING

    def count(self, position: int, counts: Counts) -> None:
        """Add the samples that were yielded since the last call: those before ``position``."""
        columns: list[_Columns] = []
        # Collect the rows up to the position; the last chunk may be counted in parts.
        while self._counted < position and self._chunks:
            positions, (source, epoch, size_bytes, excluded) = self._chunks[0]
            stop = min(position, positions.stop)
            rows = slice(max(0, self._counted - positions.start), stop - positions.start)
            if rows.stop > rows.start:
                flags = None if excluded is None else excluded[rows]
                columns.append((source[rows], epoch[rows], size_bytes[rows], flags))
            self._counted = stop
            if stop == positions.stop:
                self._chunks.popleft()
        if columns:
            self._count(columns[0] if len(columns) == 1 else _joined(columns), counts)

    def _count(self, columns: _Columns, counts: Counts) -> None:
        source, epoch, size_bytes, excluded = columns
        # Samples whose size the index does not know count with the mean of their source.
        if size_bytes.min() < 0:
            size_bytes = self._known_sizes(source, size_bytes)
        # Most chunks have samples of a single source, and need no grouping.
        if self._is_one or (source == source[0]).all():
            totals = SourceCounts(
                len(source),
                int(size_bytes.sum()),
                int(np.count_nonzero(epoch)),
                0 if excluded is None else int(np.count_nonzero(excluded)),
            )
            counts.add_source(self._first + int(source[0]), totals)
            return
        # Otherwise, sum each column by source.
        numbers, row = np.unique(source, return_inverse=True)
        weights: list[Any] = [None, size_bytes, epoch > 0]
        sums = [np.bincount(row, column, minlength=len(numbers)).astype(int).tolist() for column in weights]
        skipped = [0] * len(numbers)
        if excluded is not None:
            skipped = np.bincount(row[excluded], minlength=len(numbers)).tolist()
        for source_number, *of_source in zip(numbers.tolist(), *sums, skipped, strict=True):
            counts.add_source(self._first + source_number, SourceCounts(*of_source))

    def _known_sizes(self, source: IntArray, size_bytes: IntArray) -> IntArray:
        known = size_bytes.copy()
        for source_number in set(source[size_bytes < 0].tolist()):
            known[(size_bytes < 0) & (source == source_number)] = self._mean_bytes(source_number)
        return known


def _joined(columns: list[_Columns]) -> _Columns:
    """Return the columns of several chunks as one each."""
    source, epoch, size_bytes = (np.concatenate([of_chunk[column] for of_chunk in columns]) for column in range(3))
    if all(excluded is None for _, _, _, excluded in columns):
        return source, epoch, size_bytes, None
    flags = [np.zeros(len(rows), dtype=bool) if excluded is None else excluded for rows, _, _, excluded in columns]
    return source, epoch, size_bytes, np.concatenate(flags)
