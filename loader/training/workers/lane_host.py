"""The work of a worker process: it makes the micro-batches of its lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ...order import LaneHosting
from ...pipeline.contract.lane import RULES, Lane, LastSample, set_restore_key
from ...pipeline.contract.lane_input import LaneInput
from ...pipeline.contract.rng import seed_batch
from ...pipeline.contract.stage import SKIPPED, Running, SavableDataset, State
from ...pipeline.failures.error_handlers import Failure
from ...pipeline.failures.policy import FailurePolicy
from ...samples.hooks import HookContext, running_hook_context, set_hook_context
from ...stores.cache_pool import CachePool, NoCachePool
from ...transport.batch_memory import ReusedMemory, set_batch_memory
from .worker_errors import PackedError, pack_error

__all__ = [
    "MICRO_BATCH",
    "NO_LANE",
    "DroppedSamples",
    "LaneHost",
    "LanesInTurn",
    "LanesOneByOne",
    "Message",
    "open_lane",
]

MICRO_BATCH = "micro-batch"
"""The stage in the ``__restore_key__`` of a micro-batch, as opposed to a sample of an inner stage."""


NO_LANE = -1
"""The lane of a worker's last message if it made no micro-batch: its batch is a :class:`DroppedSamples`."""


class Message(NamedTuple):
    """A micro-batch on its way from a worker to its rank.

    Attributes:
        number: m, the number of the micro-batch within the run.
        lane: The lane that made it.
        state: The lane's state after it.
        batch: The batch itself; :data:`SKIPPED` if all its samples were skipped.
        others: The states of other lanes whose samples were taken since the last message; None if there are none.
    """

    number: int
    lane: int
    state: State
    batch: Any
    others: Mapping[int, State] | None = None


