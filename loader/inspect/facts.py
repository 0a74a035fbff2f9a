"""Collect facts about what a path names, as plain data with stable keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dataset.dataset import Dataset
from ..dataset.kind import kind_at
from ..dataset.opening import folder_at
from ..dataset.selection import Selection
from ..dataset.split_parts import excluded_samples, open_filter
from ..dataset.unprepared.tar_index import find_tars, scan_tars
from ..errors import EnergonError, StorageError
from ..format import nv_meta
from ..format.columns.column_files import open_column
from ..format.columns.column_record import ColumnRecord
from ..format.data_kind import data_kind
from ..format.dataset_ref import DatasetRef
from ..format.documents.dataset_config import DatasetConfig
from ..format.documents.dataset_files import is_prepared
from ..format.documents.split_config import SplitConfig
from ..format.filters.rows import filter_names
from ..format.index.layout import AbstractIndex
from ..format.records.folder_index import open_record_file
from ..format.records.record_file import RecordFile
from ..format.unfinished import left_sentence
from ..storage import EPath, Storage, list_once, open_parent, request_needs
from .facts_of_media import media_facts, media_folder_facts
from .folder_views import one_line, scan_note

_CHECKPOINT_SUFFIXES = (".json", ".pt", ".pth", ".ckpt", ".pkl")
_RUNS = 512  # spread evenly over a file, for the median of sizes
_SAMPLES_A_RUN = 512


def kind_of_path(path: str) -> str:
    """Return ``metadataset``, ``records`` (a file of samples), ``checkpoint`` or ``dataset``."""
    kind = data_kind(path)
    if kind.format != "folder":
        return "records" if kind.is_file else "metadataset"
    # A folder may end like a file; folders of states are recognised by their files.
    if path.endswith(_CHECKPOINT_SUFFIXES) and not EPath(path).is_dir():
        return "checkpoint"
    if is_prepared(DatasetRef(path).storage()):
        return "dataset"
    return "checkpoint" if _has_states(path) else "dataset"


def _has_states(folder: str) -> bool:
    from ..training.states import list_state_files

    try:
        return EPath(folder).is_dir() and bool(list_state_files(folder))
    except StorageError:  # the comparison reports what is missing, or that a web server lists no files
        return False


def path_facts(
    ref: DatasetRef | str,
    *,
    workers: int = 1,
    nodes: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Return the facts about what a path names, as ``energon info --json`` prints them.

    Args:
        ref: A dataset, file of samples, folder of media files, metadataset, or tar files that are not prepared. A split
            file or dataset file replaces those that a metadataset names.
        workers: Number of worker processes that scan tar files that are not prepared.
        nodes: Machines of a run, for which requests to the Hugging Face Hub are counted.
        on_progress: Called during such a scan with the numbers of scanned shards and of all shards.

    Raises:
        ConfigError: Documents contain faults. Faults of a metadataset's datasets are part of its facts.
        FormatError: The index is damaged.
        StorageError: The path does not exist, or contains no dataset and no tar files.
    """
    facts = _facts_at(DatasetRef.of(ref), workers=workers, on_progress=on_progress)
    shards = facts.pop("shards_of_hub", {facts["path"]: facts["shards"]} if "shards" in facts else {})
    needs = request_needs(shards, nodes=nodes, is_prepared=facts.get("index", {}).get("state") != "none")
    return facts if needs is None else facts | {"hub_requests": needs}


