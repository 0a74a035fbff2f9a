"""The arguments of a training run whose order is calculated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...samples.encoding.task_encoder import TaskEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The arguments of a training run that determine its samples.

    Attributes:
        path: A prepared dataset, or a metadataset.
        batch_size: Samples of a micro-batch; None for single samples.
        world_size: Number of data-parallel ranks.
        num_workers: Worker processes of each rank.
        split_part: Part of the split.
        shuffle_buffer_size: As of ``get_train_dataset``.
        max_samples_per_sequence: As of ``get_train_dataset``.
        shuffle_over_epochs_multiplier: As of ``get_train_dataset``.
        packing_buffer_size: As of ``get_train_dataset``. Without a ``task_encoder``, samples are not packed, but the
            lanes are those of a run that packs.
        seed_offset: As of ``WorkerConfig``.
        lanes: Number of lanes; None for that of a new run. A restored run keeps the number that it began with.
        filter_name: Filter of every dataset.
        trust_code: The dataset may run its code.
        task_encoder: The hooks of the run, for runs whose micro-batches are rebuilt; None: only the order counts.
    """

    path: str
    batch_size: int | None = 1
    world_size: int = 1
    num_workers: int = 0
    split_part: str = "train"
    shuffle_buffer_size: int | None = None
    max_samples_per_sequence: int | None = None
    shuffle_over_epochs_multiplier: int | None = 1
    packing_buffer_size: int | None = None
    seed_offset: int = 0
    lanes: int | None = None
    filter_name: str | None = None
    trust_code: bool = False
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None
