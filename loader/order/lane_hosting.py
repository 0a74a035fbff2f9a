"""Which rank and which worker makes which micro-batch.

Micro-batch ``m`` of a run is made by lane ``m mod L``, whoever hosts that lane: so the sequence of micro-batches does
not depend on the numbers of ranks and workers, and a run goes on with other numbers where it stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import StateError

__all__ = ["LaneHosting", "default_lanes", "possible_ranks"]

_LANES = 48  # divisible by 2, 3, 4, 6, 8, 12, 16, 24


def default_lanes(ranks: int, workers: int, *, has_buffers: bool) -> int:
    """Choose the number of lanes of a new run.

    Args:
        ranks: Data-parallel ranks.
        workers: Worker processes of each rank; 0 counts as 1.
        has_buffers: Whether lanes hold samples (packing, grouping): then there are no more of them than workers.

    >>> default_lanes(1, 4, has_buffers=False), default_lanes(5, 4, has_buffers=False)
    (48, 240)
    >>> default_lanes(2, 4, has_buffers=True)
    8
    """
    return ranks * max(1, workers) if has_buffers else math.lcm(ranks, _LANES)


def possible_ranks(lanes: int) -> list[int]:
    """Give the numbers of ranks that can share some lanes: those that divide their number.

    >>> possible_ranks(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [ranks for ranks in range(1, math.isqrt(lanes) + 1) if lanes % ranks == 0]
    return sorted({*small, *(lanes // ranks for ranks in small)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHosting:
    """The lanes of one rank, in the order in which their micro-batches come.

    The rank's batches come in rounds of ``turns`` turns: turn ``t`` belongs to worker ``t mod workers``, and turns of
    ``hosted`` or more make nothing, so that each round starts with worker 0 (torch's DataLoader asks its workers
    strictly in turn).

    Attributes:
        lanes: L, fixed for the life of a run.
        ranks: R, which divides L.
        rank: This rank.
        workers: Worker processes, 0 for none.
        first_batch: The micro-batch of the whole run at which all ranks (re)started.
    """

    lanes: int
    ranks: int
    rank: int
    workers: int
    first_batch: int = 0

    def __post_init__(self) -> None:
        if self.lanes % self.ranks:
            able = map(str, possible_ranks(self.lanes))
            raise StateError(
                f"a run of {self.lanes} lanes cannot be split over {self.ranks} ranks",
                do=f"use one of these numbers of ranks: {', '.join(able)}",
            )

    @property
    def hosted(self) -> int:
        """How many lanes the rank hosts."""
        return self.lanes // self.ranks

    @property
    def turns(self) -> int:
        """How many turns a round has: the hosted lanes, filled up to a multiple of the workers."""
        workers = max(1, self.workers)
        return -(-self.hosted // workers) * workers

    def batch(self, number: int) -> int:
        """Give which micro-batch of the run the rank's ``number``-th is, counted from the (re)start."""
        return self.first_batch + number * self.ranks + self.rank

    def lane(self, number: int) -> int:
        """Give the lane that makes the rank's ``number``-th micro-batch."""
        return self.batch(number) % self.lanes

    def worker(self, number: int) -> int:
        """Give the worker that makes the rank's ``number``-th micro-batch."""
        return number % self.hosted % max(1, self.workers)

    def lanes_of_worker(self, worker: int) -> list[int]:
        """Give the lanes that a worker hosts, in the order of their turns."""
        return [self.lane(turn) for turn in range(worker, self.hosted, max(1, self.workers))]
