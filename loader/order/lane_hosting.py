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

    The rank's batches come in rounds, in which each worker has as many turns as the others: turn ``t`` belongs to
    worker ``t mod workers``. The last turns of a round may make no batch: they fill it, so that each round starts with
    worker 0 (torch's DataLoader asks its workers strictly in turn).

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
    def turns(self) -> int:
        """Number of turns that each worker has in a round."""
        return -(-self.lanes // (self.ranks * max(1, self.workers)))

    def first_round(self, worker: int) -> range:
        """Return the numbers in the run of a worker's micro-batches of the first round.

        Batch ``b`` is of lane ``b mod L``. The same lane makes batch ``b + L`` in the next round.
        """
        first, workers = self.first_batch + self.rank, max(1, self.workers)
        return range(first + worker * self.ranks, first + self.lanes, workers * self.ranks)
