"""The work of a worker process: it makes the micro-batches of its lanes, in turn or one lane after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ...order import LaneHosting
from .running_lane import ENDED, LaneHost, Message, Notes, RunningLane, end_of_worker, last_message, running_lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesInTurn(LaneHost):
    """Lanes visited in turn, a micro-batch each.

    Attributes:
        first_batch: The micro-batch of the run at which all ranks start.
    """

    first_batch: int = 0

    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]:
        hosting = LaneHosting(
            lanes=self.lanes, ranks=self.ranks, rank=self.rank, workers=self.workers, first_batch=self.first_batch
        )
        running = running_lanes(self, hosting.lanes_of_worker(worker), notes)
        with end_of_worker(self, running):
            yield from _in_turn(hosting, worker, running, taken)
            yield from last_message(running, worker)


def _in_turn(hosting: LaneHosting, worker: int, running: Sequence[RunningLane], taken: int) -> Iterator[Message | None]:
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


class LanesOneByOne(LaneHost):
    """Lanes visited one after another, each to its end, so that only one holds samples in buffers.

    A rank has every R-th lane, and a worker every W-th of these.
    """

    __slots__ = ()

    def _messages(self, worker: int, notes: Notes, taken: int) -> Iterator[Message | None]:  # noqa: ARG002 - states tell
        running = running_lanes(self, range(self.rank, self.lanes, self.ranks)[worker :: max(1, self.workers)], notes)
        with end_of_worker(self, running):
            for lane in running:
                while (message := lane.micro_batch()) is not ENDED:
                    yield message
            yield from last_message(running, worker)
