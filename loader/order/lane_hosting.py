"""Assign micro-batches to lanes, and lanes to ranks and workers; count the samples of workers.

Lane ``m mod L`` makes micro-batch ``m`` of a run, on whichever rank and worker it is hosted. So the sequence of
micro-batches does not depend on the numbers of ranks and workers, and a run can be resumed with other numbers. A lane
is what mosaicml-streaming calls a canonical node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..errors import StateError

PASS_LANES = 48
"""Lanes of a pass whose lanes are visited one after another."""

_DEFAULT_LANES = 48  # divisible by 2, 3, 4, 6, 8, 12, 16, 24


def default_lanes(ranks: int, workers: int, *, has_buffers: bool) -> int:
    """Choose the number of lanes of a new run.

    Args:
        ranks: Number of data-parallel ranks.
        workers: Number of worker processes of each rank; 0 counts as 1.
        has_buffers: True if lanes buffer samples (packing, grouping): then each worker has one lane.

    >>> default_lanes(1, 4, has_buffers=False), default_lanes(5, 4, has_buffers=False)
    (48, 240)
    >>> default_lanes(2, 4, has_buffers=True)
    8
    """
    return ranks * max(1, workers) if has_buffers else math.lcm(ranks, _DEFAULT_LANES)


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
                f"a run of {self.lanes} lanes cannot be split over {self.ranks} ranks",
                hint=f"use one of these numbers of ranks: {', '.join(possible)}",
            )

    @property
    def hosted(self) -> int:
        """Number of lanes that the rank hosts."""
        return self.lanes // self.ranks

    @property
    def turns(self) -> int:
        """Number of turns of a round: the hosted lanes, rounded up to a multiple of the workers."""
        workers = max(1, self.workers)
        return -(-self.hosted // workers) * workers

    def batch(self, number: int) -> int:
        """Return the number in the run of the rank's ``number``-th micro-batch since the start or resume."""
        return self.first_batch + number * self.ranks + self.rank

    def lane(self, number: int) -> int:
        """Return the lane that makes the rank's ``number``-th micro-batch."""
        return self.batch(number) % self.lanes

    def worker(self, number: int) -> int:
        """Return the worker that makes the rank's ``number``-th micro-batch."""
        return number % self.hosted % max(1, self.workers)

    def lanes_of_worker(self, worker: int) -> list[int]:
        """Return the lanes that a worker hosts, in the order of their turns."""
        return [self.lane(turn) for turn in range(worker, self.hosted, max(1, self.workers))]


def worker_share(samples: Sequence[int], repetitions: Sequence[float], *, worker: int, workers: int) -> int:
    """Return the number of samples of a worker in an epoch: a nominal number, which sets the length of loops.

    Lanes give workers other samples than this division does. It has the numbers of megatron-energon, so that loops
    that were written for it have the same length here.

    Each source is divided evenly. The samples that remain go to workers that are spread evenly, one each; the turn
    continues in the next source.

    Args:
        samples: Number of samples of each source.
        repetitions: How often a sample of each source comes in an epoch; a fraction of a sample is dropped.
        worker: The worker, among those of all ranks.
        workers: Number of these workers.

    >>> [worker_share((100, 40), (1, 1), worker=worker, workers=3) for worker in range(3)]
    [47, 47, 46]
    """
    turn = _turns(workers)[worker]
    total = first_turn = 0
    for count, times in zip(samples, repetitions, strict=True):
        each, extra = divmod(count, workers)
        total += int((each + ((turn - first_turn) % workers < extra)) * times)
        first_turn = (first_turn + extra) % workers
    return total


@lru_cache(maxsize=8)
def _turns(workers: int) -> list[int]:
    """Return the turn of each worker: halves take turns, and the quarters in them."""
    turns = [0] * workers
    for turn, worker in enumerate(_spread(workers)):
        turns[worker] = turn
    return turns


def _spread(workers: int) -> list[int]:
    if workers == 1:
        return [0]
    half = workers // 2
    first, second = _spread(half), [half + worker for worker in _spread(workers - half)]
    alternating = [worker for pair in zip(first, second, strict=False) for worker in pair]
    return alternating + second[half:]
