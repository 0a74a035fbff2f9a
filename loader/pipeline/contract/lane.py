"""Lanes, the logical sample streams of a run: what the stages of a lane share, and the input of stages that join items.

Where a lane ends, the other lanes of the same worker follow, so that at most one batch of a worker is short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Protocol

from ...errors import EnergonError, SkipSample, StateError
from ...format.documents.messages import short_repr
from ...order import mix
from ...samples.hooks import HookContext, set_hook_context
from ..failures.policy import FailurePolicy
from ..measuring.item_sources import ReaderSources
from ..measuring.recorder import WorkerRecorder
from .item_id import LANE_ITEM, ItemId, as_item_id, integers_of, plain_item_id
from .rng import preserve_rng_state, seed_sample
from .running import SKIPPED, Running, State

_NOT_BUILT: Final = object()
_LOST: Final = "lost items"


class BufferedItem:
    """An item in a buffer.

    Args:
        item_id: Its id.
        batch: The micro-batch during which it was made; hooks that rebuild it see the same. A state therefore has it.
        value: The item; omitted if it has to be rebuilt.
    """

    __slots__ = ("_value", "batch", "item_id")

    def __init__(self, item_id: ItemId, batch: int | None, value: Any = _NOT_BUILT) -> None:
        self.item_id = item_id
        self.batch = batch
        self._value = value

    @classmethod
    def from_state(cls, saved: Any) -> BufferedItem:
        """Create an item from the result of :meth:`to_state`."""
        item_id, batch = saved
        return cls(as_item_id(item_id), batch)

    def to_state(self) -> list[Any]:
        """Return the item's id and micro-batch as plain data."""
        return [plain_item_id(self.item_id), self.batch]

    def of_lane(self, lane: int) -> BufferedItem:
        """Return the item with the id that it has in other lanes than its own."""
        item_id = self.item_id
        if not (isinstance(item_id, tuple) and item_id and item_id[0] == LANE_ITEM):
            item_id = (LANE_ITEM, lane, item_id)
        return BufferedItem(item_id, self.batch, self._value)

    def value(self, upstream: Any, lane: Lane) -> Any:
        """Return the item; :data:`SKIPPED` if it cannot be rebuilt and the error is tolerated.

        Args:
            upstream: The stage that made it.
            lane: The lane.
        """
        if self._value is _NOT_BUILT:
            context = lane.context
            current, context.batch_index = context.batch_index, self.batch
            try:
                self._value = rebuild_item(upstream, lane, self.item_id)
            finally:
                context.batch_index = current
        return self._value


def rebuild_item(upstream: Any, lane: Lane, item_id: ItemId) -> Any:
    """Rebuild an item, and restore the random generators; return :data:`SKIPPED` if a failure is tolerated."""
    # Seed as when the item was made; the caller's generators stay as they are.
    with preserve_rng_state(), lane.context.seeded_rng(lane.seed, lane.number, *integers_of(item_id)):
        seed_sample(lane.seed, lane.number, item_id)
        try:
            return upstream.load(item_id)
        except SkipSample:
            return SKIPPED
        except Exception as error:
            if isinstance(error, StateError):
                error.at = error.at or f"lane {lane.number} of the state: item {short_repr(plain_item_id(item_id))}"
            elif not isinstance(error, EnergonError):
                error.add_note(
                    f"This happened while item {plain_item_id(item_id)} of lane {lane.number} was rebuilt for a "
                    "restored state. If no hook raised it, the state is damaged: restore an earlier one."
                )
            lane.failures.failed_to_rebuild(error)
            return SKIPPED


def note_lost_item(lane: Lane) -> None:
    """Note that an item cannot be rebuilt, since its dataset left the mix."""
    lane.shared[_LOST] = lost_items(lane) + 1


def lost_items(lane: Lane) -> int:
    """Return the number of items that could not be rebuilt, since their datasets left the mix."""
    lost: int = lane.shared.get(_LOST, 0)
    return lost


_CHILD = 20  # separates the seeds of children from other seeds


class LastSample(Protocol):
    """Breadcrumb for reports of crashes and hangs: the sample that this worker started last."""

    def note_positions_at(self, path: str) -> Callable[[int], Any]:
        """Return the function that a reader calls before each sample, with its position."""

    def note_lane(self, lane: int) -> None:
        """Record the lane of the positions that follow."""

    def note_hook(self, lane: int) -> None:
        """Record that a lane calls a hook for several samples at once."""