class LaneHost(Protocol):
    """The lanes of a rank and the order in which its worker processes visit them."""

    @property
    def dataset(self) -> SavableDataset[Any]:
        """The chain."""

    @property
    def lanes(self) -> int:
        """L, the lanes of the run."""

    @property
    def states(self) -> Mapping[int, State]:
        """The states of lanes that have begun, by number."""

    @property
    def workers(self) -> int:
        """The rank's worker processes; 0 for none."""

    @property
    def rules(self) -> int:
        """The rules of the run."""

    @property
    def cache_pool(self) -> CachePool | None:
        """The cache of hooks; None: one that fetches nothing ahead."""

    def messages(self, worker: int, last_sample: LastSample | None = None) -> Iterator[Message | None]:
        """Yield the micro-batches of a worker's lanes; None for a turn that has none.

        Args:
            worker: The number of the worker, in [0, workers).
            last_sample: Records the sample that is started last.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesInTurn:
    """Lanes visited in turn, a micro-batch each.

    Attributes:
        dataset: The chain.
        hosting: The lanes of the rank.
        states: The states of lanes that have begun, by number.
        cache_pool: The cache of hooks.
        rules: The rules of the run.
    """

    dataset: SavableDataset[Any]
    hosting: LaneHosting
    states: Mapping[int, State]
    cache_pool: CachePool | None = None
    rules: int = RULES

    @property
    def lanes(self) -> int:
        return self.hosting.lanes

    @property
    def workers(self) -> int:
        return self.hosting.workers

    def messages(self, worker: int, last_sample: LastSample | None = None) -> Iterator[Message | None]:
        hosting = self.hosting
        tally = _Tally(worker)
        lanes: list[_RunningLane | None] = [*_running_lanes(self, hosting.lanes_of_worker(worker), last_sample, tally)]
        turns = range(worker, hosting.turns, max(1, hosting.workers))
        lanes += [None] * (len(turns) - len(lanes))
        batches = [hosting.batch(turn) for turn in turns]
        while any(lanes):
            for turn, lane in enumerate(lanes):
                message = None
                if lane is not None:
                    message = lane.micro_batch(batches[turn])
                    batches[turn] += hosting.lanes
                    if message is _ENDED:
                        lanes[turn] = message = None
                yield message
        yield from tally.messages()


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesOneByOne:
    """Lanes visited one after another, each to its end, so that only one holds samples in buffers.

    Attributes:
        dataset: The chain.
        lanes: L.
        rank: This rank, which has every ``ranks``-th lane.
        ranks: R.
        workers: The number of worker processes; each has every ``workers``-th of these lanes.
        states: The states of lanes that have begun, by number.
        cache_pool: The cache of hooks.
        rules: The rules of the run.
    """

    dataset: SavableDataset[Any]
    lanes: int
    rank: int
    ranks: int
    workers: int
    states: Mapping[int, State]
    cache_pool: CachePool | None = None
    rules: int = RULES

    def messages(self, worker: int, last_sample: LastSample | None = None) -> Iterator[Message | None]:
        tally = _Tally(worker)
        numbers = range(self.rank, self.lanes, self.ranks)[worker :: max(1, self.workers)]
        for lane in _running_lanes(self, numbers, last_sample, tally):
            while (message := lane.micro_batch()) is not _ENDED:
                yield message
        yield from tally.messages()


@dataclass(frozen=True, slots=True)
class DroppedSamples:
    """The samples of a pass of which a worker made no micro-batch.

    Attributes:
        by_reason: Their number, by hook and reason; empty if others were kept, but dropped by ``drop_last``.
        last_failure: The error of the last one that failed; None if none has.
    """

    by_reason: Counter[str]
    last_failure: PackedError | None


class _Tally:
    """Collects the dropped samples of a worker's lanes, for its last message."""

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._has_remainder = False
        self._dropped: Counter[str] = Counter()
        self._last: tuple[Failure, Exception] | None = None
        self.has_batches = False

    def add(self, failures: FailurePolicy) -> None:
        """Add the counts of a lane that has ended."""
        self._dropped.update(failures.dropped)
        self._has_remainder |= failures.has_remainder
        self._last = failures.last or self._last

    def messages(self) -> Iterator[Message]:
        """Yield the message about dropped samples, if there was no micro-batch."""
        if self.has_batches or not (self._dropped or self._has_remainder):
            return
        packed = None
        if self._last is not None:
            failure, cause = self._last
            error = failure.stop(f"{failure.hook} failed", cause, hint="")
            error.__cause__ = cause
            packed = pack_error(error, worker=self._worker)
        yield Message(0, NO_LANE, {}, DroppedSamples(Counter() if self._has_remainder else self._dropped, packed))


_ENDED: Any = object()
_MADE = "made"  # the key of a lane's state for the number of its micro-batches


def _running_lanes(
    host: LaneHost, numbers: Sequence[int], last_sample: LastSample | None, tally: _Tally
) -> list[_RunningLane]:
    """Return the lanes of a worker; in a pass, each may take samples of the others."""
    memory = ReusedMemory()
    lanes = [_RunningLane(host, number, memory, last_sample, tally) for number in numbers]
    if host.rules and not host.dataset.repeats:
        changed: set[int] = set()
        for place, lane in enumerate(lanes):
            lane.join(_Neighbours(lane.number, changed, (*lanes[place + 1 :], *lanes[:place])))
    return lanes


class _Neighbours:
    """The lanes of a worker, seen from one of them.

    Args:
        number: The lane.
        changed: The lanes whose samples were taken by others since the last message; shared by all lanes.
        lanes: The other lanes.
    """

    def __init__(self, number: int, changed: set[int], lanes: Sequence[_RunningLane]) -> None:
        self.number = number
        self.inputs: dict[str, LaneInput] = {}
        self._changed = changed
        self._lanes = lanes

    def add(self, stage: str, own: LaneInput) -> None:
        self.inputs[stage] = own

    def others(self, stage: str) -> Iterator[LaneInput]:
        for lane in self._lanes:
            found = lane.input_of(stage)
            if found is not None:
                yield found

    def note_change(self) -> None:
        self._changed.add(self.number)

    def changed_states(self) -> dict[int, State] | None:
        """Return the states of the other lanes whose samples were taken since the last call; None if there are none."""
        if not self._changed:
            return None
        states = {lane.number: lane.state() for lane in self._lanes if lane.number in self._changed}
        self._changed.clear()
        return states


