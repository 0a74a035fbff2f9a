"""The lanes of a worker: which it visits when, and a lane that runs, the iterator over its micro-batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ...errors import StateError
from ...order import LaneHosting
from ...pipeline.contract.hook import Hook
from ...pipeline.contract.item_id import ItemId
from ...pipeline.contract.lane import NO_LAST_SAMPLE, Lane, LastSample, set_restore_key
from ...pipeline.contract.rng import seed_batch
from ...pipeline.contract.stage import SKIPPED, Running, SavableDataset, State, has_end
from ...pipeline.failures.error_handlers import keys_of_sample
from ...pipeline.failures.policy import FailurePolicy, WorkerFailures
from ...pipeline.measuring.recorder import WorkerRecorder
from ...pipeline.reading.read import dealt_samples
from ...samples.batch_memory import ReusedMemory
from ...samples.hooks import HookContext, in_hook_context, running_hook_context, set_hook_context
from ...stores.cache_pool import CachePool, NoCachePool
from .batch_trace import BatchTrace, Record, recording
from .stream_options import collect_garbage_every
from .worker_errors import dropped_samples, is_of_this_library

if TYPE_CHECKING:  # it imports torch
    from ...transport.message import ObjectPickler

MICRO_BATCH = "micro-batch"
"""The stage in the ``__restore_key__`` of a micro-batch, as opposed to a sample of an inner stage."""


NO_LANE = -1
"""The lane of a worker's last message if it made no micro-batch: its batch is a :class:`.DroppedSamples`."""


class Message(NamedTuple):
    """A micro-batch on its way from a worker to its rank.

    Attributes:
        batch: The batch itself; :data:`SKIPPED` if all its samples were skipped.
        others: The states of other lanes whose samples were taken since the last message; None if none were taken.
    """

    number: int
    lane: int
    state: State
    batch: Any
    others: Mapping[int, State] | None = None


ENDED: Any = object()
"""Takes the place of a message after the last one."""
MADE = "made"  # the key of a lane's state for the number of its micro-batches


class Notes(NamedTuple):
    """The objects that note what a worker does."""

    last_sample: LastSample | None = None
    recorder: WorkerRecorder | None = None
    record: Record | None = None
    failures: WorkerFailures | None = None
    closing: ExitStack | None = None  # what is closed where its lanes end
    pickler: ObjectPickler | None = None  # one micro-batch that does not pickle is skipped, as by a hook that fails


_NO_NOTES = Notes()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHost(ABC):
    """The lanes of a rank, and the order in which its worker processes visit them.

    Attributes:
        cache_pool: The cache of hooks; None: one that fetches nothing ahead.
        left_out: The micro-batches that are skipped: made and not delivered.
        collects_every: The number of messages of a worker between two garbage collections; None or 0: none.
    """

    dataset: SavableDataset[Any]
    lanes: int
    rank: int = 0
    ranks: int = 1
    workers: int = 0
    states: Mapping[int, State] = field(default_factory=dict)
    cache_pool: CachePool | None = None
    left_out: tuple[range, ...] = ()
    trace: BatchTrace | None = None
    collects_every: int | None = None

    def continued(self, states: Mapping[int, State]) -> Self:
        """Return the same lanes from other states, for a process that replaces a worker."""
        return replace(self, states=states, trace=self.trace and self.trace.again())

    def messages(self, worker: int, notes: Notes = _NO_NOTES, *, taken: int = 0) -> Iterator[Message | None]:
        """Yield the micro-batches of a worker's lanes; None for a turn that has none.

        Args:
            worker: The number of the worker, in [0, workers).
            notes: Its ``record`` is the one of the trace.
            taken: The number of messages to skip at the start, because another process has sent them.
        """
        with ExitStack() as closing:
            # Prepare what the lanes use; it ends after them.
            notes = notes._replace(closing=closing)
            if self.trace is not None:
                record = closing.enter_context(recording(self.trace, rank=self.rank, worker=worker))
                notes = notes._replace(record=record)
            if self.cache_pool is not None:
                self.cache_pool.worker_init()
                closing.callback(self.cache_pool.worker_close)
            made = self._messages(worker, notes, taken)
            yield from collect_garbage_every(self.collects_every, made) if self.collects_every else made

    @abstractmethod
    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesInTurn(LaneHost):
    """Lanes visited in turn, a micro-batch each."""

    first_batch: int = 0

    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]:
        hosting = LaneHosting(
            lanes=self.lanes, ranks=self.ranks, rank=self.rank, workers=self.workers, first_batch=self.first_batch
        )
        first_round = hosting.first_round(worker)
        running = running_lanes(self, [batch_number % self.lanes for batch_number in first_round], notes)
        # A worker with fewer lanes than turns yields nothing in the rest of them, so that workers stay in step.
        lanes: list[RunningLane | None] = [*running, *[None] * (hosting.turns - len(running))]
        # Continue after the messages that the rank has taken.
        rounds, first_turn = divmod(taken, hosting.turns)
        batches = [batch_number + rounds * hosting.lanes for batch_number in first_round]
        batches[:first_turn] = [batch_number + hosting.lanes for batch_number in batches[:first_turn]]
        # Visit the lanes in turn, until all have ended.
        while any(lanes):
            for turn, lane in islice(enumerate(lanes), first_turn, None):
                message = None
                if lane is not None:
                    message = lane.micro_batch(batches[turn])
                    batches[turn] += hosting.lanes
                    if message is ENDED:
                        lanes[turn] = message = None
                yield message
            first_turn = 0
        yield from last_message(running, worker)


