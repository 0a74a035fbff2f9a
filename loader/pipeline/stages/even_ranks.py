"""End passes on all ranks after the same number of micro-batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import ConfigError
from ...escaped_log import get_logger
from ...lazy_torch import torch
from ..contract.rank_group import check_group, is_distributed
from ..contract.rank_stage import RankInput, RankRunning, RankStage, rank_stage_below
from ..contract.stage import SavableDataset
from ..contract.worker_config import WorkerConfig

_log = get_logger(__name__)

Agreement = Callable[[bool], tuple[bool, bool]]
"""``agree(this rank has another micro-batch)`` returns ``(all ranks have one, some rank has one)``."""


class EvenRanksDataset(RankStage):
    """Yield the same number of micro-batches on all ranks, so that collective operations of a loop do not hang.

    Before each micro-batch an ``all_reduce`` in the ``data_parallel_group`` finds out if all ranks have another one;
    all ranks must iterate in step. The rest of a pass is dropped.

    If the number of micro-batches of a pass is known in advance, each rank yields at most ``number // world_size`` of
    them, and ``torch.distributed`` need not be initialised. Without it, skipped samples may
    make a rank's pass shorter than the passes of others.
    """

    def __init__(self, dataset: SavableDataset[Any], *, worker_config: WorkerConfig | None = None) -> None:
        super().__init__(dataset, worker_config=worker_config, name="even_ranks")
        self.agrees = True

    def without_agreement(self) -> EvenRanksDataset:
        """Return the stage for a process that has several data ranks: they end by their known share."""
        if self._share is None and not self.repeats:
            raise ConfigError(
                "even_ranks has to synchronise the ranks, since the number of micro-batches is not known in advance; "
                "ranks that serve several data ranks cannot do this",
                hint="omit even_ranks: data ranks that have ended give None",
            )
        stage = copy.copy(self)
        stage.agrees = False
        return stage

    @property
    def _share(self) -> int | None:
        """Number of micro-batches of each rank in a pass; None if not known in advance."""
        upstream = self.inputs[0]
        items = upstream.items if rank_stage_below(upstream) is None else None
        return None if items is None else items // self.worker_config.world_size

    def __len__(self) -> int:
        share = self._share
        return len(self.inputs[0]) if share is None else share

    def count_on(self, ranks: int, count: int) -> int:
        items, share = self.inputs[0].items, self._share
        if items is None or share is None:
            return count
        return share - (items - count * ranks) // self.worker_config.world_size

    def on_rank(self, upstream: RankInput, count: int) -> RankRunning:
        config = self.worker_config
        share = self._share
        if share == 0:
            _log.warning(
                "even_ranks leaves no micro-batch to any rank: the pass has fewer than there are ranks (%d)",
                config.world_size,
            )
        # Connected ranks agree even if their share is known, because whole micro-batches may be skipped.
        alone = (
            not self.agrees or config.world_size == 1 or self.repeats or (share is not None and not _has_group(config))
        )
        return RankRunning(self, upstream, count, kept=(share, _alone if alone else _agreement(config)))

    def iterate(self, running: RankRunning) -> Iterator[Any]:
        # `running.count` is the number of micro-batches delivered in the pass.
        share, agree = running.kept
        batches = running.upstream.batches()
        all_have = some_have = True
        # Yield until one rank has no more; what other ranks have left of the pass is dropped.
        while share is None or running.count < share:
            batch = next(batches, _END)
            all_have, some_have = agree(batch is not _END)
            if not all_have:
                break
            running.count += 1
            yield batch
        running.count = 0
        if some_have:
            running.upstream.start_over()  # drops the rest of the pass


_END: Any = object()


def _has_group(config: WorkerConfig) -> bool:
    return is_distributed() and torch.distributed.get_world_size(config.data_parallel_group) == config.world_size


def _alone(has_one: bool) -> tuple[bool, bool]:
    return has_one, has_one


def _agreement(config: WorkerConfig) -> Agreement:
    group = config.data_parallel_group
    check_group(config, "even_ranks", ", or omit even_ranks: the number of micro-batches is not known in advance")
    # NCCL reduces tensors on GPUs only.
    on_gpu = torch.distributed.get_backend(group) == "nccl"

    def agree(has_one: bool) -> tuple[bool, bool]:
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        # The minimum over all ranks of "has one" and of "has none" answers both questions at once.
        flags = torch.tensor([has_one, not has_one], dtype=torch.int32, device=device)
        torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MIN, group=group)
        all_have, none_has = flags.tolist()
        return bool(all_have), not none_has

    return agree