class _RunningLane:
    """The iterator over one lane's micro-batches."""

    def __init__(
        self, host: LaneHost, number: int, memory: ReusedMemory, last_sample: LastSample | None, tally: _Tally
    ) -> None:
        self.number = number
        dataset, state = host.dataset, host.states.get(number)
        self._dataset = dataset
        self._seed = dataset.worker_config.seed_offset
        self._lane = open_lane(dataset, number, host.lanes, last_sample, rules=host.rules)
        self._neighbours: _Neighbours | None = None
        if host.cache_pool is not None:
            self._lane.context.cache = host.cache_pool
        self._tally = tally
        self._memory = memory
        self._state = state or {}
        self._made: int = self._state.get(_MADE, 0)
        self._skips_turns = dataset.items is not None
        self._seeds = dataset.runs_user_code
        self._running: Running | None = None  # opened at its first turn, so that other lanes do not delay it

    def join(self, neighbours: _Neighbours) -> None:
        """Let the lane take samples of the other lanes of its worker when it ends."""
        self._neighbours = self._lane.neighbours = neighbours

    def input_of(self, stage: str) -> LaneInput | None:
        """Return the input of a stage of this lane, opened for another lane; None if the lane has no such stage."""
        if self._running is None:
            current = running_hook_context()
            set_hook_context(self._lane.context)
            self._running = self._dataset.open(self._lane, self._state)
            set_hook_context(current)
        return None if self._neighbours is None else self._neighbours.inputs.get(stage)

    def state(self) -> State:
        """Return the state of the lane after its last micro-batch."""
        return self._state if self._running is None else {_MADE: self._made, **self._running.state()}

    def micro_batch(self, number: int | None = None) -> Any:
        """Return micro-batch ``number`` of the run (None: the lane's next); None if the lane has made it already."""
        lane = self._lane
        if number is None:
            number = self._made * lane.count + lane.number
        if self._made > number // lane.count:
            return None
        set_hook_context(lane.context)
        set_batch_memory(self._memory)
        lane.context.batch_index = number
        lane.last_sample.note_lane(lane.number)
        if self._seeds:
            seed_batch(self._seed, lane.number, self._made)
            lane.context.rng_parts = (self._seed, lane.number, self._made)
        running = self._running
        try:
            if running is None:
                running = self._running = self._dataset.open(lane, self._state)
            batch, item_id = running.next()
            while batch is SKIPPED and not self._skips_turns:
                batch, item_id = running.next()
        except StopIteration:
            self._tally.add(lane.failures)
            if self._neighbours is not None:
                self._neighbours.note_change()  # the lane may have skipped its last samples
            return _ENDED
        finally:
            set_hook_context(None)
            set_batch_memory(None)
        self._made += 1
        if batch is not SKIPPED:
            self._tally.has_batches = True
        set_restore_key(batch, MICRO_BATCH, lane, item_id)
        state = {_MADE: self._made, **running.state()}
        if self._neighbours is None:
            return Message(number, lane.number, state, batch)
        return Message(number, lane.number, state, batch, self._neighbours.changed_states())


def open_lane(
    dataset: SavableDataset[Any],
    number: int,
    count: int,
    last_sample: LastSample | None = None,
    *,
    rules: int = RULES,
) -> Lane:
    """Build the lane for which a chain is opened, with the error handlers of the run."""
    config = dataset.worker_config
    return Lane(
        number,
        count,
        seed=config.seed_offset,
        failures=FailurePolicy(config.global_error_handler, lane=number, skip_tolerance=config.skip_tolerance),
        context=HookContext(cache=NoCachePool(), worker_config=config),
        last_sample=last_sample,
        restore_error_handler=config.restore_error_handler,
        rules=rules,
    )
