"""``get_train_dataset``, ``get_val_dataset`` and ``get_val_datasets``: build a dataset from a path and hooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from ...errors import ConfigError
from ...pipeline.contract.stage import SavableDataset
from ...pipeline.contract.worker_config import WorkerConfig, check_booleans, check_integers
from ...pipeline.failures.policy import hook_name, three_argument_handler
from ...pipeline.reading.planned_groups import PlannedGroups
from ...pipeline.stages.batch import plans_groups
from ...samples.encoding.task_encoder import DefaultTaskEncoder, TaskEncoder
from ...shared_signatures import takes_arguments_of
from .chain import checked_count
from .dataset_factory import SourceFactory
from .open_sources import open_leaves
from .planning import PLANNING_ARGUMENTS, CostFormulas, checked_buffer, planning_of
from .run_datasets import LoadedDatasets


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
    balance: CostFormulas | None = None,
    packing: str | None = None,
    pack_capacity: Mapping[str, float] | None = None,
    batch_cost: Mapping[str, float] | None = None,
    padded: bool = False,
    oversized: str | None = None,
    plan_window: int | None = None,
    allow_new_costs: bool = False,
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
        balance: A column, a formula over columns such as ``"ceil(width / 28) * ceil(height / 28)"``, or several:
            micro-batches of ``batch_size`` samples then cost nearly the same on all ranks.
        packing: Pack samples up to ``pack_capacity`` by ``"best_fit"`` or another packer of :mod:`loader.packing`,
            planned from columns; or over ``packing_buffer_size`` samples, if a cost is not a column but a
            ``@sample_size_metric`` of the task encoder. By default, a pack is what :func:`.concat_pack` makes.
        pack_capacity: The largest sum of each cost in a pack: ``{"tokens": 8192}``.
        batch_cost: Micro-batches of as many samples as fit: ``{"tokens": 16384}``.
        padded: Micro-batches are padded to their longest sample: samples of like cost come together, and the
            micro-batches of a step are alike. ``batch_cost`` then limits the largest cost times the number of samples.
        oversized: What becomes of a sample that costs more than a pack may: ``"error"`` (default), ``"skip"``,
            ``"alone"`` (in a pack that exceeds the capacity), or ``"hook"`` (``pack_selected_samples`` gets it alone).
        plan_window: Samples of a lane that are planned together; by default 16,384, or more for 100 packs.
        allow_new_costs: Restore a state of other costs, such as of a column that was written again: each lane plans
            again from its next window, and passes over the rest of the present one.
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
    planned = {name: value for name, value in locals().items() if name in PLANNING_ARGUMENTS}
    # Check the arguments.
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = _checked_config(worker_config, kwargs)
    check_integers(
        {
            "batch_size": batch_size,
            "packing_buffer_size": packing_buffer_size,
            "virtual_epoch_length": virtual_epoch_length,
            "shuffle_buffer_size": shuffle_buffer_size,
        }
    )
    check_booleans({"batch_drop_last": batch_drop_last, "repeat": repeat, "even_ranks": even_ranks})
    # Open the datasets.
    leaves = open_leaves(
        get_train_dataset,
        path,
        kwargs,
        task_encoder=encoder,
        training=True,
        config=config,
        slice_length=checked_count("max_samples_per_sequence", max_samples_per_sequence),
        split_part=split_part,
        epochs_together=checked_count(
            "shuffle_over_epochs_multiplier", shuffle_over_epochs_multiplier, may_be_minus_1=True
        ),
    )
    datasets = LoadedDatasets.of(leaves, worker_config=config)
    planning = planning_of(
        encoder,
        planned,
        batch_size=batch_size,
        config=config,
        sources=datasets.sources,
    )
    # Hooks written for megatron-energon may take blend_mode; others read it from the datasets, or take **options.
    takes_mode = "blend_mode" in signature(encoder.build_train_datasets).parameters
    optional: dict[str, Any] = {"blend_mode": datasets.blend_mode} if takes_mode else {}
    chain: SavableDataset[Any] = _built(
        encoder.build_train_datasets,
        planning,
        datasets=datasets,
        worker_config=config,
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=checked_buffer(planning, packing_buffer_size),
        virtual_epoch_length=virtual_epoch_length,
        shuffle_buffer_size=shuffle_buffer_size,
        repeat=repeat,
        **optional | ({"even_ranks": True} if even_ranks else {}),  # which an overriding hook need not take
    )
    return chain


def _built(hook: Callable[..., Any], planning: PlannedGroups | None, **arguments: Any) -> Any:
    """Return the chain that a ``build_…`` hook makes.

    Raises:
        ConfigError: The hook is the user's, and does not build what is planned.
    """
    if planning is None:
        return hook(**arguments)
    parameters = signature(hook).parameters
    takes_planning = "planning" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    chain = hook(planning=planning, **arguments) if takes_planning else None
    if chain is None or (planning.kind != "buffer" and not plans_groups(chain)):
        owner = type(getattr(hook, "__self__", hook)).__name__
        raise ConfigError(
            f"{owner}.{hook_name(hook)} builds a chain without the balance, packing or batch_cost of this run",
            hint="pass all its keyword arguments, planning too, to the inherited method; or plan nothing",
        )
    return chain


def _checked_config(given: Any, keywords: Mapping[str, Any]) -> WorkerConfig:
    config = WorkerConfig.default_worker_config() if given is None else given
    if not isinstance(config, WorkerConfig):
        name = given.__name__ if isinstance(given, type) else repr(given)
        raise TypeError(
            f"expected a WorkerConfig as worker_config, found {name}; pass "
            "WorkerConfig.default_worker_config(num_workers=…)"
        )
    handler = keywords.get("handler")
    return config if handler is None else replace(config, global_error_handler=three_argument_handler(handler))


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
    balance: CostFormulas | None = None,
    packing: str | None = None,
    pack_capacity: Mapping[str, float] | None = None,
    batch_cost: Mapping[str, float] | None = None,
    padded: bool = False,
    oversized: str | None = None,
    plan_window: int | None = None,
    allow_new_costs: bool = False,
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
            :func:`~loader.samples.batching.batch.is_padding` recognises. The number is computed from the order.
        task_encoder: The hooks; by default samples are only batched.
        balance: As in :func:`~loader.training.datasets.get_datasets.get_train_dataset`, as all that follow. Without an
            argument, the attribute of the task encoder of this name holds, so that validation is planned as training.
        **kwargs: As in :func:`~loader.training.datasets.get_datasets.get_train_dataset`.

    Raises:
        StorageError: The folder is missing or not prepared.
        ConfigError: An argument or a file of the dataset is invalid.
        TrustError: The dataset needs to run code, and the caller does not allow it.
        TypeError: There is no such argument, or its value has another type.
    """
    [(chain, _)] = _validation(get_val_dataset, **locals())
    return chain


