"""The number of samples of an epoch that each worker of a run reads: a nominal number, which sets the length of loops.

Lanes give workers other samples than this division does. It has the numbers of megatron-energon, so that loops that
were written for it have the same length here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


def worker_share(samples: Sequence[int], repetitions: Sequence[float], *, worker: int, workers: int) -> int:
    """Return the number of samples of a worker in an epoch.

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
