"""Find the sources of items by their ids, also above stages that blend chains, join items or take other lanes' items.

An id has the places of the inputs that lead to a sample, and its position in the lane's stream. So nothing is noted for
each sample: the sources of the few items in question are computed.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from types import GeneratorType
from typing import Any, NamedTuple

import numpy as np

from ...arrays import IntArray
from ...errors import StateError
from ...order import LaneOrder, PlannedLane
from .counts import Counts

Metric = Callable[[Any], Any]


class Sizes:
    """The metrics of the items that a function takes or makes.

    Args:
        lane: The lane. It is not kept alive.
        owner: The object that has the ids of the items as ``item_id``, unless the function's second argument is the
            restore key of its result, which ends with the id. It is not kept alive.
        of_result: They measure the function's result; otherwise the items of the list that is its argument.
    """

    def __init__(self, lane: Any, owner: Any, metrics: Mapping[str, Metric], *, of_result: bool) -> None:
        self._lane = weakref.ref(lane)
        self._owner = weakref.ref(owner)
        self.metrics = metrics
        self.of_result = of_result

    def samples(self, arguments: Sequence[Any]) -> list[list[ItemSample]]:
        lane, owner = self._lane(), self._owner()
        if lane is None or owner is None:
            return []
        if not self.of_result:
            return [[*samples_of(lane, item_id)] for item_id in owner.item_id]
        return [[*samples_of(lane, arguments[1][-1] if len(arguments) > 1 else owner.item_id)]]

    def planned(self, cost: str) -> list[float] | None:
        """Return the planned costs of the items; None if their groups are not planned by this cost."""
        lane, owner = self._lane(), self._owner()
        order: PlannedLane | None = None if lane is None else lane.shared.get(PlannedLane)
        # Of a planned group, the id of each item is its position in the lane.
        if order is None or owner is None or cost not in order.names or not all(type(n) is int for n in owner.item_id):
            return None
        costs: list[float] = order.costs_at(np.array(owner.item_id))[:, order.names.index(cost)].tolist()
        return costs


def number_of(size: Any) -> float:
    """Return the result of a metric as a float: a number, or a tensor or array with one element.

    Raises:
        TypeError, ValueError, RuntimeError: The result is not a number.
    """
    item = getattr(size, "item", None)
    return float(size if item is None else item())


def measure_items(sizes: Sizes, arguments: Sequence[Any], result: Any, counts: Counts) -> None:
    """Add the sizes of the items of a call to the counts of their sources; a pack's size is divided among its samples.

    Args:
        result: Its result; None if it failed.
    """
    if sizes.of_result and (result is None or isinstance(result, GeneratorType)):
        return
    items: Sequence[Any] = (result,) if sizes.of_result else arguments[0]
    samples = sizes.samples(arguments)
    for unit, metric in sizes.metrics.items():
        with suppress(Exception):  # a user's function that fails must not end a run that does not need it
            measured = [number_of(metric(item)) for item in items]
            if all(0 <= size < inf for size in measured):  # others, NaN among them, would spoil the sum of the run
                _add(unit, measured, samples, counts)
                _add_costs(unit, sizes.planned(unit) or [], measured, samples, counts)


def _add(unit: str, measured: Sequence[float], samples: Sequence[Sequence[ItemSample]], counts: Counts) -> None:
    totals: dict[int, list[float]] = {}
    for size, of_item in zip(measured, samples, strict=True):
        for source, is_first, _ in of_item:
            total = totals.setdefault(source, [0.0, 0])
            total[0] += size / len(of_item)
            total[1] += is_first
    for source, (total_size, count) in totals.items():
        counts.add_size(unit, source, total_size, int(count))


def _add_costs(
    cost: str,
    planned: Sequence[float],
    measured: Sequence[float],
    samples: Sequence[Sequence[ItemSample]],
    counts: Counts,
) -> None:
    for expected, size, [sample] in zip(planned, measured, samples, strict=False):
        sums = (1, expected, size, expected**2, size**2, expected * size)
        counts.add_cost(cost, sample.source, sums)


NO_SOURCE = -1
"""The source of samples whose source is not known: a user's dataset made them itself, for example."""

_LANE_ITEM = "lane"  # see loader.pipeline.contract.item_id


class ItemSample(NamedTuple):
    """A sample from which an item was made."""

    source: int  # the number of its source, or ``NO_SOURCE``
    is_first: bool = True  # False for the second and later items that a generator made of the sample
    readers: Any = None  # the ReaderSources of its lane