class LanesOneByOne(LaneHost):
    """Lanes visited one after another, each to its end, so that only one holds samples in buffers.

    A rank has every R-th lane, and a worker every W-th of these.
    """

    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]:  # noqa: ARG002 - states tell
        running = running_lanes(self, range(self.rank, self.lanes, self.ranks)[worker :: max(1, self.workers)], notes)
        for lane in running:
            while (message := lane.micro_batch()) is not ENDED:
                yield message
        yield from last_message(running, worker)


def running_lanes(host: LaneHost, numbers: Sequence[int], notes: Notes) -> list[RunningLane]:
    """Return the lanes of a worker; at the end of a pass, each may take samples of the others."""
    memory, notes = ReusedMemory(), notes._replace(failures=WorkerFailures(is_new=not host.states))
    lanes = [RunningLane(host, lane_number, memory, notes) for lane_number in numbers]
    if has_end(host.dataset):
        changed: set[int] = set()
        for index, lane in enumerate(lanes):
            lane.join(WorkerNeighbours(lane.number, changed, (*lanes[index + 1 :], *lanes[:index])))
    return lanes


def last_message(lanes: Sequence[RunningLane], worker: int) -> Iterator[Message]:
    """Yield the message about dropped samples, if the lanes made no micro-batch."""
    if not any(lane.has_batches for lane in lanes):
        dropped = dropped_samples((lane.failures for lane in lanes), worker=worker)
        if dropped is not None:
            yield Message(0, NO_LANE, {}, dropped)


class RunningLane:
    """The iterator over one lane's micro-batches."""

    def __init__(self, host: LaneHost, lane_number: int, memory: ReusedMemory, notes: Notes) -> None:
        self.number = lane_number
        self._record = notes.record
        self._recorder = notes.recorder
        self._left_out = host.left_out
        self.has_batches = False  # other than skipped ones
        dataset, state = host.dataset, host.states.get(lane_number)
        self._dataset = dataset
        self._seed = dataset.worker_config.seed_offset
        self._lane = open_lane(dataset, lane_number, host.lanes, notes)
        if notes.recorder is not None:
            notes.recorder.add_dropped(self._lane.failures.dropped)
        pickle = None if notes.pickler is None else partial(pickle_object, notes.pickler)
        self._pickle = None if pickle is None else Hook(pickle, self._lane, takes_batches=True)
        self._neighbours: WorkerNeighbours | None = None
        self._lane.context.memory = memory
        if host.cache_pool is not None:
            self._lane.context.cache = host.cache_pool
        # Continue after the micro-batches that the state counts.
        self._state = state or {}
        self._made: int = self._state.get(MADE, 0)
        self._skips_turns = dataset.items is not None
        self._seeds = dataset.runs_user_code
        self._running: Running | None = None  # opened at its first turn, so that other lanes do not delay it

    def join(self, neighbours: WorkerNeighbours) -> None:
        """Let the lane take samples of the other lanes of its worker when it ends."""
        self._neighbours = self._lane.neighbours = neighbours

    def registered(self, stage: str) -> Any:
        """Return what a stage of this lane registered, opened for another lane; None if the lane has no such stage."""
        if self._neighbours is None:
            return None
        with in_hook_context(self._lane.context):
            if self._running is None:
                self._running = self._opened()
            return self._neighbours.reach(stage)

    def _opened(self) -> Running:
        """Open the chain at the lane's state; what a stage raises because of a wrong value in it is a StateError."""
        try:
            return self._dataset.open(self._lane, self._state)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if not self._state or not is_of_this_library(error):
                raise  # an error of a hook
            raise StateError(
                f"this state is damaged: lane {self.number}: {type(error).__name__}: {error}",
                hint="restore another state",
            ) from error

    @property
    def failures(self) -> FailurePolicy:
        return self._lane.failures

    def state(self) -> State:
        return self._state if self._running is None else {MADE: self._made, **self._running.state()}

    def micro_batch(self, batch_number: int | None = None) -> Any:
        """Return a micro-batch of the run (None: the lane's next); None if the lane has made it already."""
        lane = self._lane
        if batch_number is None:
            batch_number = self._made * lane.count + lane.number
        if self._made > batch_number // lane.count:
            return None
        # Give the hooks the context and random numbers of this micro-batch.
        outer = running_hook_context()
        set_hook_context(lane.context)
        lane.context.batch_index = batch_number
        lane.last_sample.note_lane(lane.number)
        if self._seeds:
            seed_batch(self._seed, lane.number, self._made)
            lane.context.rng_parts = (self._seed, lane.number, self._made)
        # Measure a part of the micro-batches.
        running = self._running
        recorder = self._recorder
        is_timed = False
        if recorder is not None:
            recorder.until_timed -= 1
            is_timed = recorder.until_timed <= 0
            if is_timed:
                recorder.begin_timed(lane.number)
        # Make it.
        try:
            if running is None:
                running = self._running = self._opened()
            batch, item_id = self._next(running)
        except StopIteration:
            if self._neighbours is not None:
                self._neighbours.note_change()  # the lane may have skipped its last samples
            lane.failures.end()
            return ENDED
        finally:
            set_hook_context(outer)
            if is_timed and recorder is not None:
                recorder.end_timed()
        # Number it, and return it with the state behind it.
        self._made += 1
        self.has_batches |= batch is not SKIPPED
        if self._record is not None and batch is not SKIPPED:
            self._record(batch_number, item_id)
        if self._left_out and any(batch_number in batches for batches in self._left_out):
            batch = SKIPPED
        state = {MADE: self._made, **running.state()}
        others = None if self._neighbours is None else self._neighbours.changed_states()
        return Message(batch_number, lane.number, state, batch, others)

    def _next(self, running: Running) -> tuple[Any, ItemId]:
        """Return the next micro-batch, pickled if it is sent to another process, and its id."""
        while True:
            batch, item_id = running.next()
            set_restore_key(batch, MICRO_BATCH, self._lane, item_id)
            if self._pickle is not None and batch is not SKIPPED:
                batch = self._pickle.attempt(batch, item_id)
            # Without a pass to divide, skipped ones take no turn.
            if batch is not SKIPPED or self._skips_turns:
                return batch, item_id


