"""Return the samples of a training run, step by step, as the grid shows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigError

if TYPE_CHECKING:
    from ..runs import PlannedRun

_MAX_STEPS = 1_000_000  # behind the first one that are shown: a run has no end


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOrder:
    """The samples of a training run from a step on; see :class:`loader.inspect.runs.RunRequest`.

    Attributes:
        path: A prepared dataset, or a metadataset.
        split_part: Part of the split.
        batch_size: Samples of a micro-batch.
        world_size: Number of data-parallel ranks.
        num_workers: Worker processes of each rank.
        shuffle_buffer_size: As of ``get_train_dataset``.
        max_samples_per_sequence: As of ``get_train_dataset``.
        seed_offset: As of ``WorkerConfig``.
        step: The first step.
        rank: Only the micro-batches of this rank; None for those of all ranks, in their order.
    """

    path: str
    split_part: str = "train"
    batch_size: int = 1
    world_size: int = 1
    num_workers: int = 0
    shuffle_buffer_size: int | None = None
    max_samples_per_sequence: int | None = None
    seed_offset: int = 0
    step: int = 0
    rank: int | None = None

    def __len__(self) -> int:
        return _MAX_STEPS * (self.world_size if self.rank is None else 1) * self.batch_size


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
    size, world = order.batch_size, order.world_size
    if size < 1 or world < 1:
        raise ConfigError(f"expected at least 1 sample and 1 rank, found {size} and {world}", hint="raise the numbers")
    if order.rank is not None and not 0 <= order.rank < world:
        raise ConfigError(f"expected a rank in [0, {world}), found {order.rank}", hint="raise the number of ranks")
    run = _open_run(replace(order, step=0, rank=None))
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
def _open_run(order: TrainingOrder) -> PlannedRun:
    from ..runs import PlannedRun, RunRequest

    return PlannedRun(
        RunRequest(
            path=order.path,
            split_part=order.split_part,
            batch_size=order.batch_size,
            world_size=order.world_size,
            num_workers=order.num_workers,
            shuffle_buffer_size=order.shuffle_buffer_size,
            max_samples_per_sequence=order.max_samples_per_sequence,
            seed_offset=order.seed_offset,
        )
    )
