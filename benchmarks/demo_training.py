"""Load a dataset of captioned pictures like a training script, save the state, and resume from it.

usage: python benchmarks/demo_training.py FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from loader import SavableDataLoader, WorkerConfig, get_savable_loader, get_train_dataset


def make_loader(folder: str, num_workers: int) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        folder,
        batch_size=8,
        shuffle_buffer_size=100,
        max_samples_per_sequence=10,
        worker_config=WorkerConfig.default_worker_config(num_workers),
    )
    return get_savable_loader(dataset)


def train(loader: SavableDataLoader[Any], steps: Iterable[int]) -> None:
    for step, batch in zip(steps, loader, strict=False):
        others = len(batch.caption) - 1
        print(f"step {step}: images {tuple(batch.image.shape)}, {batch.caption[0]!r} and {others} more captions")


def main(folder: str) -> None:
    loader = make_loader(folder, num_workers=2)
    train(loader, range(3))
    saved = json.dumps(loader.save_state_rank())
    print(f"-- saved {len(saved)} bytes; the run continues")
    train(loader, range(3, 6))

    print("-- another run, without worker processes, resumes from the saved state")
    loader = make_loader(folder, num_workers=0)
    loader.restore_state_rank(json.loads(saved))
    train(loader, range(3, 6))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
