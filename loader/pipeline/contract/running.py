"""The traits that a stage declares, the iterator that it opens for a lane, and the placeholder of skipped items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from .item_id import ItemId

State = dict[str, Any]
"""Plain data: dicts, lists, str, int, float, bool, None."""


class _Skipped:
    """Placeholder for a skipped item, which keeps the positions of later items known."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SKIPPED"

    def __reduce__(self) -> str:
        return "SKIPPED"  # unpickled as the object of the reading process


SKIPPED: Final = _Skipped()
"""Stages that map items pass it on; stages that join items drop it."""


class Running(Protocol):
    """Iterator of a stage over one lane."""

    def next(self) -> tuple[Any, ItemId]:
        """Return the next item, or :data:`SKIPPED`, and its id.

        Raises:
            StopIteration: The pass is over; raised again by each further call.
        """

    def state(self) -> State:
        """Return the state from which ``open`` resumes: one entry for each stage of the chain that has state."""

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item that this stage returned before; return :data:`SKIPPED` if it is skipped."""


@dataclass(slots=True, eq=False)
class RunningFunctions:
    """Iterator of a stage over one lane that consists of three functions; see :class:`Running`."""

    next: Callable[[], tuple[Any, ItemId]]
    state: Callable[[], State]
    load: Callable[[ItemId], Any]


@dataclass(frozen=True, slots=True)
class StageTraits:
    """Describe a stage, regardless of the stages around it.

    The defaults hold for each stage, so a stage declares only what improves on them.

    Attributes:
        one_to_one: Each input item makes exactly one item or :data:`.SKIPPED`, or each ``batches_of`` items one batch,
            so the length of a pass is known in advance.
        never_more: The stage makes at most one item for each input item of a lane, or one batch for each ``batches_of``
            of them, but for the last batch.
        batches_of: Items of a batch, B, of a stage that joins items.
        drop_last: A last batch of fewer than B items is dropped.
        commutes: The stage maps items one to one, so it may run in workers although stages below count on the rank.
        on_rank: The stage counts the micro-batches of a rank.
        buffers: The stage holds samples between items, so each lane takes memory.
        draws_random: The stage calls functions that may draw random numbers.
        endless: The stage repeats without end (True) or ends (False); None: as its inputs.
        starts_over: Each iteration of a loader starts a new pass, as in validation; None: as the inputs.
        nests_states: The entry of the stage in a state has the states of its inputs.
        unchanged: The stage yields each item of its input unchanged, so a restored run may add, omit or change it.
        ends: When a lane that shares a pass ends: ``"alone"``; ``"with_inputs"``; or ``"with_worker"``, when no lane of
            its worker has items for a batch left.
    """

    one_to_one: bool = False
    never_more: bool = False
    batches_of: int | None = None
    drop_last: bool = False
    commutes: bool = False
    on_rank: bool = False
    buffers: bool = False
    draws_random: bool = False
    endless: bool | None = None
    starts_over: bool | None = None
    nests_states: bool = False
    unchanged: bool = False
    ends: Literal["alone", "with_inputs", "with_worker"] = "alone"

    def items_of(self, items: int) -> int:
        """Return the number of items, or of batches, that the stage makes of a number of input items.

        >>> StageTraits(batches_of=4).items_of(10), StageTraits(batches_of=4, drop_last=True).items_of(10)
        (3, 2)
        """
        if self.batches_of is None:
            return items
        return items // self.batches_of if self.drop_last else -(-items // self.batches_of)
