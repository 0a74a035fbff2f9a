"""The work of a worker process: it makes the micro-batches of its lanes, in turn or one lane after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

from ...order import LaneHosting
from ...pipeline.contract.lane import LastSample
from ...pipeline.contract.stage import SavableDataset, State
from ...pipeline.measuring.recorder import WorkerRecorder
from ...stores.cache_pool import CachePool
from .batch_trace import BatchTrace, recording
from .running_lane import ENDED, LaneSettings, Message, Notes, RunningLane, end_of_worker, last_message, running_lanes


class LaneHost(LaneSettings, Protocol):
    """The lanes of a rank and the order in which its worker processes visit them."""

    @property
    def workers(self) -> int:
        """The rank's worker processes; 0 for none."""

    @property
    def trace(self) -> BatchTrace | None:
        """The log of the samples of micro-batches; None for none."""

    def messages(
        self,
        worker: int,
        last_sample: LastSample | None = None,
        *,
        taken: int = 0,
        recorder: WorkerRecorder | None = None,
    ) -> Iterator[Message | None]:
        """Yield the micro-batches of a worker's lanes; None for a turn that has none.

        Args:
            worker: The number of the worker, in [0, workers).
            last_sample: Records the sample that is started last.
            taken: The number of messages to skip at the start, because another process has sent them.
            recorder: Measures the work.
        """

    def continued(self, states: Mapping[int, State]) -> LaneHost:
        """Return the same lanes from other states, for a process that replaces a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesInTurn:
    """Lanes visited in turn, a micro-batch each.

    Attributes:
        dataset: The chain.
        hosting: The lanes of the rank.
        states: The states of lanes that have begun, by number.
        cache_pool: The cache of hooks.
        left_out: The micro-batches that are skipped: made and not delivered.
        trace: The log of the samples of micro-batches.
    """

    dataset: SavableDataset[Any]
    hosting: LaneHosting
    states: Mapping[int, State]
    cache_pool: CachePool | None = None
    left_out: tuple[range, ...] = ()
    trace: BatchTrace | None = None

    @property
    def lanes(self) -> int:
        return self.hosting.lanes

    @property
    def workers(self) -> int:
        return self.hosting.workers

    def messages(
        self,
        worker: int,
        last_sample: LastSample | None = None,
        *,
        taken: int = 0,
        recorder: WorkerRecorder | None = None,
    ) -> Iterator[Message | None]:
        if self.trace is None:
            yield from self._messages(worker, Notes(last_sample, recorder), taken)
            return
        with recording(self.trace, rank=self.hosting.rank, worker=worker) as record:
            yield from self._messages(worker, Notes(last_sample, recorder, record), taken)

    def continued(self, states: Mapping[int, State]) -> LaneHost:
        return replace(self, states=states, trace=self.trace and self.trace.again())

    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]:
        running = running_lanes(self, self.hosting.lanes_of_worker(worker), notes)
        with end_of_worker(self, running):
            yield from self._in_turn(worker, running, taken)
            yield from last_message(running, worker)

    def _in_turn(self, worker: int, running: list[RunningLane], taken: int) -> Iterator[Message | None]:
        hosting = self.hosting
        lanes: list[RunningLane | None] = [*running]
        turns = range(worker, hosting.turns, max(1, hosting.workers))
        lanes += [None] * (len(turns) - len(lanes))
        rounds, first_turn = divmod(taken, len(turns))
        batches = [hosting.batch(turn) + rounds * hosting.lanes for turn in turns]
        batches[:first_turn] = [number + hosting.lanes for number in batches[:first_turn]]
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
        trace: The log of the samples of micro-batches.
    """

    dataset: SavableDataset[Any]
    lanes: int
    rank: int
    ranks: int
    workers: int
    states: Mapping[int, State]
    cache_pool: CachePool | None = None
    trace: BatchTrace | None = None

    @property
    def left_out(self) -> tuple[range, ...]:
        return ()

    def continued(self, states: Mapping[int, State]) -> LaneHost:
        return replace(self, states=states, trace=self.trace and self.trace.again())

    def messages(
        self,
        worker: int,
        last_sample: LastSample | None = None,
        *,
        taken: int = 0,  # noqa: ARG002 - the states of the lanes tell how far they came
        recorder: WorkerRecorder | None = None,
    ) -> Iterator[Message | None]:
        numbers = range(self.rank, self.lanes, self.ranks)[worker :: max(1, self.workers)]
        with recording(self.trace, rank=self.rank, worker=worker) as record:
            running = running_lanes(self, numbers, Notes(last_sample, recorder, record))
            with end_of_worker(self, running):
                for lane in running:
                    while (message := lane.micro_batch()) is not ENDED:
                        yield message
                yield from last_message(running, worker)