def pickle_object(pickler: ObjectPickler, batch: Any) -> Any:
    """Pickle a micro-batch; the error names the sample whose value in it does not pickle."""
    try:
        return pickler.pickle_object(batch)
    except Exception as error:
        # Each sample has an item of a list of samples, and of the fields that are lists.
        fields = batch if isinstance(batch, Mapping) else getattr(batch, "__dict__", {})
        keys, parts = keys_of_sample(batch), ("",)
        columns = [each for each in (batch, *fields.values()) if isinstance(each, list) and len(each) == len(keys)]
        try:
            for parts in zip(keys, *columns, strict=True):
                pickler.pickle_object(parts)
        except Exception:
            raise PicklingError(f"{error}, in the sample {parts[0]}") from error
        raise


def remade_batches(host: LaneHost, lane: int) -> Iterator[tuple[Message, ItemId]]:
    """Yield the micro-batches of a lane from its state on, and their item ids; skipped ones have an empty id."""
    made: dict[int, ItemId] = {}
    running = RunningLane(host, lane, ReusedMemory(), Notes(record=made.__setitem__))
    while (message := running.micro_batch()) is not ENDED:
        yield message, made.pop(message.number, ())


def open_lane(dataset: SavableDataset[Any], lane_number: int, count: int, notes: Notes = _NO_NOTES) -> Lane:
    """Build the lane for which a chain is opened, with the error handlers of the run."""
    config = dataset.worker_config
    context = HookContext(cache=NoCachePool(), worker_config=config)
    context.closing = notes.closing or context.closing
    return Lane(
        lane_number,
        count,
        seed=config.seed_offset,
        failures=FailurePolicy(
            config.global_error_handler,
            restore_handler=config.restore_error_handler,
            lane=lane_number,
            skip_tolerance=config.skip_tolerance,
            samples=dataset.round_samples,
            worker=notes.failures,
        ),
        context=context,
        last_sample=notes.last_sample or NO_LAST_SAMPLE,
        recorder=notes.recorder,
        deals=dealt_samples(dataset, count) > 0,
    )


class WorkerNeighbours:
    """The lanes of a worker, seen from one of them.

    Args:
        changed: The lanes whose samples were taken by others since the last message; shared by all lanes.
    """

    def __init__(self, lane_number: int, changed: set[int], lanes: Sequence[RunningLane]) -> None:
        self.number = lane_number
        self.registered: dict[str, Any] = {}
        self._changed = changed
        self._lanes = lanes
        self.count = len(lanes)

    def add(self, stage: str, shared: Any) -> None:
        """Register the input of a stage of this lane, or a stage that opens one of several inputs at a time."""
        self.registered[stage] = shared

    def reach(self, stage: str) -> Any:
        """Return what a stage of this lane registered, opened if the lane may already yield its items."""
        if stage not in self.registered:
            path = ""
            for input_number in takewhile(str.isdecimal, stage.split("/")):
                if path in self.registered:
                    self.registered[path].reach(int(input_number))
                path += f"{input_number}/"
        return self.registered.get(stage)

    def others(self, stage: str) -> Iterator[Any]:
        """Yield what the same stage registered in the other lanes, each opened when it is reached."""
        for lane in self._lanes:
            registered = lane.registered(stage)
            if registered is not None:
                yield registered

    def note_change(self) -> None:
        self._changed.add(self.number)

    def changed_states(self) -> dict[int, State] | None:
        """Return the states of other lanes whose samples were taken since the last call; None if none were taken."""
        if not self._changed:
            return None
        states = {lane.number: lane.state() for lane in self._lanes if lane.number in self._changed}
        self._changed.clear()
        return states