def _facts_at(ref: DatasetRef, *, workers: int, on_progress: Callable[[int, int], None] | None) -> dict[str, Any]:
    match kind_at(ref):
        case "metadatasets":
            from .metadataset import metadataset_facts  # imported late: only metadatasets need the planner

            return metadataset_facts(ref)
        case "unprepared tar files":
            return tar_facts(ref.path, workers=workers, on_progress=on_progress)
        case "folders of media files":
            return media_folder_facts(ref.storage())
        case "tar shards":
            return dataset_facts(folder_at(ref))
    return record_facts(*open_parent(ref.path))


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Return the facts about a prepared folder of shards."""
    # What the dataset is, from its index.
    index = dataset.index
    config = dataset.documents.config
    facts: dict[str, Any] = {
        "path": dataset.path,
        "type": dataset.format,
        "samples": sum(dataset.shard_counts.values()),
        "shards": len(dataset.shard_counts),
        "bytes": sum(shard.size_bytes for shard in index.shards),
    }
    # What samples are made of, and which of them are used.
    facts |= _config_facts(config)
    facts["splits"] = _split_facts(dataset, dataset.documents.split)
    facts["excluded"] = _excluded_facts(dataset.documents.split)
    facts["filters"] = [_filter_facts(dataset, name) for name in filter_names(dataset.storage)]
    facts["sample_columns"] = [_column_facts(dataset, name) for name in dataset.documents.column_names()]
    # What they contain.
    facts["parts"] = _part_facts(index)
    facts |= _part_set_facts(index, is_far=dataset.storage.checks_versions)
    facts["media_metadata"] = media_facts(dataset.storage)
    # Who made the index, and if it is up to date.
    facts["prepared"] = {"by": index.layout.prepared_by, "at": index.layout.prepared_at}
    facts["index"] = {"uuid": index.uuid, **_freshness(dataset.storage, index)}
    facts["duplicate_keys"] = index.layout.duplicate_keys
    facts["unfinished"] = left_sentence(dataset.storage)
    if dataset.format == "webdataset":
        facts["compat"] = dataset.storage.exists(nv_meta.INDEX_SQLITE)
    return facts


def tar_facts(path: str, *, workers: int = 1, on_progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Return the facts about tar shards that are not prepared, by their headers, under the same keys.

    Args:
        path: A tar file, or a folder that is not prepared.
        workers: Number of worker processes that scan shards.
        on_progress: Called after each shard with the numbers of scanned shards and of all shards.

    Raises:
        StorageError: The path holds no tar files.
    """
    # Scan all headers: without an index, nothing else knows the samples.
    tars = find_tars(path)
    scan = scan_tars(tars, workers=workers, on_progress=on_progress)
    layout = scan.index.layout
    # Keys that only prepared datasets fill have empty values, so that readers of the JSON need no checks.
    return {
        "path": path if tars.is_file else tars.storage.path(""),
        "type": "webdataset",
        "samples": layout.samples,
        "shards": len(tars.shards),
        "bytes": sum(shard.size_bytes for shard in tars.shards),
        **_config_facts(None),
        "splits": [],
        "excluded": _excluded_facts(None),
        "filters": [],
        "sample_columns": [],
        "parts": _part_facts(scan.index),
        **_part_set_facts(scan.index),
        "media_metadata": None,
        "prepared": None,
        "index": {"uuid": None, "state": "none", "changed": [], "missing": [], "touched": 0},
        "duplicate_keys": layout.duplicate_keys,
        "damaged": [one_line(error) for error in scan.damaged],
        "compressed": list(tars.compressed),
        "note": scan_note(tars, scan),
    }


def _filter_facts(dataset: Dataset, name: str) -> dict[str, Any]:
    try:
        return {"name": name, "samples": len(open_filter(dataset, name)), "fault": None}
    except EnergonError as error:
        return {"name": name, "samples": None, "fault": error.message}


def _column_facts(dataset: Dataset, name: str) -> dict[str, Any]:
    try:
        column = open_column(dataset.storage, dataset.index, name, reads_vectors=False)
        return _described(
            name, column.record, kind=column.kind, dtype=column.values.dtype.name, missing=column.count_missing()
        )
    except EnergonError as error:
        return _described(name, ColumnRecord(samples=0, shards=""), fault=error.message)


def _described(
    name: str,
    record: ColumnRecord,
    *,
    kind: str | None = None,
    dtype: str | None = None,
    missing: int | None = None,
    fault: str | None = None,
) -> dict[str, Any]:
    return {
        "name": name,
        "of": record.description,
        "unit": record.unit,
        "kind": kind,
        "type": None if kind == "texts" else dtype,
        "length": record.length or None,
        "metric": record.metric or None,
        "model": record.model or None,
        "missing": missing,
        "fault": fault,
    }


def _config_facts(config: DatasetConfig | None) -> dict[str, Any]:
    config = config or DatasetConfig(sample_type=None, crude=True)
    part_filter = config.part_filter
    return {
        "sample_type": config.sample_type or config.dataset_class,
        "crude": config.crude,
        "field_map": config.field_map.expressions() if config.field_map else None,
        "sample_loader": config.sample_loader,
        "part_filter": list(part_filter) if isinstance(part_filter, tuple) else part_filter,
        "subflavors": config.subflavors,
    }


