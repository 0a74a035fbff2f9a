"""What ``energon info`` knows about a dataset, as the plain data that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loader.errors import EnergonError
from loader.format import nv_meta

from .media import media_facts

if TYPE_CHECKING:
    from loader.format.dataset_folder import DatasetFolder
    from loader.format.documents.dataset_config import DatasetConfig
    from loader.format.documents.split_config import SplitConfig
    from loader.format.index.dataset_index import DatasetIndex
    from loader.storage import Storage

__all__ = ["dataset_facts", "jsonl_facts"]

_LINE_RUNS = 512
_LINES_A_RUN = 512


def dataset_facts(dataset: DatasetFolder) -> dict[str, Any]:
    """Collect everything about a prepared folder of shards; keys are stable."""
    index = dataset.index
    config = dataset.config
    facts: dict[str, Any] = {
        "path": dataset.path,
        "type": "webdataset",
        "samples": sum(dataset.shard_counts.values()),
        "shards": len(dataset.shard_counts),
        "bytes": sum(shard.size_bytes for shard in index.shards),
    }
    facts |= _config_facts(config)
    facts["splits"] = _split_facts(dataset.split, dataset.shard_counts)
    facts["excluded"] = _excluded_facts(dataset.split)
    facts["parts"] = _part_facts(index)
    facts["media_metadata"] = media_facts(dataset.storage)
    facts["prepared"] = {"by": index.layout.prepared_by, "at": index.layout.prepared_at}
    facts["index"] = {"uuid": index.uuid, **_freshness(dataset.storage, index)}
    facts["duplicate_keys"] = index.layout.duplicate_keys
    facts["compat"] = dataset.storage.exists(nv_meta.INDEX_SQLITE)
    return facts


def jsonl_facts(storage: Storage, name: str) -> dict[str, Any]:
    """Collect everything about an indexed JSONL file, under the same keys."""
    from loader.format.jsonl.index import open_jsonl_index

    index = open_jsonl_index(storage, name)
    size_bytes = storage.stat(name).size_bytes
    return {
        "path": storage.path(name),
        "type": "jsonl",
        "samples": len(index),
        "shards": 1,
        "bytes": size_bytes,
        "sample_type": "CrudeSample",
        "crude": True,
        "splits": [],
        "parts": [
            {
                "name": "json",
                "samples": len(index),
                "coverage": 1.0,
                "total_bytes": size_bytes,
                "median_bytes": _median_line(index.offsets),
            }
        ],
        "index": {"state": "fresh"},
    }


def _median_line(offsets: Any) -> int:
    """Give the median length of lines; of many lines, that of some runs spread evenly over the file.

    Args:
        offsets: Shape (n + 1,), in a file of which only what is looked at is read.
    """
    import numpy as np

    lines = len(offsets) - 1
    if lines <= _LINE_RUNS * _LINES_A_RUN:
        return int(np.median(np.diff(offsets))) if lines > 0 else 0
    starts = [run * (lines - _LINES_A_RUN) // (_LINE_RUNS - 1) for run in range(_LINE_RUNS)]
    return int(np.median([np.diff(offsets[start : start + _LINES_A_RUN + 1]) for start in starts]))


def _config_facts(config: DatasetConfig | None) -> dict[str, Any]:
    if config is None:
        return {
            "sample_type": None,
            "crude": True,
            "field_map": None,
            "sample_loader": None,
            "part_filter": None,
            "subflavors": {},
        }
    part_filter = config.part_filter
    return {
        "sample_type": config.sample_type or config.dataset_class,
        "crude": config.crude,
        "field_map": config.field_map.expressions() if config.field_map else None,
        "sample_loader": config.sample_loader,
        "part_filter": list(part_filter) if isinstance(part_filter, tuple) else part_filter,
        "subflavors": config.subflavors,
    }


def _split_facts(split: SplitConfig | None, shard_counts: Mapping[str, int]) -> list[dict[str, Any]]:
    if split is None:
        return []
    total = sum(shard_counts.values())
    left_out_shards = split.excluded_shards()
    left_out = split.excluded_samples()
    facts = []
    for name, shards in split.split_parts.items():
        kept = [shard for shard in shards if shard not in left_out_shards]
        samples = sum(shard_counts.get(shard, 0) - len(left_out.get(shard, ())) for shard in kept)
        facts.append(
            {"name": name, "shards": len(kept), "samples": samples, "share": samples / total if total else 0.0}
        )
    return facts


def _excluded_facts(split: SplitConfig | None) -> dict[str, int]:
    if split is None:
        return {"shards": 0, "samples": 0}
    samples = sum(len(keys) for keys in split.excluded_samples().values())
    return {"shards": len(split.excluded_shards()), "samples": samples}


def _part_facts(index: DatasetIndex) -> list[dict[str, Any]]:
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


def _freshness(storage: Storage, index: DatasetIndex) -> dict[str, Any]:
    """Compare shards with what they were when indexed, by size and time; contents are lint's work."""
    missing, changed, touched = [], [], 0
    for shard in index.shards:
        try:
            now = storage.stat(shard.name)
        except EnergonError:
            missing.append(shard.name)
            continue
        if now.size_bytes != shard.size_bytes:
            changed.append(shard.name)
        elif now.mtime_ns != shard.mtime_ns:
            touched += 1
    state = "stale" if missing or changed else "touched" if touched else "fresh"
    return {"state": state, "changed": changed, "missing": missing, "touched": touched}
