"""Run a blend whose weights are shares of a volume, which is counted item by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import ConfigError, SkipSample
from ...order import VolumeBlend, VolumeChange
from ..contract.item_id import ItemId, samples_in
from ..contract.lane import Lane, note_lost_item
from ..contract.stage import SKIPPED, Running, SavableDataset, State
from ..measuring.counts import Counts
from ..measuring.item_sources import datasets_of, number_of
from ..measuring.recorder import register, skipped_items
from ..reading.lane_samples import LaneSchedule

_EXACT = 1 << 53  # largest of the integers that all are floats

_MAX_SIZE = 1e15


class VolumeBlendRunning:
    """Iterator of one lane. An input is opened when its first item is due, so a state has only the used ones.

    Args:
        definition: The :class:`.BlendDataset`, whose module imports this one.
    """

    def __init__(self, definition: Any, lane: Lane, state: State) -> None:
        inputs = dict(zip(definition.origins, definition.inputs, strict=True))
        self._key: str = definition.key
        self._inputs: Mapping[int, SavableDataset[Any]] = inputs
        self._rows = {origin: row for row, origin in enumerate(inputs)}
        self._weights: Sequence[float] = definition.weights
        self._schedule = None if definition.schedule is None else LaneSchedule(definition.schedule, lane)
        self._stretch = 0  # the present one of the schedule
        self._saved_stretch: State | None = None
        self._metric: Callable[[Any], Any] = definition.size
        self._size = self._metric  # replaced while calls are timed
        self._unit = unit = definition.unit or ""
        self._edits: int = definition.edits  # number of changes of the mix before: volumes count from the last one on
        self._lane = lane
        self._failures = lane.failures
        self._skips = lane.failures.skips_of(self._metric, f"the metric {unit!r}")
        self._skipped = skipped_items(lane)
        self.item_id: ItemId = ()  # of the item that is measured
        if definition.counts_sizes:
            register(lane, f"size in {unit}", self, "_size", result_sizes={unit: number_of})
        entry = state.get(self._key, {})
        # States of the inputs; those of the running ones are replaced when a state is requested.
        self._states: dict[str, State] = {str(origin): entry[str(origin)] for origin in inputs if str(origin) in entry}
        self._running: dict[int, Running] = {}
        self._changed: dict[int, None] = {}  # inputs that were used since the last state, in the order of first use
        self._recorder = lane.recorder if definition.counts_volumes else None
        if self._recorder is not None:
            self._recorder.add_counter(self)
        self._ended: list[int] = [origin for origin in entry.get("ended", []) if origin in inputs]
        self._counts(entry if entry.get("edits", 0) == self._edits else {})
        if lane.neighbours is not None:
            lane.neighbours.add(lane.path, self)

    def _counts(self, entry: State) -> None:
        """Start to count, where the state stopped or at 0."""
        self._saved_stretch = None
        self._volumes: dict[int, tuple[Any, ...]] = {
            row[0]: tuple(row) for row in entry.get("volumes", ())
        }  # as of the last state
        # Number the inputs that have not ended: the blend knows them by these numbers.
        self._reported = {origin: float(volume) for origin, _, volume, _ in self._volumes.values()}
        self._left = [origin for origin in self._inputs if origin not in self._ended]
        self._places = places = {origin: row_number for row_number, origin in enumerate(self._left)}
        # Continue in the stretch of the schedule that the state names.
        changed = None
        if self._schedule is not None and (stretch := entry.get("stretch")) is not None:
            self._stretch = self._schedule.checked(stretch["number"])
            targets = {places[origin]: float(target) for origin, target in stretch["targets"] if origin in places}
            if stretch["items"]:
                changed = VolumeChange(float(stretch["total"]), stretch["items"], targets)
        weights = self._weights_of(self._stretch)
        if self._schedule is not None and not any(weights):  # a dataset has ended
            self._stretch = self._weighted(self._schedule, self._schedule.current())
            weights = self._weights_of(self._stretch)
        # Without an input that has a weight, the lane ends.
        self._blend = (
            VolumeBlend(
                weights,
                lane=self._lane.number,
                seed=self._lane.seed,
                origins=self._left,
                total=float(entry.get("total", 0)),
                volumes={
                    places[origin]: (items, float(volume), float(empty))
                    for origin, items, volume, empty in self._volumes.values()
                    if origin in places
                },
                changed=changed,
            )
            if any(weights)
            else None
        )

    def _weights_of(self, stretch: int) -> list[float]:
        weights = self._weights if self._schedule is None else self._schedule.weights[stretch]
        return [weights[self._rows[origin]] for origin in self._left]

    def _weighted(self, schedule: LaneSchedule, stretch: int) -> int:
        """Return the first stretch, from one on, in which an input that has not ended has a weight; else the last."""
        while stretch < schedule.last and not any(self._weights_of(stretch)):
            stretch += 1
        return stretch

    def _follow(self, schedule: LaneSchedule) -> None:
        if self._blend is None:
            return
        # Where a new stretch begins, the blend changes its weights.
        stretch = self._weighted(schedule, schedule.current())
        if stretch != self._stretch:
            self._stretch, self._saved_stretch = stretch, None
            weights = self._weights_of(stretch)
            if any(weights):
                self._blend.change(weights)
            else:
                self._report()
                self._blend = None  # the lane ends

    def next(self) -> tuple[Any, ItemId]:
        opened, changed = self._running, self._changed
        if self._schedule is not None and self._schedule.has_changed:
            self._follow(self._schedule)
        # Choose an input, and take its next item; an input that ends leaves the blend.
        while (blend := self._blend) is not None:
            left = self._left
            index = blend.choose()
            origin = left[index]
            changed[origin] = None
            try:
                value, item_id = (opened.get(origin) or self._open(origin)).next()
            except StopIteration:
                self._report()
                self._ended.append(origin)
                self._counts({})
                continue
            if value is SKIPPED:
                blend.count(index, 0.0)
                return value, (self._key, origin, item_id)
            # Measure the item: its size decides which inputs come next. Items that cannot be measured are skipped.
            self.item_id = whole_id = (self._key, origin, item_id)
            try:
                size = self._size(value)
            except Exception as error:
                self._skipped.append(whole_id)
                self._failed(error, value, whole_id)
                blend.count(index, 0.0)
                return SKIPPED, whole_id
            if self._skips.count or self._failures.pending:
                self._skips.count = 0
                self._failures.succeeded(self._metric, datasets_of(self._lane, whole_id))
            blend.count(
                index, float(size) if type(size) is int and 0 <= size <= _EXACT else checked_size(size, self._unit)
            )
            return value, whole_id
        raise StopIteration

    def _failed(self, error: Exception, value: Any, item_id: ItemId) -> None:
        """Count the failure of the metric for an item, which is skipped.

        Raises:
            RepeatedSampleError: The metric has skipped too many samples in a row.
        """
        if isinstance(error, ConfigError):
            raise error
        if isinstance(error, SkipSample):
            self._skips.add(samples_in(item_id))
        else:
            self._failures.failed(self._metric, error, value, datasets=datasets_of(self._lane, item_id))

    def _open(self, origin: int) -> Running:
        running = self._inputs[origin].open(self._lane.child(origin, self._key), self._states.get(str(origin), {}))
        self._running[origin] = running
        return running

    def reach(self, origin: int) -> None:
        """Open an input for another lane, if the run had opened it before its state was saved."""
        if str(origin) in self._states and origin not in self._running:
            self._open(origin)

    def _report(self) -> None:
        """Add the volumes to the statistics, before a dataset or the lane ends."""
        if self._recorder is not None:
            self.add_counts(self._recorder.counts)

    def add_counts(self, counts: Counts) -> None:
        """Add the volumes since the last call, of inputs that have one source."""
        lanes = self._lane.inputs.get(self._key, {})
        for origin, lane in lanes.items():
            source = None if lane.readers is None else lane.readers.only
            if source is not None and self._blend is not None and origin in self._places:
                _, volume, _ = self._blend.volume(self._places[origin])
                counts.add_exact_size(self._unit, source, volume - self._reported.get(origin, 0.0))
                self._reported[origin] = volume

    def state(self) -> State:
        """Return the volumes, and the states of the inputs that have been used.

        Only those that were used since the last call are asked: there may be thousands. Where lanes end, other lanes
        may take items of any of them, so that all are asked.
        """
        blend = self._blend
        for origin in self._changed if self._lane.neighbours is None else self._running:
            name, running = str(origin), self._running.get(origin)
            if running is not None:
                self._states[name] = running.state()
            if blend is not None and origin in self._places:
                counts = blend.volume(self._places[origin])
                if any(counts):
                    self._volumes[origin] = (origin, *counts)
        self._changed.clear()
        entry: State = {"total": 0 if blend is None else blend.total, "volumes": [*self._volumes.values()]}
        if self._schedule is not None and blend is not None:
            entry["stretch"] = self._stretch_state(blend)
        if self._edits:
            entry["edits"] = self._edits
        if self._ended:
            entry["ended"] = list(self._ended)
        return {self._key: entry | self._states}

    def _stretch_state(self, blend: VolumeBlend) -> State:
        """Return the stretch of the schedule and the counts at its start, which stay the same until the next one."""
        if self._saved_stretch is None:
            change = blend.changed or VolumeChange()
            targets = [[self._left[index], target] for index, target in change.targets.items()]
            self._saved_stretch = {"total": change.total, "items": change.items, "targets": targets}
        return {"number": self._stretch, **self._saved_stretch}

    def load(self, item_id: ItemId) -> Any:
        _, origin, inner = item_id  # type: ignore[misc] # ids of a blend are tuples
        if origin not in self._inputs:
            note_lost_item(self._lane)
            return SKIPPED
        return (self._running.get(origin) or self._open(origin)).load(inner)


def checked_size(size: Any, unit: str) -> float:
    """Return a size as a float."""
    try:
        checked = number_of(size)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):  # tensors raise a RuntimeError
        checked = -1.0
    if not 0 <= checked <= _MAX_SIZE:  # False for NaN
        raise ConfigError(
            f"expected the metric {unit!r} to return a number from 0 to {_MAX_SIZE:,.0f}, found {size!r}",
            hint="check the method with @sample_size_metric, or the function passed as size",
        )
    return checked
