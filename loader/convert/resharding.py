"""Write the samples of a dataset to new shards."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import IntArray
from ..dataset.dataset import Dataset
from ..dataset.job_journal import request_of_metadata
from ..dataset.opening import folder_at
from ..dataset.query import Compute, DatasetValues, SampleQuery, find_samples
from ..dataset.split_parts import excluded_samples
from ..dataset.tar import tar_index
from ..engine import Account
from ..engine.run import RunsOnEngine
from ..errors import ConfigError, plural
from ..format.carry import Carried, NewOrder, OldDataset
from ..format.dataset_ref import DatasetRef
from ..format.documents import command_for_folder
from ..format.nv_meta import DATASET_YAML, FOLDER
from ..format.tar.names import printable
from ..storage import Storage, is_url, read_document
from .importing.plan import ImportPlan, ProgressCallback
from .importing.report import ImportReport
from .importing.run import run_import
from .rows.shard_layout import ShardLayout
from .sources.dataset import (
    ShardSource,
    is_prepared_dataset,
    kept_parts,
    samples_in_folder,
    samples_with_parts,
    splits_of_samples,
)
from .writing.written_shards import FileVersion, shard_entries

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
        WorkerError: The worker processes of one shard were killed three times.
        ShareDone: The engine writes one share, and its shards are written.
    """
    # Refuse other inputs, and an output over the input.
    ref = DatasetRef.of(plan.ref)
    path = ref.path
    if ref.kind.format != "folder":
        raise ConfigError("expected a dataset of tar shards", at=path, hint="name the folder of a dataset")
    if not is_url(path) and os.path.realpath(path) == os.path.realpath(plan.output):
        raise ConfigError(
            "the new dataset cannot replace the one that it is made of", at=path, hint="name a new folder"
        )
    if ref.find_meta().origin == "data" and not is_prepared_dataset(path):
        return _reshard_tars(plan, on_progress)
    # Choose samples and parts.
    folder = folder_at(ref)
    names = kept_parts(tar_index(folder).part_names, keep=plan.keep_parts, drop=plan.drop_parts, at=folder.path)
    chosen = find_samples(folder, plan.query)
    inner = samples_in_folder(tar_index(folder), chosen)
    samples = samples_with_parts(tar_index(folder), inner, names)
    if not len(samples):
        raise ConfigError("no sample is chosen", at=path, hint="check the conditions")
    warnings = _missing_fields(folder, names)
    if plan.layout.split_ratio is None and (overlapping := splits_of_samples(folder).overlapping):
        warnings.append(f"in several split parts: {plural(overlapping, 'sample')}; the first part of each keeps it")
    order = None if plan.sort_by is None else sorted_rows(folder, samples, plan.sort_by, plan.query.compute)
    layout = replace(plan.layout, order=order)
    source = ShardSource(
        ref=ref,
        samples=samples,
        keep_parts=plan.keep_parts,
        drop_parts=plan.drop_parts,
        keeps_splits=plan.layout.split_ratio is None,
    )
    # Account for samples without a chosen part.
    account = Account()
    account.see("samples", len(chosen))
    account.use("samples", len(samples))
    for code, before, after in (("L121", chosen, inner), ("L113", inner, samples)):
        if len(after) < len(before):
            first = tar_index(folder).full_key(int(np.setdiff1d(before, after, assume_unique=True)[0]))
            account.leave("samples", code, printable(first), count=len(before) - len(after))
    if plan.strict:
        account.check_complete(at=plan.output)
    # Write the shards; columns and filters follow the new order.
    carried = Carried()
    split = folder.documents.split
    of_parts = split.sample_filters.values() if split else ()  # parts have shards of their own then

    def carry(storage: Storage, rows: IntArray, files: list[tuple[FileVersion, int]]) -> None:
        old = OldDataset(folder.path, folder.storage, folder.index.shards)
        entries = shard_entries((name, size_bytes, count) for (name, size_bytes, _), count in files)
        carried.write(NewOrder([old], [(0, samples[rows])], entries), storage, without_filters=of_parts)

    written = run_import(
        replace(_import_plan(plan, source, layout, carried_documents(folder)), inputs=request_of_metadata(folder)),
        on_progress=on_progress,
        before_commit=carry,
    )
    account.merge(written.account)
    # Samples that the split excludes are counted only if they were to be left out.
    counts = not plan.query.excluded and len(excluded_samples(folder))
    return ReshardReport(
        written=replace(written, account=account),
        excluded=len(find_samples(folder, replace(plan.query, excluded=True))) - len(chosen) if counts else 0,
        without_parts=len(inner) - len(samples),
        columns=tuple(carried.columns),
        filters=tuple(carried.filters),
        warnings=(*warnings, *carried.warnings),
    )


