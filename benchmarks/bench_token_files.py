"""Measure opening a blend of Megatron token files: 1,933 leaves with weights down to 6e-8, as pretraining mixes have.

    python -m benchmarks.bench_token_files [--leaves 1933] [--limit 2.0]

Prints the seconds until the dataset is open, and until the first micro-batch; exits with 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.token_files import write_tokens

_SEQUENCES = 200
_MIN_WEIGHT = 6e-8


def write_blend(folder: Path, leaves: int) -> Path:
    """Write token files in some folders, with ``#`` in their names, and a metadataset that blends them by prefix."""
    generator = np.random.default_rng(0)
    weights = np.geomspace(1.0, _MIN_WEIGHT, leaves)
    blend = []
    for leaf in range(leaves):
        prefix = folder / f"source-{leaf % 40}" / f"part#{leaf:04d}_text_document"
        prefix.parent.mkdir(exist_ok=True)
        write_tokens(prefix, [generator.integers(0, 50_000, 64).tolist()] * _SEQUENCES, dtype="int32")
        blend.append({"path": str(prefix.relative_to(folder)), "weight": float(weights[leaf])})
    path = folder / "blend.yaml"
    splits = {"train": {"blend": blend}}
    path.write_text(yaml.safe_dump({"__module__": "megatron.energon", "__class__": "MetadatasetV2", "splits": splits}))
    return path


def measure(path: str) -> dict[str, Any]:
    """Open the blend in this process, and return seconds after the imports."""
    from loader import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset

    class Tokens(DefaultTaskEncoder[Any, Any, Any, Any]):
        def batch(self, samples: Any) -> Any:
            return [sample["tokens"] for sample in samples]

    started = time.perf_counter()
    dataset = get_train_dataset(
        path,
        batch_size=32,
        shuffle_buffer_size=100,
        max_samples_per_sequence=100,
        task_encoder=Tokens(),
        worker_config=WorkerConfig.default_worker_config(num_workers=0),
    )
    opened = time.perf_counter()
    batches = iter(get_savable_loader(dataset))
    next(batches)
    first = time.perf_counter()
    for _ in range(30):
        next(batches)
    return {
        "open_s": opened - started,
        "first_batch_s": first - opened,
        "samples_per_s": 30 * 32 / (time.perf_counter() - first),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=1933)
    parser.add_argument("--limit", type=float, default=2.0, help="seconds in which the blend must be open")
    parser.add_argument("--path", help="measure this metadataset in this process")
    given = parser.parse_args()
    if given.path is not None:
        print(json.dumps(measure(given.path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write_blend(Path(folder), given.leaves)
        command = [sys.executable, "-m", "benchmarks.bench_token_files", "--path", str(path)]
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(3)]
    best = min(runs, key=lambda run: run["open_s"])
    print(
        f"{given.leaves} token files: open in {best['open_s']:.2f} s, first micro-batch after "
        f"{best['first_batch_s']:.2f} s more, then {best['samples_per_s']:,.0f} samples/s"
    )
    if best["open_s"] > given.limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
