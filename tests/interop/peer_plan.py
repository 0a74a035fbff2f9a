"""Print how megatron-energon resolves metadatasets, as JSON; run by the *peer's* Python.

usage: python peer_plan.py SPLIT TRAINING METADATASET...

For every metadataset, its datasets in order: path, weight, repetitions, subflavors, epochs shuffled together, and the
range of samples. Imports no module of this project, since the peer is installed in another virtual environment.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from megatron.energon import WorkerConfig, load_dataset

WORKERS = WorkerConfig(rank=0, world_size=1, num_workers=0)


def datasets(path: str, split_part: str, training: bool) -> list[dict[str, Any]]:
    loaded = load_dataset(path).get_datasets(training=training, split_part=split_part, worker_config=WORKERS)
    return [describe(entry) for entry in loaded.datasets]


def describe(entry: Any) -> dict[str, Any]:
    dataset = entry.dataset
    samples = sum(shard.count for shard in dataset.shards)
    return {
        "path": str(dataset.path),
        "weight": entry.weight,
        "repetitions": entry.repetitions,
        "subflavors": dataset.subflavors,
        "epochs_together": dataset.shuffle_over_epochs,
        "range": list(dataset.subset.compute_subset(samples)) if dataset.subset else [0, samples],
        "samples": samples,
    }


if __name__ == "__main__":
    split_part, training, *paths = sys.argv[1:]
    print("\n" + json.dumps([datasets(path, split_part, training == "training") for path in paths]))
