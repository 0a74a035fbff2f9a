"""Write the samples of a dataset to new shards."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from ...accounting import Account
from ...errors import ConfigError
from ...format.dataset_folder import DatasetFolder
from ...format.documents import command_for_folder
from ...format.documents.providers import data_path, is_metadataset, is_record_file
from ...format.nv_meta import DATASET_YAML, FOLDER
from ...format.query import SampleQuery, find_samples
from ...format.tar.names import printable
from ...storage import is_url, read_document
from ..importing.plan import ImportPlan, ProgressCallback
from ..importing.run import run_import
from ..rows.shard_plan import ShardLayout
from ..sources.dataset import DatasetSource, is_prepared_dataset
from ..sources.dataset_samples import kept_parts, samples_in_folder, samples_with_parts, splits_of_samples
from .carried_values import CarriedValues
from .plan import ReshardPlan, ReshardReport
from .sample_order import sorted_rows

_CODE_SUFFIX = ".py"


def run_reshard(plan: ReshardPlan, *, on_progress: ProgressCallback | None = None) -> ReshardReport:
    """Write the samples of a dataset to new shards, as a prepared dataset.

    Bytes of parts are copied. The new dataset has the description, the columns and the filters of the old one, and its
    split, unless another is requested. The same dataset and plan make the same bytes, with any number of workers. After
    an interruption, even a kill, the next run with the same plan keeps the shards that are written.

    Args:
        plan: What to write, and where.
        on_progress: Called while samples are listed and shards written.

    Raises:
        ConfigError: A setting is invalid, no sample is chosen, or the output has other files.
        IncompleteError: The plan is strict, and a chosen sample or part would be left out.
        FormatError: A shard has changed since it was indexed, or is damaged.
        StorageError: The dataset cannot be read, or the output cannot be written.
        WorkerError: A worker process was killed.
    """
    path = plan.path
    if is_metadataset(path) or is_record_file(data_path(path)):
        raise ConfigError("expected a dataset of tar shards", at=path, hint="name the folder of a dataset")
    if not is_url(path) and os.path.realpath(path) == os.path.realpath(plan.output):
        raise ConfigError(
            "the new dataset cannot replace the one that it is made of", at=path, hint="name a new folder"
        )
    if plan.meta_folder is None and not is_prepared_dataset(path):
        return _reshard_tars(plan, on_progress)
    # Choose samples and parts.
    folder = DatasetFolder(path, split_config=plan.split_config, meta_folder=plan.meta_folder)
    names = kept_parts(folder.tar_index.part_names, keep=plan.keep_parts, drop=plan.drop_parts, at=folder.path)
    chosen = find_samples(folder, plan.query)
    inner = samples_in_folder(folder.tar_index, chosen)
    samples = samples_with_parts(folder.tar_index, inner, names)
    if not len(samples):
        raise ConfigError("no sample is chosen", at=path, hint="check the conditions")
    warnings = _missing_fields(folder, names)
    if plan.split_ratio is None and (overlapping := splits_of_samples(folder).overlapping):
        warnings.append(f"{overlapping:,} samples are in several split parts, and stay in the first of them")
    order = None if plan.sort_by is None else sorted_rows(folder, samples, plan.sort_by, plan.query.compute)
    layout = replace(_layout(plan), order=order)
    source = DatasetSource(
        path=path,
        samples=samples,
        keep_parts=plan.keep_parts,
        drop_parts=plan.drop_parts,
        keeps_splits=plan.split_ratio is None,
        split_config=plan.split_config,
        meta_folder=plan.meta_folder,
    )
    # Account for samples without a chosen part.
    account = Account()
    account.see("samples", len(chosen))
    account.use("samples", len(samples))
    for code, before, after in (("L121", chosen, inner), ("L113", inner, samples)):
        if len(after) < len(before):
            first = folder.tar_index.full_key(int(np.setdiff1d(before, after, assume_unique=True)[0]))
            account.leave("samples", code, printable(first), count=len(before) - len(after))
    if plan.strict:
        account.check_complete(at=plan.output)
    # Write the shards; columns and filters follow the new order.
    carried = CarriedValues(folder, samples)
    written = run_import(
        _import_plan(plan, source, layout, _documents(folder)), on_progress=on_progress, before_commit=carried.write
    )
    account.merge(written.account)
    return ReshardReport(
        written=replace(written, account=account),
        excluded=0 if plan.query.excluded else _count_excluded(folder, plan.query, len(chosen)),
        without_parts=len(inner) - len(samples),
        columns=tuple(carried.columns),
        filters=tuple(carried.filters),
        warnings=(*warnings, *carried.warnings),
    )


def _reshard_tars(plan: ReshardPlan, on_progress: ProgressCallback | None) -> ReshardReport:
    """Write the samples of tar shards without metadata."""
    query = plan.query
    for name, value in (
        ("a split part", query.split_parts or None),
        ("keys", query.keys),
        ("a condition", query.where),
        ("a filter", query.filter),
        ("a column or the key to sort by", plan.sort_by),
    ):
        if value is not None:
            raise ConfigError(
                f"{name} needs the index of a prepared dataset", at=plan.path, hint=command_for_folder(plan.path)
            )
    source = DatasetSource(path=plan.path, keep_parts=plan.keep_parts, drop_parts=plan.drop_parts)
    written = run_import(_import_plan(plan, source, _layout(plan), {}), on_progress=on_progress)
    return ReshardReport(written=written, excluded=0, without_parts=0, columns=(), filters=(), warnings=())


def _layout(plan: ReshardPlan) -> ShardLayout:
    return ShardLayout(
        shard_bytes=plan.shard_bytes,
        samples_per_shard=plan.samples_per_shard,
        split_ratio=plan.split_ratio,
        shuffle_seed=plan.shuffle_seed,
    )


def _import_plan(plan: ReshardPlan, source: DatasetSource, layout: ShardLayout, files: dict[str, str]) -> ImportPlan:
    return ImportPlan(
        sources=(source,),
        output=plan.output,
        layout=layout,
        workers=plan.workers,
        max_failures=0,
        files=files,
        compat=plan.compat,
        strict=plan.strict,
    )


def _documents(folder: DatasetFolder) -> dict[str, str]:
    """Return ``dataset.yaml`` and the code that it may name, which stays data here."""
    names = [DATASET_YAML] if folder.storage.exists(f"{FOLDER}/{DATASET_YAML}") else []
    files = (file.name.removeprefix(f"{FOLDER}/") for file in folder.storage.list(FOLDER))
    names += [name for name in files if "/" not in name and name.endswith(_CODE_SUFFIX)]
    return {name: read_document(folder.storage, f"{FOLDER}/{name}").decode("utf-8", "replace") for name in names}


def _missing_fields(folder: DatasetFolder, names: tuple[str, ...]) -> list[str]:
    """Return a warning about fields of samples whose parts are dropped."""
    config = folder.config
    if config is None or config.field_map is None or len(names) == len(folder.tar_index.part_names):
        return []
    missing = config.field_map.missing(names)
    if not missing:
        return []
    return [f"dataset.yaml takes {', '.join(missing)} from parts that are dropped: edit it in the new dataset"]


def _count_excluded(folder: DatasetFolder, query: SampleQuery, chosen: int) -> int:
    if not len(folder.excluded_samples()):
        return 0
    return len(find_samples(folder, replace(query, excluded=True))) - chosen
