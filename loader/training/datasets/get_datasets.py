"""``get_val_dataset`` and ``get_val_datasets``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any

from ..metadataset.leaf_plan import LeafPlan
from ..pipeline.stage import SavableDataset
from ..pipeline.worker_config import WorkerConfig
from ..samples.task_encoder import DefaultTaskEncoder, TaskEncoder
from .dataset_arguments import DatasetArguments
from .loaded_datasets import LoadedDatasets
from .open_leaf import LoadedLeaf

__all__ = ["get_val_dataset", "get_val_datasets"]


def get_val_dataset(
    path: str | os.PathLike[str],
    *,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    even_ranks: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    **kwargs: Any,
) -> SavableDataset[Any]:
    """Give a dataset for validation: each sample once, in the same order at every pass, whatever the ranks.

    Args:
        path: The folder of a prepared dataset, a JSONL file, or a metadataset (``.yaml``), whose datasets follow one
            another.
        split_part: Which part of its split.
        worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
        batch_size: Samples of a micro-batch; None gives single samples.
        batch_drop_last: Leave out the last batch where it is smaller.
        packing_buffer_size: Samples among which ``select_samples_to_pack`` chooses; None does not pack.
        limit: The most micro-batches of a pass, on each rank.
        even_ranks: All ranks get the same number of micro-batches: what is left of a pass is dropped. Without it some
            ranks may get one more than others, and a collective operation in the loop would hang.
        task_encoder: The hooks; by default samples are only batched.
        **kwargs: As in :func:`~loader.training.train_dataset.get_train_dataset`.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: An argument or a file of the dataset says something wrong.
        TrustError: The dataset asks to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    arguments = DatasetArguments.parse("get_val_dataset", kwargs, signature(get_val_dataset).parameters)
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    loaded = arguments.load(path, split_part, encoder, training=False)
    return _chain(
        loaded,
        encoder,
        worker_config=arguments.with_handler(worker_config or WorkerConfig.default_worker_config()),
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        limit=limit,
        even_ranks=even_ranks,
    )


def get_val_datasets(
    path: str | os.PathLike[str],
    *,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    even_ranks: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    **kwargs: Any,
) -> list[tuple[SavableDataset[Any], LeafPlan]]:
    """Give the validation datasets of a metadataset one by one, to be told apart in what is measured.

    Args:
        path: As in :func:`get_val_dataset`, like all others.

    Returns:
        ``[(dataset, source), …]``; a source says of its dataset ``path``, ``split_part``, ``subflavors`` and its
        ``place`` in the metadataset. One pair for a single dataset.

    Raises:
        StorageError: As in :func:`get_val_dataset`, like all others.
    """
    arguments = DatasetArguments.parse("get_val_datasets", kwargs, signature(get_val_datasets).parameters)
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = arguments.with_handler(worker_config or WorkerConfig.default_worker_config())
    return [
        (
            _chain(
                [one],
                encoder,
                worker_config=config,
                batch_size=batch_size,
                batch_drop_last=batch_drop_last,
                packing_buffer_size=packing_buffer_size,
                limit=limit,
                even_ranks=even_ranks,
            ),
            one.plan,
        )
        for one in arguments.load(path, split_part, encoder, training=False)
    ]


def _chain(
    loaded: Sequence[LoadedLeaf],
    encoder: TaskEncoder[Any, Any, Any, Any],
    *,
    worker_config: WorkerConfig,
    even_ranks: bool,
    **options: Any,
) -> SavableDataset[Any]:
    datasets = LoadedDatasets.of(loaded, training=False, worker_config=worker_config)
    chain: SavableDataset[Any] = encoder.build_val_datasets(
        datasets=datasets,
        worker_config=worker_config,
        **({"even_ranks": True} if even_ranks else {}),
        **options,
    )
    return chain
