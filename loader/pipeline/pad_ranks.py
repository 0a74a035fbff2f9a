"""Pad passes, so that all ranks have the same number of micro-batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, cast

from ..errors import ConfigError
from ..escaped_log import get_logger
from ..order import PASS_LANES
from ..samples.batching.empty_batch import empty_batch
from ..samples.batching.padding_marks import mark_padding
from .contract.rank_stage import RankRunning, RankStage, rank_stage_below
from .contract.stage import SKIPPED, SavableDataset
from .contract.worker_config import WorkerConfig

_log = get_logger(__name__)


class PadRanksDataset(RankStage):
    """Yield the same number of micro-batches on all ranks: a rank whose data has ended yields padding.

    Each rank computes the number from the order of the pass, and exchanges no message with others.

    If the number of micro-batches of a pass is known in advance, each rank yields ``ceil(number / world_size)`` of
    them. Otherwise (packing, grouping) it yields as many as the rank with the most samples could have: one pack or
    group of each sample, in batches of ``batch_size``. Where a hook is a generator, there is no such number, and
    ``max_batches`` replaces it. A single rank gets no padding.

    Padding is made of the first micro-batch of the pass, and so is equal on all ranks; see
    :func:`~loader.samples.batching.batch.is_padding`.
    """

    def __init__(
        self,
        dataset: SavableDataset[Any],
        *,
        padding: Callable[[Any], Any] = empty_batch,
        max_batches: int | None = None,
        worker_config: WorkerConfig | None = None,
    ) -> None:
        super().__init__(dataset, worker_config=worker_config, name="pad_ranks")
        self.padding = padding
        self.max_batches = max_batches
        below = rank_stage_below(dataset)
        if below is not None:
            raise ConfigError(
                f"pad_ranks pads the passes of the data, so {below.name} cannot come before it",
                hint=f"apply pad_ranks first, then {below.name}",
            )
        if dataset.repeats:
            raise ConfigError("pad_ranks pads passes that end, and this dataset repeats without end")
        if max_batches is None and self._total is None and self._bound(self._default_lanes) is None:
            raise ConfigError(
                "pad_ranks cannot compute from the order how many micro-batches a pass has at most: a hook is a "
                "generator, or a stage is of a class that does not define lane_bound",
                hint="pass limit=…, the number of micro-batches of each rank, or even_ranks=True instead",
            )

    @property
    def _total(self) -> int | None:
        """Number of micro-batches of a pass on all ranks; None if not known in advance."""
        return self.inputs[0].items

    @property
    def _default_lanes(self) -> int:
        return self.worker_config.lanes or PASS_LANES

    def _bound(self, lanes: int) -> int | None:
        """Return the largest number of micro-batches that a rank may have in a pass; None if there is no bound."""
        bounds = [self.inputs[0].lane_bound(lane, lanes) for lane in range(lanes)]
        if None in bounds:
            return None
        ranks = self.worker_config.world_size
        return max(sum(cast("list[int]", bounds)[rank::ranks]) for rank in range(ranks))

    def steps(self, lanes: int) -> int:
        total = self._total
        if total is not None:
            return -(-total // self.worker_config.world_size)
        bound = self._bound(lanes)
        return bound if bound is not None else self.max_batches or 0

    def __len__(self) -> int:
        return len(self.inputs[0]) if self.worker_config.world_size == 1 else self.steps(self._default_lanes)

    # The count of the stage is 0 at the beginning of a pass. In a pass of a known number of micro-batches, it is the
    # number of those that the steps so far have of all ranks, which is the same on any number of ranks. Otherwise it
    # is the number of samples and 1, less the remaining steps.

    def count_after(self, steps: int, count: int, lanes: int) -> int:
        """Return the count after some more steps."""
        if self._total is not None:
            return count + steps * self.worker_config.world_size
        return self._complement(self.remaining(count, lanes) - steps)

    def remaining(self, count: int, lanes: int) -> int:
        total = self._total
        if total is not None:
            return max(0, -(-(total - count) // self.worker_config.world_size))
        return self._complement(count) if count else self.steps(lanes)

    def _complement(self, micro_batch: int) -> int:
        return max(0, self.inputs[0].round_samples + (self.max_batches or 0) + 1 - micro_batch)

    def count_on(self, ranks: int, count: int) -> int:
        config = self.worker_config
        is_bounded = self._bound(self._default_lanes) is not None
        if self._total is not None or not count or ranks == config.world_size or not is_bounded:
            return count
        # A rank may get all that is left of the lanes, and each worker ends with a short batch.
        remaining = self._complement(count)
        more = remaining * ranks + max(1, config.num_workers) if remaining else 0
        return self._complement(min(more, self.inputs[0].round_samples))

    def iterate(self, running: RankRunning) -> Iterator[Any]:
        lanes, alone = running.upstream.lanes, self.worker_config.world_size == 1
        # A rank whose data ended before the state was saved continues with its padding.
        batches: Iterator[Any] = iter(()) if running.count and running.upstream.ended else running.upstream.batches()
        for _ in range(self.remaining(running.count, lanes)):
            batch = next(batches, _END)
            if batch is _END:
                if alone:
                    break
                batch = self._next_padding(running)
            running.count = self.count_after(1, running.count, lanes)
            yield batch
        running.count = 0
        # A rank that has more drops it: the other ranks have ended.
        if next(batches, _END) is not _END:
            _log.error(
                "rank %d has more micro-batches in this pass than the order allows, and drops the rest: a stage makes "
                "several items of one, such as a sample that is in several groups to pack",
                self.worker_config.rank,
            )
            running.upstream.start_over()

    def _next_padding(self, running: RankRunning) -> Any:
        if running.kept is None:  # of this run; the same in all passes
            first = running.upstream.first_batch()
            running.kept = mark_padding({} if first is SKIPPED else self.padding(first))
        return mark_padding(copy.deepcopy(running.kept))


_END: Any = object()
