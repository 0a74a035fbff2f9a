"""Collect facts about a single file of numbered samples: JSONL, tokens or Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..format.documents.providers import format_of
from ..format.records.record_file import RecordFile, open_record_file
from ..storage import Storage

_RUNS = 512
_SAMPLES_A_RUN = 512


def record_facts(storage: Storage, name: str) -> dict[str, Any]:
    """Return the facts about a file of samples, under the keys that those of a dataset have.

    Raises:
        FormatError: The file is damaged, or its index is missing.
        StorageError: It cannot be read.
    """
    file = open_record_file(storage, name)
    return {
        "path": storage.path(name),
        "type": format_of(name),
        "samples": len(file),
        "shards": 1,
        "bytes": file.size_bytes,
        "sample_type": "CrudeSample",
        "crude": True,
        "splits": [],
        "parts": _part_facts(file),
        **file.facts(),
        "index": {"state": "fresh"},
    }


def _part_facts(file: RecordFile) -> list[dict[str, Any]]:
    """Return the facts about the parts; rows of Parquet files have no sizes, so that their median is the mean."""
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
    """Return the median size of samples; of many samples, that of runs spread evenly over the file.

    Only the pages of the index that describe these runs are read.
    """
    count = len(file)
    if not count:
        return 0
    if count <= _RUNS * _SAMPLES_A_RUN:
        numbers = np.arange(count)
    else:
        starts = np.arange(_RUNS) * (count - _SAMPLES_A_RUN) // (_RUNS - 1)
        numbers = (starts[:, None] + np.arange(_SAMPLES_A_RUN)).ravel()
    sizes = file.spans(numbers)[1]
    if sizes[0] < 0:
        return sum(file.part_bytes().values()) // count
    return int(np.median(sizes))