def samples_of(
    lane: Any, item_id: Any, lane_number: int | None = None, *, is_first: bool = True
) -> Iterator[ItemSample]:
    """Yield the samples of an item.

    Args:
        lane: The lane whose stages the id names.
        item_id: The id.
        lane_number: The lane of the item, which may be another one; None for ``lane``.
        is_first: See :class:`ItemSample`.
    """
    lane_number = lane.number if lane_number is None else lane_number
    # The id of a sample that was read is its position.
    if not isinstance(item_id, tuple):
        source = NO_SOURCE if lane.readers is None else lane.readers.at(lane_number, item_id)
        yield ItemSample(source, is_first, lane.readers)
    elif not item_id:
        return
    # A tuple without the key of a stage is a group, which consists of ids.
    elif not isinstance(item_id[0], str):
        for part in item_id:
            yield from samples_of(lane, part, lane_number, is_first=is_first)
    elif len(item_id) != 3:  # an item that a user's dataset made
        yield ItemSample(NO_SOURCE, is_first)
    # An item of another lane names that lane.
    elif item_id[0] == _LANE_ITEM:
        yield from samples_of(lane, item_id[2], item_id[1], is_first=is_first)
    # A stage with one input numbers the items that it makes of each input item.
    elif item_id[0] not in lane.inputs:
        yield from samples_of(lane, item_id[2], lane_number, is_first=is_first and item_id[1] == 0)
    else:
        child = lane.inputs[item_id[0]].get(item_id[1])
        if child is None:  # an earlier pass
            yield ItemSample(NO_SOURCE, is_first)
            return
        # Stages may rotate the lanes of an input, all of them by the same number.
        of_child = (lane_number + child.number - lane.number) % lane.count
        yield from samples_of(child, item_id[2], of_child, is_first=is_first)


def datasets_of(lane: Any, item_id: Any) -> Iterator[str]:
    """Yield the paths of the datasets of an item's samples, each once; none for samples of a user's own dataset."""
    sources = {(sample.readers, sample.source): None for sample in samples_of(lane, item_id)}
    known = (readers.dataset_paths(source) for readers, source in sources if source != NO_SOURCE)
    yield from dict.fromkeys(chain.from_iterable(known))


def samples_by_source(lane: Any, item_ids: Iterable[Any]) -> Counter[int]:
    """Return the numbers of the samples of some items, by source."""
    readers = lane.readers
    if readers is not None and readers.only is not None and all(type(item_id) is int for item_id in item_ids):
        return Counter({readers.only: sum(1 for _ in item_ids)})
    return Counter(sample.source for item_id in item_ids for sample in samples_of(lane, item_id))


_BLOCK = 256  # positions that are located together
_MAX_BLOCKS = 64  # that are kept; then all of them are dropped


class ReaderSources:
    """The sources of a reader's samples.

    Args:
        lane: The lane for which it is opened; it gives the seed of the order.
    """

    def __init__(self, reader: Any, lane: Any, *, first: int) -> None:
        self._reader = reader
        self._count, self._seed = lane.count, lane.seed
        self._first = first
        self.only = first if len(reader.sources) == 1 else None
        self._orders: dict[int, LaneOrder | None] = {}
        self._blocks: dict[tuple[int, int], list[int]] = {}

    def at(self, lane: int, position: int) -> int:
        """Return the number of the source of a sample; :data:`.NO_SOURCE` if it is not known."""
        if self.only is not None:
            return self.only
        block_number, row = divmod(position, _BLOCK)
        block = self._blocks.get((lane, block_number))
        if block is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            block = self._blocks[lane, block_number] = self._located(lane, block_number * _BLOCK)
        source = block[row] if row < len(block) else -1
        return NO_SOURCE if source < 0 else self._first + source  # negative: its dataset left the mix

    def dataset_paths(self, source: int) -> list[str]:
        """Return the path of the dataset with this number, or of each member if it is a join."""
        return [member.request.ref.path for member in self._reader.sources[source - self._first].members]

    def _located(self, lane: int, start: int) -> list[int]:
        if lane not in self._orders:
            self._orders[lane] = self._order(lane)
        order = self._orders[lane]
        if order is None:
            return []
        stop = start + _BLOCK if order.length is None else min(start + _BLOCK, order.length)
        source: IntArray = order.locate(start, stop)[0]
        sources: list[int] = source.tolist()
        return sources

    def _order(self, lane: int) -> LaneOrder | None:
        try:
            order: LaneOrder = self._reader.lane_order(lane, lanes=self._count, seed=self._seed)
        except StateError:  # the mix was edited, and this rank does not know where in that lane
            return None
        return order
