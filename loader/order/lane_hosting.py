"""The lanes of each rank, for any number of ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import StateError, plural


def possible_ranks(lanes: int) -> list[int]:
    """Return the numbers of ranks that can share some lanes: the divisors of the number of lanes.

    >>> possible_ranks(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [ranks for ranks in range(1, math.isqrt(lanes) + 1) if lanes % ranks == 0]
    return sorted({*small, *(lanes // ranks for ranks in small)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHosting:
    """The lanes of one rank, in the order of their micro-batches.

    The rank's batches come in rounds of ``turns`` turns. Turn ``t`` belongs to worker ``t mod workers``. Turns from
    ``hosted`` on make no batch: they fill the round, so that each round starts with worker 0 (torch's DataLoader asks
    its workers strictly in turn).

    Attributes:
        lanes: Number of lanes of the run, L, fixed for its lifetime.
        ranks: Number of ranks, R, a divisor of L.
        rank: This rank.
        workers: Number of worker processes, 0 for none.
        first_batch: The micro-batch of the whole run at which all ranks started or resumed.
    """

    lanes: int
    ranks: int
    rank: int
    workers: int
    first_batch: int = 0

    def __post_init__(self) -> None:
        if self.lanes % self.ranks:
            possible = map(str, possible_ranks(self.lanes))
            raise StateError(
                f"a run of {plural(self.lanes, 'lane')} cannot be split over {plural(self.ranks, 'rank')}",
                hint=f"use one of these numbers of ranks: {', '.join(possible)}",
            )

    @property
    def hosted(self) -> int:
        return self.lanes // self.ranks

    @property
    def turns(self) -> int:
        """Number of turns of a round: the hosted lanes, rounded up to a multiple of the workers."""
        workers = max(1, self.workers)
        return -(-self.hosted // workers) * workers

    def batch(self, micro_batch: int) -> int:
        """Return the number in the run of the rank's ``micro_batch``-th micro-batch since the start or resume."""
        return self.first_batch + micro_batch * self.ranks + self.rank

    def lane(self, micro_batch: int) -> int:
        return self.batch(micro_batch) % self.lanes

    def worker(self, micro_batch: int) -> int:
        return micro_batch % self.hosted % max(1, self.workers)

    def lanes_of_worker(self, worker: int) -> list[int]:
        return [self.lane(turn) for turn in range(worker, self.hosted, max(1, self.workers))]