def _split_facts(dataset: Dataset, split: SplitConfig | None) -> list[dict[str, Any]]:
    if split is None:
        return []
    # Read the exclusions once, for all split parts.
    shard_counts = dataset.shard_counts
    total = sum(shard_counts.values())
    excluded_shards = split.excluded_shards()
    excluded_keys = split.excluded_samples()
    facts = []
    for name, shards in split.split_parts.items():
        kept = [shard for shard in shards if shard not in excluded_shards]
        # Ranges and filters of samples need the positions of excluded samples.
        if name in split.sample_ranges or name in split.sample_filters:
            excluded = excluded_samples(dataset)
            samples = sum(
                len(some) - int(excluded.searchsorted(some.stop) - excluded.searchsorted(some.start))
                for some in Selection(dataset, name).runs()
            )
        else:
            # Whole shards are counted by their entries, without reading the index.
            samples = sum(shard_counts.get(shard, 0) - len(excluded_keys.get(shard, ())) for shard in kept)
        facts.append(
            {"name": name, "shards": len(kept), "samples": samples, "share": samples / total if total else 0.0}
        )
    return facts


def _excluded_facts(split: SplitConfig | None) -> dict[str, int]:
    if split is None:
        return {"shards": 0, "samples": 0}
    samples = sum(len(keys) for keys in split.excluded_samples().values())
    return {"shards": len(split.excluded_shards()), "samples": samples}


def _part_facts(index: AbstractIndex) -> list[dict[str, Any]]:
    total = len(index) or 1
    return [
        {
            "name": stats.name,
            "samples": stats.parts,
            "coverage": stats.parts / total,
            "total_bytes": stats.total_bytes,
            "median_bytes": stats.median_bytes,
        }
        for stats in index.part_stats()
    ]


def _part_set_facts(index: AbstractIndex, *, is_far: bool = False) -> dict[str, Any]:
    """Return the table of part sets; none if columns in an object store would have to be downloaded for it."""
    if is_far and not index.has_part_sets:
        return {"part_sets": None, "part_sets_complete": None}
    table = index.part_sets
    return {"part_sets": table.to_document(), "part_sets_complete": not table.others}


def _freshness(storage: Storage, index: AbstractIndex) -> dict[str, Any]:
    missing, changed, touched = [], [], 0
    # One listing, instead of a request for each shard.
    list_once(storage, "")
    for shard in index.shards:
        try:
            now = storage.stat(shard.name)
        except EnergonError:
            missing.append(shard.name)
            continue
        if shard.has_changed(now):
            changed.append(shard.name)
        elif shard.was_touched(now):
            touched += 1
    state = "stale" if missing or changed else "touched" if touched else "fresh"
    return {"state": state, "changed": changed, "missing": missing, "touched": touched}


def record_facts(storage: Storage, name: str) -> dict[str, Any]:
    """Return the facts about a file of samples, under the same keys as for a dataset."""
    file = open_record_file(storage, name)
    return {
        "path": storage.path(name),
        "type": data_kind(name).format,
        "samples": len(file),
        "shards": 1,
        "bytes": file.size_bytes,
        "sample_type": "CrudeSample",
        "crude": True,
        "splits": [],
        "parts": _record_parts(file),
        **file.facts(),
        "index": {"state": "fresh"},
    }


def _record_parts(file: RecordFile) -> list[dict[str, Any]]:
    # Rows of Parquet files have no sizes, so the mean is shown where several columns share a row.
    count = len(file)
    sizes = file.part_bytes()
    return [
        {
            "name": name,
            "samples": count,
            "coverage": 1.0,
            "total_bytes": total,
            "median_bytes": median_bytes(file) if len(sizes) == 1 else total // max(1, count),
        }
        for name, total in sizes.items()
    ]


def median_bytes(file: RecordFile) -> int:
    """Return the median size of samples; for many samples, of runs spread evenly over the file.

    Only the pages of the index that describe these runs are read.
    """
    count = len(file)
    if not count:
        return 0
    # Read all sizes of a small file, and some runs of a large one.
    if count <= _RUNS * _SAMPLES_A_RUN:
        numbers = np.arange(count)
    else:
        starts = np.arange(_RUNS) * (count - _SAMPLES_A_RUN) // (_RUNS - 1)
        numbers = (starts[:, None] + np.arange(_SAMPLES_A_RUN)).ravel()
    sizes = file.spans(numbers)[1]
    # Rows of Parquet files have no size of their own: return the mean.
    if sizes[0] < 0:
        return sum(file.part_bytes().values()) // count
    return int(np.median(sizes))
