"""Order the samples of a dataset, or those of a training run, without holding a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arrays import IntArray
from ...errors import ConfigError
from ...order.index_permutation import permute_array

if TYPE_CHECKING:
    from ..runs import PlannedRun, RunRequest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleOrder:
    """An order of samples.

    Attributes:
        ranges: The samples, as ranges of their numbers, or as an array of them.
        seed: Shuffles them; None keeps the order of the shards.
    """

    ranges: Sequence[range] | IntArray
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.ranges) if isinstance(self.ranges, np.ndarray) else sum(map(len, self.ranges))


def ordered_samples(order: SampleOrder, start: int, stop: int) -> IntArray:
    """Return the numbers of the samples at the places from ``start`` to ``stop`` of an order; fewer at its end.

    >>> ordered_samples(SampleOrder(ranges=[range(3), range(7, 9)]), 2, 10).tolist()
    [2, 7, 8]
    """
    total = len(order)
    places = np.arange(max(0, start), max(0, min(stop, total)), dtype=np.int64)
    if order.seed is not None and len(places):
        places = permute_array(places, total, order.seed)
    if isinstance(order.ranges, np.ndarray):
        found: IntArray = order.ranges[places]
        return found
    ends = np.cumsum([len(some) for some in order.ranges], dtype=np.int64)
    which = np.searchsorted(ends, places, side="right")
    shifts = np.array([some.start - end + len(some) for some, end in zip(order.ranges, ends, strict=True)], np.int64)
    return places + shifts[which] if len(places) else places


_MAX_STEPS = 1_000_000  # behind the first one that are shown: a run has no end


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    """The samples of a training run from a step on; see :class:`loader.inspect.runs.RunRequest`.

    Attributes:
        request: The run.
        step: The first step.
        rank: Only the micro-batches of this rank; None for those of all ranks, in their order.
    """

    request: RunRequest
    step: int = 0
    rank: int | None = None

    def __len__(self) -> int:
        ranks = self.request.world_size if self.rank is None else 1
        return _MAX_STEPS * ranks * (self.request.batch_size or 1)


class TrainingRow(NamedTuple):
    """A sample of a run: step, rank, place in the micro-batch, path of its dataset, full key, and number there."""

    step: int
    rank: int
    position: int
    dataset: str
    key: str
    number: int


def training_rows(order: TrainingOrder, start: int, stop: int) -> list[TrainingRow]:
    """Return the samples at the places from ``start`` to ``stop`` of an order.

    Raises:
        ConfigError: There is no such rank, or an argument of the run is invalid.
        StorageError: A dataset is missing or not prepared.
    """
    size, world = order.request.batch_size or 0, order.request.world_size
    if size < 1 or world < 1:
        raise ConfigError(f"expected at least 1 sample and 1 rank, found {size} and {world}", hint="raise the numbers")
    if order.rank is not None and not 0 <= order.rank < world:
        raise ConfigError(f"expected a rank in [0, {world}), found {order.rank}", hint="raise the number of ranks")
    run = _open_run(order.request)
    rows: list[TrainingRow] = []
    stop = min(stop, len(order))
    for batch in range(start // size, -(-stop // size)):
        step, rank = divmod(batch, world) if order.rank is None else (batch, order.rank)
        step += order.step
        source, _epoch, index = run.batch(step * world + rank)
        for position, (one, number) in enumerate(zip(source.tolist(), index.tolist(), strict=True)):
            if start <= batch * size + position < stop:
                found = run.sources[one]
                key = found.folder.full_key(number)
                rows.append(TrainingRow(step, rank, position, found.request.path, key, number))
    return rows


@lru_cache(maxsize=4)
def _open_run(request: RunRequest) -> PlannedRun:
    from ..runs import PlannedRun

    return PlannedRun(request)
