"""``get_train_dataset``, ``get_val_dataset`` and ``get_val_datasets``: build a dataset from a path and hooks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig, check_booleans, check_integers
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from .open_sources import DatasetArguments, LoadedSource
from .run_datasets import LoadedDatasets
from .single_datasets import SourceFactory


def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None = 1,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    shuffle_buffer_size: int | None = 1000,
    max_samples_per_sequence: int | None = 100,
    virtual_epoch_length: int = 0,
    shuffle_over_epochs_multiplier: int | None = 1,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    repeat: bool = True,
    even_ranks: bool = False,
    **kwargs: Any,
) -> SavableDataset[Any]:
    """Build a dataset for training: shuffled, batched and, by default, without end.

    Args:
        path: Folder of a prepared dataset, a file of samples, or a metadataset (``.yaml``), which mixes datasets.
        split_part: Part of the split.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        batch_size: Samples of a micro-batch; None yields single samples.
        batch_drop_last: Drop the last batch of a pass (``repeat=False``) if it is smaller. With hooks that drop or
            regroup samples, each worker has one; with groups, one of each.
        packing_buffer_size: Samples that ``select_samples_to_pack`` chooses from; None does not pack.
        shuffle_buffer_size: Number of samples that are shuffled freely. It costs no memory. With None, 0 or 1, only
            slices interleave.
        max_samples_per_sequence: Length of a slice: neighbouring samples that are read one after another. None reads
            whole shards.
        virtual_epoch_length: Micro-batches of an iteration, on each rank; 0 does not end it.
        shuffle_over_epochs_multiplier: Number of epochs that are shuffled together; -1 draws slices with replacement;
            None does not shuffle.
        task_encoder: The hooks; by default samples are only batched.
        repeat: Repeat without end; otherwise each sample comes once.
        even_ranks: With ``repeat=False``: all ranks get the same number of micro-batches; the rest is dropped.
        **kwargs: ``split_config``, ``dataset_config``, ``subflavors`` or ``tags``, ``filter_name`` (the filter of every
            dataset), ``trust_code``; ``key_format``: ``"shard/key"`` or ``"key"``, the form of ``__key__``; ``subset``,
            a :class:`.DatasetSubset`; ``sample_type``: the expected class of the samples; ``storage_options``:
            endpoint, region and limits of object stores, by name (``{"endpoint_url": "https://minio.local"}``) or URL;
            ``field_map``, ``sample_loader`` and ``part_filter``, for what ``dataset.yaml`` leaves open; other arguments
            of the user's dataset class that ``dataset.yaml`` names; and the deprecated ``image_decode``, ``av_decode``,
            ``video_decode_audio``, ``auto_decode``, ``handler``.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: An argument or a file of the dataset is invalid.
        TrustError: The dataset needs to run code, and the caller does not allow it.
        TypeError: There is no such argument, or its value has another type.
    """
    arguments = DatasetArguments.parse(
        get_train_dataset,
        path,
        kwargs,
        split_part=split_part,
        epochs_together=_checked_epochs(shuffle_over_epochs_multiplier),
    )
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = arguments.with_handler(_checked_config(worker_config))
    check_integers(
        {
            "batch_size": batch_size,
            "packing_buffer_size": packing_buffer_size,
            "virtual_epoch_length": virtual_epoch_length,
            "shuffle_buffer_size": shuffle_buffer_size,
        }
    )
    check_booleans({"batch_drop_last": batch_drop_last, "repeat": repeat, "even_ranks": even_ranks})
    loaded = arguments.open(encoder, config, training=True)
    datasets = LoadedDatasets.of(
        loaded, slice_length=_checked_slice_length(max_samples_per_sequence), worker_config=config
    )
    chain: SavableDataset[Any] = encoder.build_train_datasets(
        datasets=datasets,
        worker_config=config,
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        virtual_epoch_length=virtual_epoch_length,
        shuffle_buffer_size=shuffle_buffer_size,
        repeat=repeat,
        **_optional_arguments(encoder, datasets, even_ranks=even_ranks),
    )
    return chain


def _optional_arguments(
    encoder: TaskEncoder[Any, Any, Any, Any], datasets: LoadedDatasets, *, even_ranks: bool
) -> dict[str, Any]:
    """Return the arguments that the encoder's ``build_train_datasets`` need not take.

    Hooks written for megatron-energon may take ``blend_mode``; others read it from the datasets, or take ``**options``.
    """
    takes_mode = "blend_mode" in signature(encoder.build_train_datasets).parameters
    optional: dict[str, Any] = {"blend_mode": datasets.blend_mode} if takes_mode else {}
    return optional | {"even_ranks": True} if even_ranks else optional


def _checked_config(given: Any) -> WorkerConfig:
    if given is None:
        return WorkerConfig.default_worker_config()
    if not isinstance(given, WorkerConfig):
        found = given.__name__ if isinstance(given, type) else repr(given)
        raise TypeError(
            f"expected a WorkerConfig as worker_config, found {found}; pass "
            "WorkerConfig.default_worker_config(num_workers=…)"
        )
    return given


def _checked_slice_length(given: int | None) -> int | None:
    check_integers({"max_samples_per_sequence": given})
    if given is not None and given < 1:
        raise ConfigError(f"expected max_samples_per_sequence of at least 1, or None, found {given}")
    return given


def _checked_epochs(given: int | None) -> int | None:
    check_integers({"shuffle_over_epochs_multiplier": given})
    if given is not None and given != -1 and given < 1:
        raise ConfigError(f"expected shuffle_over_epochs_multiplier to be -1, None or at least 1, found {given}")
    return given


def get_val_dataset(
    path: str | os.PathLike[str],
    *,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None = 1,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    even_ranks: bool = False,
    pad_ranks: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    **kwargs: Any,
) -> SavableDataset[Any]:
    """Build a dataset for validation: each sample once, in the same order in every pass and on any number of ranks.

    Args:
        path: Folder of a prepared dataset, a file of samples, or a metadataset (``.yaml``), whose datasets follow one
            another.
        split_part: Part of the split.
        worker_config: Ranks, workers and lanes of the run; by default :meth:`WorkerConfig.default_worker_config`.
        batch_size: Samples of a micro-batch; None yields single samples.
        batch_drop_last: Drop the last batch if it is smaller.
        packing_buffer_size: Samples that ``select_samples_to_pack`` chooses from; None does not pack.
        limit: Maximum number of micro-batches of a pass, on each rank.
        even_ranks: All ranks get the same number of micro-batches; the rest of a pass is dropped. Without it some ranks
            may get one more than others, and a collective operation in the loop would hang.
        pad_ranks: All ranks get the same number of micro-batches; those whose data has ended get padding, which
            :func:`~loader.samples.batching.padding.is_padding` recognises. The number is computed from the order.
        task_encoder: The hooks; by default samples are only batched.
        **kwargs: As in :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: An argument or a file of the dataset is invalid.
        TrustError: The dataset needs to run code, and the caller does not allow it.
        TypeError: There is no such argument, or its value has another type.
    """
    arguments = DatasetArguments.parse(get_val_dataset, path, kwargs, split_part=split_part)
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = arguments.with_handler(_checked_config(worker_config))
    return _chain(
        arguments.open(encoder, config, training=False),
        encoder,
        worker_config=config,
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        limit=limit,
        even_ranks=even_ranks,
        pad_ranks=pad_ranks,
    )


def get_val_datasets(
    path: str | os.PathLike[str],
    *,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_size: int | None = 1,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    limit: int | None = None,
    even_ranks: bool = False,
    pad_ranks: bool = False,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None = None,
    **kwargs: Any,
) -> list[tuple[SavableDataset[Any], SourceFactory]]:
    """Build the validation datasets of a metadataset one by one, to measure them separately.

    Args:
        path: As in :func:`get_val_dataset`; likewise the other arguments.

    Returns:
        ``[(dataset, source), …]``. A source is a dataset as ``build_val_datasets`` receives it, with ``name``,
        ``path``, ``paths``, ``split_part`` and ``subflavors``, and its ``place`` in the metadataset. A single dataset
        returns one pair.

    Raises:
        StorageError: As in :func:`get_val_dataset`; likewise the other errors.
    """
    arguments = DatasetArguments.parse(get_val_datasets, path, kwargs, split_part=split_part)
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = arguments.with_handler(_checked_config(worker_config))
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
                pad_ranks=pad_ranks,
            ),
            LoadedDatasets.of([one], training=False, worker_config=config).factories[0],
        )
        for one in arguments.open(encoder, config, training=False)
    ]


def _chain(
    loaded: Sequence[LoadedSource],
    encoder: TaskEncoder[Any, Any, Any, Any],
    *,
    worker_config: WorkerConfig,
    even_ranks: bool,
    pad_ranks: bool,
    **options: Any,
) -> SavableDataset[Any]:
    check_integers({name: options[name] for name in ("batch_size", "packing_buffer_size", "limit")})
    check_booleans({"batch_drop_last": options["batch_drop_last"], "even_ranks": even_ranks, "pad_ranks": pad_ranks})
    datasets = LoadedDatasets.of(loaded, training=False, worker_config=worker_config)
    chain: SavableDataset[Any] = encoder.build_val_datasets(
        datasets=datasets,
        worker_config=worker_config,
        **({"even_ranks": True} if even_ranks else {}),
        **({"pad_ranks": True} if pad_ranks else {}),
        **options,
    )
    return chain
