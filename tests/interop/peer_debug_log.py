"""Train a few steps with megatron-energon and its debug log, and print the keys that a rank got; run by its Python.

usage: python peer_debug_log.py PATH LOG RANK RANKS WORKERS STEPS

Uses only public names of ``megatron.energon``.
"""

from __future__ import annotations

import json
import sys
from itertools import islice

from megatron.energon import WorkerConfig, get_loader, get_savable_loader, get_train_dataset, get_val_dataset


def main() -> None:
    path, log = sys.argv[1:3]
    rank, ranks, workers, steps = map(int, sys.argv[3:])
    config = WorkerConfig(
        rank=rank,
        world_size=ranks,
        num_workers=workers,
        worker_debug_path=f"{log}/worker_{{worker_id}}.jsonl",
        worker_log_level=1,
    )
    training = get_train_dataset(
        path, batch_size=4, shuffle_buffer_size=20, max_samples_per_sequence=5, worker_config=config
    )
    keys = [list(batch.__key__) for batch in islice(get_savable_loader(training), steps)]
    validation = get_val_dataset(path, batch_size=4, worker_config=config)
    for _ in islice(get_loader(validation), 2):
        pass
    print(json.dumps(keys))


if __name__ == "__main__":
    main()