def _reshard_tars(plan: ReshardPlan, on_progress: ProgressCallback | None) -> ReshardReport:
    query, path = plan.query, plan.ref.path
    for name, value in (
        ("a split part", query.split_parts or None),
        ("keys", query.keys),
        ("a condition", query.where),
        ("a filter", query.filter),
        ("a column or the key to sort by", plan.sort_by),
    ):
        if value is not None:
            raise ConfigError(f"{name} needs the index of a prepared dataset", at=path, hint=command_for_folder(path))
    source = ShardSource(ref=plan.ref, keep_parts=plan.keep_parts, drop_parts=plan.drop_parts)
    written = run_import(_import_plan(plan, source, plan.layout, {}), on_progress=on_progress)
    return ReshardReport(written=written, excluded=0, without_parts=0, columns=(), filters=(), warnings=())


def _import_plan(plan: ReshardPlan, source: ShardSource, layout: ShardLayout, files: dict[str, str]) -> ImportPlan:
    return ImportPlan(
        sources=(source,),
        output=plan.output,
        layout=layout,
        engine=plan.runs_on,
        command="reshard",
        max_failures=0,
        files=files,
        compat=plan.compat,
        strict=plan.strict,
    )


def carried_documents(folder: Dataset) -> dict[str, str]:
    """Return ``dataset.yaml`` and the code that it may name, which stays data here."""
    names = [DATASET_YAML] if folder.storage.exists(f"{FOLDER}/{DATASET_YAML}") else []
    files = (file.name.removeprefix(f"{FOLDER}/") for file in folder.storage.list(FOLDER))
    names += [name for name in files if "/" not in name and name.endswith(_CODE_SUFFIX)]
    return {name: read_document(folder.storage, f"{FOLDER}/{name}").decode("utf-8", "replace") for name in names}


def _missing_fields(folder: Dataset, names: tuple[str, ...]) -> list[str]:
    config = folder.documents.config
    if config is None or config.field_map is None or len(names) == len(tar_index(folder).part_names):
        return []
    missing = ", ".join(config.field_map.missing(names))
    return [f"dataset.yaml takes {missing} from parts that are dropped: edit it in the new dataset"] if missing else []


_KEY = "key"


def sorted_rows(folder: Dataset, samples: IntArray, by: str, compute: Compute | None = None) -> IntArray:
    """Return the positions in ``samples`` in sorted order; equal ones keep their order, those without a value are last.

    Args:
        samples: Numbers of samples, ascending.
        by: ``"key"``, or the name of a column or value.
        compute: Reads a value that is not a column; None refuses it.
    """
    # Keys are in the index, unless a column has this name.
    if by == _KEY and _KEY not in folder.documents.column_names():
        keys = [folder.index.key(sample) for sample in samples.tolist()]
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    # Texts are sorted by their ranks; samples without a value come last.
    sort_values = DatasetValues(folder, [by], samples, compute).values(by, samples)
    values, missing = sort_values.values, ~sort_values.known
    if sort_values.categories is not None:
        names = sort_values.categories
        rank = np.empty(max(1, len(names)), np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        missing = missing | (values < 0) | (values >= len(names))
        values = rank[np.where(missing, 0, values).astype(np.int64)]
    values = np.where(missing, values[:1], values) if len(values) else values
    return np.lexsort((values, missing)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan(RunsOnEngine):
    """New shards for the samples of a dataset.

    Attributes:
        ref: A prepared dataset, a folder of tar shards without metadata, or one tar shard.
        output: Path or URL of the new dataset: a new or empty folder, or the folder of an interrupted reshard.
        layout: Sizes, order and split of the new shards; without a split ratio, each sample keeps its part.
        sort_by: ``"key"``, or the name of a column or value: samples are sorted by it, those without a value last.
        keep_parts: Only parts that match one of these patterns, as in shells; empty for all.
        drop_parts: No parts that match one of these.
        strict: Write nothing if a chosen sample or part would be left out.
    """

    ref: DatasetRef
    output: str
    layout: ShardLayout = field(default_factory=ShardLayout)
    sort_by: str | None = None
    query: SampleQuery = field(default_factory=lambda: SampleQuery(excluded=False))
    keep_parts: tuple[str, ...] = ()
    drop_parts: tuple[str, ...] = ()
    compat: bool | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardReport:
    """The outcome of a reshard.

    Attributes:
        written: The report of the shards and of the prepare that ended it.
        excluded: Number of samples that are not chosen since the split excludes them.
        without_parts: Number of chosen samples that have none of the kept parts, and are not in the new dataset.
        warnings: Results that the user may not expect, one sentence each.
    """

    written: ImportReport
    excluded: int
    without_parts: int
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    warnings: tuple[str, ...]