@takes_arguments_of(get_val_dataset)
def get_val_datasets(
    path: str | os.PathLike[str], kwargs: Mapping[str, Any], **arguments: Any
) -> list[tuple[SavableDataset[Any], SourceFactory]]:
    """Build the validation datasets of a metadataset one by one, to measure them separately.

    For the arguments and errors see :func:`get_val_dataset`.

    Returns:
        ``[(dataset, source), …]``. A source is a dataset as ``build_val_datasets`` receives it, with ``name``,
        ``path``, ``paths``, ``split_part`` and ``subflavors``, and its ``place`` in the metadataset. A single dataset
        returns one pair.
    """
    chains = _validation(get_val_datasets, path, kwargs, one_by_one=True, **arguments)
    return [(chain, datasets.factories[0]) for chain, datasets in chains]


def _validation(
    caller: Callable[..., Any],
    path: str | os.PathLike[str],
    kwargs: Mapping[str, Any],
    *,
    split_part: str,
    worker_config: WorkerConfig | None,
    task_encoder: TaskEncoder[Any, Any, Any, Any] | None,
    one_by_one: bool = False,
    **options: Any,
) -> list[tuple[SavableDataset[Any], LoadedDatasets]]:
    encoder = task_encoder if task_encoder is not None else DefaultTaskEncoder()
    config = _checked_config(worker_config, kwargs)
    check_integers({name: options[name] for name in ("batch_size", "packing_buffer_size", "limit")})
    check_booleans({name: options[name] for name in ("batch_drop_last", "even_ranks", "pad_ranks")})
    leaves = open_leaves(
        caller, path, kwargs, task_encoder=encoder, training=False, config=config, split_part=split_part
    )
    # An overriding hook need not take the options of ranks.
    planned = {name: options.pop(name, None) for name in PLANNING_ARGUMENTS}
    planning = planning_of(
        encoder,
        planned,
        batch_size=options["batch_size"],
        config=config,
        sources=[leaf.source for leaf in leaves],
    )
    options["packing_buffer_size"] = checked_buffer(planning, options["packing_buffer_size"])
    options = {name: value for name, value in options.items() if value or not name.endswith("_ranks")}
    chains = []
    for part in [[leaf] for leaf in leaves] if one_by_one else [leaves]:
        datasets = LoadedDatasets.of(part, training=False, worker_config=config)
        chain = _built(encoder.build_val_datasets, planning, datasets=datasets, worker_config=config, **options)
        chains.append((chain, datasets))
    return chains