class _NoLastSample:
    def note_positions_at(self, path: str) -> Callable[[int], Any]:  # noqa: ARG002 - none is recorded
        return bool  # the cheapest function of one integer

    def note_lane(self, lane: int) -> None:
        """Do nothing."""

    note_hook = note_lane


NO_LAST_SAMPLE: LastSample = _NoLastSample()


class Neighbours(Protocol):
    """The lanes that one worker hosts, seen from one of them."""

    @property
    def number(self) -> int:
        """The lane."""

    @property
    def count(self) -> int:
        """The number of the other lanes."""

    def add(self, stage: str, sources: Any) -> None:
        """Register the :class:`LaneInput` of a stage of this lane.

        A stage that opens one of several passes or datasets at a time registers itself by its path, which ends in
        ``/`` or is empty; its method ``reach(place)`` opens a later one, if the lane may already yield its items.
        """

    def others(self, stage: str) -> Iterator[Any]:
        """Yield what the same stage registered in the other lanes, each opened when it is reached."""

    def note_change(self) -> None:
        """Note that another lane took items of this one, so that both states are sent."""


@dataclass(eq=False)
class Lane:
    """A lane, and what the stages of its chain share.

    Args:
        number: The lane, in ``[0, count)``.
        count: L, the lanes of the run.
        seed: Of the run; each of several inputs has another seed.
        failures: Policy for samples that fail.
        context: The batch and sample that hooks can query.
        last_sample: Records the position of each sample before it is read.
        path: Places of the inputs that lead to this stage, outermost first: ``"1/0/"``.
        neighbours: The other lanes of the worker, whose items complete the last batch of this one; None if the lane
            ends alone.
        recorder: Measures what the stages do; None if nothing is measured.
        deals: The lanes of the run take micro-batches of its only source in turn, if it is small.

    Attributes:
        shared: Objects that stages of the chain share, by their types.
        root_number: The number of the lane of the run; stages rotate the lanes of inputs and passes.
        readers: The sources of the samples of this lane's reader; None if inputs have readers.
        inputs: By key of a stage that opens several inputs or passes: their lanes.
        shares_pass: Where the lane ends before others of its worker, it makes whole batches of their items. So the
            worker finishes a repeated pass before it begins the next.
    """

    number: int
    count: int
    _: KW_ONLY
    seed: int
    failures: FailurePolicy
    context: HookContext = field(default_factory=HookContext)
    last_sample: LastSample = NO_LAST_SAMPLE
    path: str = ""
    neighbours: Neighbours | None = None
    recorder: WorkerRecorder | None = None
    deals: bool = False
    root_number: int = field(init=False)
    readers: ReaderSources | None = field(default=None, init=False)
    inputs: dict[str, dict[int, Lane]] = field(default_factory=dict, init=False)
    shared: dict[Any, Any] = field(default_factory=dict, init=False)
    shares_pass: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.root_number = self.number

    def child(self, origin: int, key: str | None = None) -> Lane:
        """Return the lane for the ``origin``-th of several inputs: with another seed, and a longer path."""
        child = copy(self)
        child.seed = child_seed(self.seed, origin)
        child.path = f"{self.path}{origin}/"
        child.readers, child.inputs = None, {}
        if key is not None:
            self.inputs.setdefault(key, {})[origin] = child
        return child

    def alone(self) -> Lane:
        """Return the lane for a stage that is opened next to the running one, to rebuild items or look ahead.

        Other lanes must not take samples from such a stage.
        """
        return self.sibling(self.number)

    def sibling(self, lane: int) -> Lane:
        other = copy(self)
        other.number = other.root_number = lane
        other.shared, other.inputs, other.shares_pass = {}, {}, False
        other.neighbours = other.recorder = other.readers = None
        return other


def child_seed(seed: int, origin: int) -> int:
    """Return the seed of the ``origin``-th of several inputs."""
    return int(mix(seed, _CHILD, origin))


