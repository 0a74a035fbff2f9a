"""Run a user's dataset in a lane: a copy of it whose inner datasets belong to the lane."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import StateError, escape_controls
from ...samples.hooks import running_hook_context
from ..measuring.recorder import register
from .dataset_methods import BOUND, in_user_iteration, inherits_stage, replace_datasets
from .item_id import ItemId, as_item_id, position_of
from .lane import BufferedItem, Lane, set_restore_key
from .running import SKIPPED, Running, State
from .user_state import decode_state, encode_state
from .worker_config import WorkerConfig

OWN = "own"
"""Marks the ids of items that a user's dataset made, and its own state."""


class UserRunning:
    """Iterator over one lane of a user's dataset."""

    def __init__(self, dataset: Any, inputs: Sequence[Any], lane: Lane, state: State, *, key: str, ranks: int) -> None:
        entry = state.get(key, {})
        self._key, self._lane = key, lane
        self._ranks: int = entry.get("ranks", ranks)
        self._given: int = entry.get("given", 0)
        self._is_over: bool = entry.get("over", False)
        self._received = ReceivedItems()
        self._inputs = [
            OpenInput(definition, origin, len(inputs), lane=lane, key=key, received=self._received)
            for origin, definition in enumerate(inputs)
        ]
        self._name = type(dataset).__name__
        # Each lane runs a copy of the user's object, since its attributes are the lane's state.
        self._dataset = self._copy(dataset)
        lane.context.closing.callback(self._dataset.worker_close)
        # The inputs come first: the dataset's own state may name samples that they rebuild.
        if OWN in entry:
            for each in self._inputs:  # after the copy was reset, with its inner datasets
                each.resume(entry.get(str(each.place), {}))
            self._dataset.restore_state(decode_state(entry[OWN], decode_sample=self._decode_sample))
        if "position" in entry:  # not in states of earlier versions
            self._received.last_position = entry["position"]
        self._items: Iterator[Any] | None = None
        self._next: Callable[[Iterator[Any]], Any] = next  # replaced while calls are timed
        register(lane, self._name, self, "_next")
        if lane.neighbours is not None:
            lane.neighbours.add(lane.path, self)

    def reach(self, pass_number: int) -> None:
        """Open an inner dataset for another lane, if the run had opened this pass before its state was saved."""
        origin = pass_number % len(self._inputs)
        self._inputs[origin].reach(pass_number // len(self._inputs))

    def _copy(self, dataset: Any) -> Any:
        if inherits_stage(dataset):
            copied = copy.copy(dataset)
            setattr(copied, BOUND, self._inputs[0])
        else:
            opened = iter(self._inputs)
            config = LaneWorkerConfig.of(dataset.worker_config, self._lane, self._ranks)
            copied = replace_datasets(dataset, lambda _: next(opened).bound(), {}, config)
        copied.reset_state_deep()
        return copied

    def next(self) -> tuple[Any, ItemId]:
        if self._is_over:
            raise StopIteration
        with in_user_iteration(self._name):
            # The first call iterates, not the constructor, so that a state is restored before.
            if self._items is None:
                self._items = iter(self._dataset)
            try:
                value = self._next(self._items)
            except StopIteration:
                self._is_over = True
                raise
        # An item that an input gave keeps its id; an item that the dataset made gets one.
        received = self._received.find(value)
        if received is not None:
            return value, (self._key, received.number, received.item_id)
        item_id = self._own_id(value)
        self._given += 1
        return value, item_id

    def _own_id(self, value: Any) -> ItemId:
        """Return the id of an item that the dataset made; with the restore key, if the dataset can rebuild it."""
        position = self._received.last_position
        if not self._dataset.can_restore_sample():
            return (self._key, self._given, position, OWN)
        key = value.get("__restore_key__") if isinstance(value, dict) else getattr(value, "__restore_key__", None)
        return (self._key, self._given, position, OWN, tuple(key or ()))

    def state(self) -> State:
        entry: State = {"ranks": self._ranks, "given": self._given, "over": self._is_over}
        if self._received.last_position >= 0:
            entry["position"] = self._received.last_position
        entry[OWN] = encode_state(
            self._dataset.save_state(), encode_sample=self._received.encode, report_pickled=self._report_pickled
        )
        return {self._key: entry | {str(each.place): each.state() for each in self._inputs}}

    def _report_pickled(self, path: str, value: Any) -> None:
        warn_once(
            f"{self._name} saves a {type(value).__name__} at {path}: it is pickled into each state of the loader, "
            "after every micro-batch. Save plain data, or samples as its inner datasets yielded them, to avoid this"
        )

    def _decode_sample(self, saved: Any) -> Any:
        pass_number, *item = saved
        origin, item_number = pass_number % len(self._inputs), pass_number // len(self._inputs)
        return self._inputs[origin].rebuild(item_number, BufferedItem.from_state(item))

    def load(self, item_id: ItemId) -> Any:
        _, pass_number, inner, *saved_by_user = item_id  # type: ignore[misc] # ids of this stage are tuples
        # An item of an input is rebuilt there; an item that the dataset made is rebuilt by its own method.
        if not saved_by_user:
            return self._inputs[pass_number % len(self._inputs)].load(pass_number // len(self._inputs), inner)
        if len(saved_by_user) == 1:
            raise StateError(
                f"{self._name} cannot rebuild a sample that waited in the buffer of a later stage",
                hint="override its can_restore_sample and restore_sample, or apply it after packing and shuffling",
            )
        with in_user_iteration(self._name):
            return self._dataset.restore_sample(saved_by_user[1])


class OpenInput:
    """An inner dataset, open for a lane."""

    def __init__(
        self, definition: Any, origin: int, inputs: int, *, lane: Lane, key: str, received: ReceivedItems
    ) -> None:
        self.place = origin
        self._key = key
        self._definition, self._inputs, self._lane, self._received = definition, inputs, lane, received
        self._running: Running | None = None
        self._peeked: list[tuple[Any, ItemId]] = []  # at most one item, for the next call
        self._before_peek: State = {}
        self.resume({})

    def resume(self, state: State) -> None:
        """Continue at a position: the result of :meth:`state`, or empty for the beginning."""
        self._pass: int = state.get("pass", 0)
        self._saved: State = state.get("state", {})
        self._is_over: bool = state.get("over", False)
        # The code had left its loop over this input, so the first loop after a restore has to end at once.
        self._ended_before = self._is_over

    def bound(self) -> Any:
        copied = copy.copy(self._definition)
        setattr(copied, BOUND, self)
        return copied

    def _lane_of(self, pass_number: int) -> Lane:
        return self._lane.child(self.place + pass_number * self._inputs)

    def _open(self) -> Running:
        if self._running is None:
            lane = self._lane.child(self.place + self._pass * self._inputs, self._key)
            self._running = self._definition.open(lane, self._saved)
            self._saved = {}
        return self._running

    def reach(self, pass_number: int) -> None:
        if pass_number == self._pass and self._saved:
            self._open()

    def __iter__(self) -> Iterator[Any]:
        if self._ended_before:
            self._ended_before = False
            return
        # Another loop over the input is its next pass.
        if self._is_over:
            self._start(self._pass + 1)
        while True:
            try:
                value, item_id = self._peeked.pop() if self._peeked else self._open().next()
            except StopIteration:
                self._is_over = True
                return
            if value is SKIPPED:
                continue
            # Note the item, so that it is recognised when the user's dataset yields it.
            lane = self._lane_of(self._pass)
            set_restore_key(value, lane.path + self._definition.key, lane, item_id)
            self._received.add(value, self.place + self._pass * self._inputs, item_id, lane.context.batch_index)
            yield value

    def _start(self, pass_number: int) -> None:
        self._pass, self._running, self._saved, self._is_over = pass_number, None, {}, False
        self._ended_before = False
        self._peeked.clear()

    def has_samples(self) -> bool:
        """Return True if there is an item in this lane; at the end of a pass, if there is one in the next."""
        if self._ended_before:
            return False
        if self._is_over:
            self._start(self._pass + 1)
        running = self._open()
        # Read up to the first item that is kept. A state that is saved meanwhile is the state from before it.
        while not self._peeked:
            before = running.state()
            try:
                taken = running.next()
            except StopIteration:
                return False
            if taken[0] is not SKIPPED:
                self._before_peek = before
                self._peeked.append(taken)
        return True

    def state(self) -> State:
        state: State = {"pass": self._pass, "over": self._is_over}
        if self._running is None:
            return state | {"state": self._saved}
        return state | {"state": self._before_peek if self._peeked else self._running.state()}

    def save_state(self) -> dict[str, Any]:
        """Return a reference to this input: the lane's state contains its position."""
        return {"input": self.place}

    def restore_state(self, state: Any) -> None:
        """Start over for None; the position in a reference is restored with the lane's state."""
        if state is None and (self._running is not None or self._is_over):
            self._start(0)

    def restore_sample(self, restore_key: Any) -> Any:
        key = as_item_id(restore_key)
        pass_number = str(key[0]).removeprefix(self._lane.path).partition("/")[0] if key else ""
        if len(key) != 4 or not pass_number.isdecimal():
            raise StateError(f"expected the __restore_key__ of a sample of this dataset, found {restore_key!r}")
        return self.load(int(pass_number) // self._inputs, key[3])

    def load(self, pass_number: int, item_id: ItemId) -> Any:
        if pass_number == self._pass:
            return self._open().load(item_id)
        return self._definition.open(self._lane_of(pass_number).alone(), {}).load(item_id)

    def rebuild(self, pass_number: int, item: BufferedItem) -> Any:
        """Rebuild an item in the state of the user's dataset, which may save it again."""
        lane = self._lane_of(pass_number)
        running = self._open() if pass_number == self._pass else self._definition.open(lane.alone(), {})
        value = item.value(running, lane)
        if value is not SKIPPED:
            set_restore_key(value, lane.path + self._definition.key, lane, item.item_id)
            self._received.add(value, self.place + pass_number * self._inputs, item.item_id, item.batch)
        return value


_warned: set[str] = set()


def warn_once(message: str, *, stacklevel: int = 2) -> None:
    """Warn, unless the same message has been shown in this process."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(escape_controls(message), RuntimeWarning, stacklevel=stacklevel)


class LaneWorkerConfig(WorkerConfig):
    """The config that a user's dataset sees in a lane, which has the part of one worker."""

    @classmethod
    def of(cls, config: WorkerConfig, lane: Lane, ranks: int) -> LaneWorkerConfig:
        share = lane.count // ranks
        worker_view = cls(
            rank=lane.number % ranks,
            world_size=ranks,
            num_workers=0 if share == 1 and not config.num_workers else share,
            seed_offset=config.seed_offset,
            worker_debug_path=config.worker_debug_path,
            worker_log_level=config.worker_log_level,
            global_error_handler=config.global_error_handler,
            restore_error_handler=config.restore_error_handler,
        )
        object.__setattr__(worker_view, "_worker", lane.number // ranks)
        return worker_view

    def rank_worker_id(self) -> int:
        worker: int = self.__dict__["_worker"]
        return worker

    def assert_worker(self) -> None:
        if running_hook_context() is None:
            super().assert_worker()


@dataclass(frozen=True, slots=True)
class _Item:
    """An item that the user's code received: number of its input and pass, id, micro-batch, and its fields then."""

    number: int
    item_id: ItemId
    batch: int | None
    fields: dict[str, Any]


class ReceivedItems:
    """The items that the user's code received and still holds, found by identity."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[Any], _Item]] = {}
        self.last_position = -1

    def add(self, value: Any, pass_number: int, item_id: ItemId, batch: int | None) -> None:
        """Record an item; objects without weak references, such as plain dicts and lists, are not recorded."""
        self.last_position = position_of(item_id)
        address, items = id(value), self._items
        try:
            reference = weakref.ref(value, lambda _: items.pop(address, None))
        except TypeError:
            return
        items[address] = reference, _Item(pass_number, item_id, batch, _fields(value))

    def find(self, value: Any) -> _Item | None:
        """Return the record of an object, unless its fields have been replaced since."""
        entry = self._items.get(id(value))
        if entry is None or entry[0]() is not value:
            return None
        now, then = _fields(value), entry[1].fields
        is_same = now.keys() == then.keys() and all(now[name] is then[name] for name in now)
        return entry[1] if is_same else None

    def encode(self, value: Any) -> Any | None:
        """Return the record of an object as plain data; None for any other value."""
        item = self.find(value)
        return None if item is None else [item.number, *BufferedItem(item.item_id, item.batch).to_state()]


def _fields(value: Any) -> dict[str, Any]:
    """Return a shallow copy of an object's fields, without the restore key that stages set."""
    fields = dict(value) if isinstance(value, dict) else dict(getattr(value, "__dict__", {}))
    fields.pop("__restore_key__", None)
    return fields
