"""Lanes, the logical sample streams of a run, and the ids of the items in them.

An item id identifies an item within its lane, and is enough to rebuild the item. It consists of integers:

=====================================  ======================================================================
``position``                           a sample: its place in the lane's stream
``(stage, k, item_id)``                the k-th item that a generator made of another item, or an item of the
                                       k-th of several inputs
``(item_id, item_id, …)``              several items joined: a batch, a pack
``("lane", number, item_id)``          an item of another lane, in a batch or pack at the end of a pass
=====================================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ...order import mix
from ...samples.hooks import HookContext
from ..failures.error_handlers import reraise_exception
from ..failures.policy import FailurePolicy

__all__ = [
    "LANE_ITEM",
    "RULES",
    "ItemId",
    "Lane",
    "LastSample",
    "Neighbours",
    "as_item_id",
    "integers_of",
    "plain_item_id",
    "position_of",
    "sample_index_of",
    "samples_in",
    "set_restore_key",
]

ItemId = int | tuple[Any, ...]

LANE_ITEM = "lane"
"""The first part of the id of an item of another lane. Keys of stages start with a digit, so they differ."""

RULES = 1
"""The rules by which a new run orders and joins samples, saved in its states. A restored run keeps its rules.

0 is the rules of states without a number: each lane of a pass ends alone, skipped samples make the batches of a plain
pass smaller, and an order that is not shuffled is split into one part per lane.
"""

_CHILD = 20  # separates the seeds of children from other seeds


class LastSample(Protocol):
    """Breadcrumb for reports of crashes and hangs: the sample that this worker started last."""

    @property
    def note_position(self) -> Callable[[int], Any]:
        """Function that records the position of a sample; called before each sample."""

    def note_lane(self, lane: int) -> None:
        """Record the lane of the positions that follow."""


class _NoLastSample:
    note_position = bool  # the cheapest function of one integer

    def note_lane(self, lane: int) -> None:
        """Do nothing."""


class Neighbours(Protocol):
    """The lanes that one worker hosts, seen from one of them."""

    @property
    def number(self) -> int:
        """The lane."""

    def add(self, stage: str, own: Any) -> None:
        """Register the :class:`~loader.pipeline.contract.lane_input.LaneInput` of a stage of this lane."""

    def others(self, stage: str) -> Iterator[Any]:
        """Yield the inputs of the same stage in the other lanes, each opened when it is reached."""

    def note_change(self) -> None:
        """Note that another lane took items of this one, so that both states are sent."""


class Lane:
    """A lane, and what the stages of its chain share.

    Args:
        number: The lane, in ``[0, count)``.
        count: L, the lanes of the run.
        seed: Of the run; each of several inputs has another seed.
        failures: Policy for samples that fail.
        context: The batch and sample that hooks can query.
        last_sample: Records the position of each sample before it is read.
        restore_error_handler: Called for samples that fail while a state is restored.
        path: Places of the inputs that lead to this stage, outermost first: ``"1/0/"``.
        neighbours: The other lanes of the worker, whose items complete the last batch of this one; None if the lane
            ends alone.
        rules: The rules of the run.
    """

    __slots__ = (
        "context",
        "count",
        "failures",
        "last_sample",
        "neighbours",
        "number",
        "path",
        "restore_error_handler",
        "rules",
        "seed",
    )

    def __init__(
        self,
        number: int,
        count: int,
        *,
        seed: int,
        failures: FailurePolicy,
        context: HookContext | None = None,
        last_sample: LastSample | None = None,
        restore_error_handler: Callable[[Exception, Any, Any], None] = reraise_exception,
        path: str = "",
        neighbours: Neighbours | None = None,
        rules: int = RULES,
    ) -> None:
        self.number = number
        self.count = count
        self.restore_error_handler = restore_error_handler
        self.path = path
        self.seed = seed
        self.failures = failures
        self.context = context or HookContext()
        self.last_sample: LastSample = last_sample or _NoLastSample()
        self.neighbours = neighbours
        self.rules = rules

    def child(self, place: int) -> Lane:
        """Return the lane for the ``place``-th of several inputs: with another seed, and a longer path."""
        return Lane(
            self.number,
            self.count,
            seed=int(mix(self.seed, _CHILD, place)),
            failures=self.failures,
            context=self.context,
            last_sample=self.last_sample,
            restore_error_handler=self.restore_error_handler,
            path=f"{self.path}{place}/",
            neighbours=self.neighbours,
            rules=self.rules,
        )

    def sibling(self, number: int) -> Lane:
        """Return another lane of the run, to rebuild its items for this one."""
        return Lane(
            number,
            self.count,
            seed=self.seed,
            failures=self.failures,
            context=self.context,
            last_sample=self.last_sample,
            restore_error_handler=self.restore_error_handler,
            path=self.path,
            rules=self.rules,
        )


def plain_item_id(item_id: ItemId) -> Any:
    """Convert an item id to the nested lists that a state holds.

    >>> plain_item_id((7, (8, 9)))
    [7, [8, 9]]
    """
    return [plain_item_id(part) for part in item_id] if isinstance(item_id, tuple) else item_id


def as_item_id(saved: Any) -> Any:
    """Convert nested lists of a state to an item id; JSON has no tuples.

    >>> as_item_id([["2 encode_sample", 0, 7], 8])
    (('2 encode_sample', 0, 7), 8)
    """
    return tuple(as_item_id(part) for part in saved) if isinstance(saved, list | tuple) else saved


def position_of(item_id: ItemId) -> int:
    """Return the position of an item's first sample in the lane's stream; -1 if the item has no samples.

    >>> position_of((("2 encode_sample", 0, 7), 8))
    7
    """
    while isinstance(item_id, tuple):
        if not item_id:
            return -1
        item_id = item_id[2] if isinstance(item_id[0], str) else item_id[0]
    return item_id


def sample_index_of(item_id: ItemId, lane: int, lanes: int) -> int:
    """Return the number, unique in the run, of an item's first sample.

    >>> sample_index_of(7, 2, 48), sample_index_of((("lane", 3, 7), 8), 2, 48)
    (338, 339)
    """
    while isinstance(item_id, tuple):
        if not item_id:
            return lane - lanes
        if isinstance(item_id[0], str):
            lane = item_id[1] if item_id[0] == LANE_ITEM else lane
            item_id = item_id[2]
        else:
            item_id = item_id[0]
    return item_id * lanes + lane


def samples_in(item_id: ItemId) -> int:
    """Return the number of samples that an item was made of.

    >>> samples_in((("2 encode_sample", 0, 7), 8))
    2
    """
    if not isinstance(item_id, tuple):
        return 1
    if item_id and isinstance(item_id[0], str):
        return samples_in(item_id[2])
    return sum(map(samples_in, item_id))


def integers_of(item_id: ItemId) -> Iterator[int]:
    """Yield integers that no other item of the same stage has: a seed for its random numbers."""
    if isinstance(item_id, tuple):
        yield len(item_id)
        for part in item_id:
            if not isinstance(part, str):
                yield from integers_of(part)
    else:
        yield item_id


def set_restore_key(value: Any, stage: str, lane: Lane, item_id: ItemId) -> None:
    """Set ``__restore_key__`` of an item to ``(stage, lane, micro-batch, item_id)``.

    Only samples, batches and dicts that have a ``__restore_key__`` are changed.
    """
    if type(value) is list:
        return  # the most frequent batch; a list has no attributes
    if isinstance(value, dict):
        if "__restore_key__" in value:
            value["__restore_key__"] = (stage, lane.number, lane.context.batch_index, item_id)
    elif hasattr(value, "__restore_key__"):
        key = (stage, lane.number, lane.context.batch_index, item_id)
        try:
            value.__restore_key__ = key
        except AttributeError:  # a frozen dataclass, whose __init__ sets its fields in the same way
            object.__setattr__(value, "__restore_key__", key)