class LaneInput:
    """The input of a stage that joins items: a running stage of one lane, and of the lanes that follow it.

    A lane of a pass may end while the stage has too few items for a batch. The stage then takes the items that are
    missing from the other lanes of its worker. Their ids have the form ``("lane", number, item id)``.

    Args:
        dataset: The stage below.
        lane: The lane.
        state: The lane's state.
        stage: The path and key of the stage that joins items.

    Attributes:
        number: The number of the lane.
        next: Returns the next item of the lane itself.
        state: Returns the state of the lane itself.
        shares_pass: The stage makes whole batches of the items of other lanes, too.
        release: Set by stages that buffer items between calls of ``next``: empties the buffers, and returns lists of
            :class:`BufferedItem`.
    """

    def __init__(self, dataset: Any, lane: Lane, state: State, stage: str) -> None:
        self._dataset = dataset
        self._lane = lane
        self.number = lane.number
        self.shares_pass = lane.shares_pass
        self._stage = stage
        self._own: Running = dataset.open(lane, state)
        # The methods of the stage below, so that the samples of the lane itself cost no additional call.
        self.next: Callable[[], tuple[Any, ItemId]] = self._own.next
        self.state: Callable[[], State] = self._own.state
        self.release: Callable[[], list[list[Any]]] = list
        self._following: Iterator[LaneInput] | None = None
        self._current: LaneInput | None = None
        self._copies: dict[int, Running] = {}  # of other lanes, to rebuild their items
        if lane.neighbours is not None:
            lane.neighbours.add(stage, self)

    def fill(self, values: list[Any], item_ids: list[ItemId], size: int) -> None:
        """Append items to lists of values and ids until they have ``size`` items, or all lanes have ended.

        A lane that ends takes the missing items from the other lanes of the worker, if the lists have some already.
        """
        source_next, lane_ended = self.next, False
        while len(values) < size:
            try:
                value, item_id = source_next()
            except StopIteration:
                # Other lanes complete a batch that has begun; they begin one only where the lanes share a pass.
                if lane_ended or not (values or self.shares_pass):
                    return
                lane_ended, source_next = True, self.next_of_others
                continue
            if value is not SKIPPED:
                values.append(value)
                item_ids.append(item_id)

    def next_of_others(self) -> tuple[Any, ItemId]:
        """Return the next item of the other lanes of the worker.

        Raises:
            StopIteration: All of them have ended.
        """
        if self._following is None:
            self._following = self._others()
        while True:
            # Take from one lane after the other, each until it has no more items.
            if self._current is None:
                self._current = next(self._following, None)
            if self._current is None:
                self._following = None  # in a repeated pass, others may begin the same pass later
                raise StopIteration
            try:
                value, item_id = self._current.next_for(self._lane)
            except StopIteration:
                self._current = None
                continue
            return value, (LANE_ITEM, self._current.number, item_id)

    def released_by_others(self) -> list[list[Any]]:
        """Remove and return the items that the same stage buffers in the other lanes of the worker."""
        taken = []
        for other in self._others():
            groups = other.release()
            if groups:
                other.note_change()
                taken += [[item.of_lane(other.number) for item in group] for group in groups]
        return taken

    def _others(self) -> Iterator[LaneInput]:
        neighbours = self._lane.neighbours
        return iter(()) if neighbours is None else neighbours.others(self._stage)

    def next_for(self, taker: Lane) -> tuple[Any, ItemId]:
        """Return the next item of this lane, for a micro-batch of another one."""
        lane = self._lane
        self.note_change()
        # Hooks run in the lane that gives the item, for the micro-batch of the lane that takes it.
        current, lane.context.batch_index = lane.context.batch_index, taker.context.batch_index
        set_hook_context(lane.context)
        try:
            return self.next()
        finally:
            lane.context.batch_index = current
            set_hook_context(taker.context)
            if taker.neighbours is not None:
                taker.last_sample.note_lane(taker.neighbours.number)

    def note_change(self) -> None:
        """Note that another lane took items of this one."""
        lane = self._lane
        if lane.neighbours is not None:
            lane.neighbours.note_change()
            lane.last_sample.note_lane(lane.neighbours.number)

    def load(self, item_id: ItemId) -> Any:
        """Rebuild an item, of this lane or of another one."""
        if isinstance(item_id, tuple) and item_id and item_id[0] == LANE_ITEM:
            _, lane, item_id = item_id
            if lane != self._lane.number:
                if lane not in self._copies:
                    self._copies[lane] = self._dataset.open(self._lane.sibling(lane), {})
                return self._copies[lane].load(item_id)
        return self._own.load(item_id)


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
