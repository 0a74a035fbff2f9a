"""``get_train_dataset``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any

from ...errors import ConfigError
from ...metadataset.documents.leaf_plan import LeafPlan
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from .arguments import DatasetArguments
from .open_source import LoadedSource
from .run_datasets import LoadedDatasets

__all__ = ["get_train_dataset", "get_val_dataset", "get_val_datasets"]


def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    shuffle_buffer_size: int | None,
    max_samples_per_sequence: int | None,
    virtual_epoch_length: int = 0,
    shuffle_over_epochs_multiplier: int | None = 1,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    repeat: bool = True,
    even_ranks: bool = False,
    **kwargs: Any,
) -> SavableDataset[Any]:
    """Give a dataset for training: shuffled, batched and, by default, without end.

    Args:
        path: The folder of a prepared dataset, a JSONL file, or a metadataset (``.yaml``), which mixes several.
        split_part: Which part of its split.
        worker_config: How the run is spread; by default :meth:`WorkerConfig.default_worker_config`.
        batch_size: Samples of a micro-batch; None gives single samples.
        batch_drop_last: Leave out a last, smaller batch (of a pass, with ``repeat=False``).
        packing_buffer_size: Samples among which ``select_samples_to_pack`` chooses; None does not pack.
        shuffle_buffer_size: Samples among which the order is as good as free. It costs no memory. None, 0 or 1 only
            interleave the slices.
        max_samples_per_sequence: Neighbouring samples that are read one after another, a slice; None reads whole
            shards so.
        virtual_epoch_length: Micro-batches after which an iteration ends, on each rank; 0: it does not.
        shuffle_over_epochs_multiplier: How many epochs are shuffled together; -1 draws slices with replacement; None
            does not shuffle at all.
        task_encoder: The hooks; by default samples are only batched.
        repeat: Go on for ever; else each sample comes once.
        even_ranks: With ``repeat=False``: all ranks get the same number of micro-batches, and what is left is dropped.
        **kwargs: ``split_config``, ``dataset_config``, ``subflavors``, ``trust_code``; and the deprecated
            ``image_decode``, ``av_decode``, ``video_decode_audio``, ``auto_decode``, ``handler``.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: An argument or a file of the dataset says something wrong.
        TrustError: The dataset asks to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    arguments = DatasetArguments.parse(
        "get_train_dataset",
        path,
        kwargs,
        signature(get_train_dataset).parameters,
        split_part=split_part,
        epochs_together=_epochs_together(shuffle_over_epochs_multiplier),
    )
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    loaded = arguments.open(encoder, training=True)
    config = arguments.with_handler(worker_config or WorkerConfig.default_worker_config())
    datasets = LoadedDatasets.of(loaded, slice_length=_slice_length(max_samples_per_sequence), worker_config=config)
    # As code written for megatron-energon has it; others ask the datasets, or take all that there is as **options.
    takes_mode = "blend_mode" in signature(encoder.build_train_datasets).parameters
    chain: SavableDataset[Any] = encoder.build_train_datasets(
        datasets=datasets,
        worker_config=config,
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        virtual_epoch_length=virtual_epoch_length,
        shuffle_buffer_size=shuffle_buffer_size,
        repeat=repeat,
        **({"blend_mode": datasets.blend_mode} if takes_mode else {}),
        **({"even_ranks": True} if even_ranks else {}),
    )
    return chain


def _slice_length(asked: int | None) -> int | None:
    if asked is not None and asked < 1:
        raise ConfigError(f"expected max_samples_per_sequence of at least 1, or None, found {asked}")
    return asked


def _epochs_together(asked: int | None) -> int | None:
    if asked is not None and asked != -1 and asked < 1:
        raise ConfigError(f"expected shuffle_over_epochs_multiplier to be -1, None or at least 1, found {asked}")
    return asked


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
        **kwargs: As in :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

    Raises:
        StorageError: The folder is missing, or not prepared.
        ConfigError: An argument or a file of the dataset says something wrong.
        TrustError: The dataset asks to run code, and the caller does not allow it.
        TypeError: There is no such argument.
    """
    arguments = DatasetArguments.parse(
        "get_val_dataset", path, kwargs, signature(get_val_dataset).parameters, split_part=split_part
    )
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    loaded = arguments.open(encoder, training=False)
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
    arguments = DatasetArguments.parse(
        "get_val_datasets", path, kwargs, signature(get_val_datasets).parameters, split_part=split_part
    )
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
        for one in arguments.open(encoder, training=False)
    ]


def _chain(
    loaded: Sequence[LoadedSource],
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
