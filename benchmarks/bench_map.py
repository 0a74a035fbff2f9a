"""Measure what `energon map` adds to reading samples.

usage: python benchmarks/bench_map.py [--texts N] [--pictures N] [--workers N] [--rounds N]

- A function that does nothing over JSON samples, next to iterating them by a loader.
- The mean of the pixels of JPEGs as a column, next to a plain script: webdataset in a pool of processes, one `.npy`.
- The same column by workers of a local Ray and of a local Dask cluster that are up, next to processes.

Each measurement is a process of its own, and counts from the moment when its modules are imported. The rounds of both
sides alternate, and the fastest one counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from bench_stats import pictures, texts, write_dataset
from report import machine_facts, print_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=400_000)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure, workers=options.workers)
        return
    # Measure both sides in turns.
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, sides, goal, samples, part in (
            ("nothing", (map_nothing, iterate), 1.3, options.texts, texts()),
            ("mean of pixels", (map_means, plain_means), 1.0, options.pictures, pictures()),
            ("mean, on Ray", (map_on_ray, map_means), 1.25, options.pictures, pictures()),
            ("mean, on Dask", (map_on_dask, map_means), 1.25, options.pictures, pictures()),
        ):
            path = Path(folder) / name.partition(",")[0]
            if not path.exists():
                write_dataset(path, samples, 10, part)
            seconds: dict[Any, list[float]] = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side in sides:
                    seconds[side].append(run(side.__name__, path, options.workers))
            ours, other = (min(seconds[side]) for side in sides)
            rows.append([name, f"{samples:,}", f"{ours:.2f} s", f"{other:.2f} s", f"{ours / other:.2f}", str(goal)])
    print(machine_facts())
    print_table([["what", "samples", "map", "the other", "ratio", "to reach"], *rows])


def run(side: str, path: Path, workers: int) -> float:
    command = [sys.executable, __file__, "--measure", side, str(path), "--workers", str(workers)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def measure(side: str, folder: str, *, workers: int) -> None:
    print(globals()[side](folder, workers))


def map_nothing(folder: str, workers: int) -> float:
    from loader import open_dataset

    started = time.perf_counter()
    open_dataset(folder).map("bench_map:nothing", write="nothing", workers=workers)
    return time.perf_counter() - started


def nothing(sample: Any) -> int:  # noqa: ARG001 - as map calls it
    return 0


def iterate(folder: str, workers: int) -> float:
    from loader import WorkerConfig, get_loader, get_val_dataset

    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    started = time.perf_counter()
    loader = get_loader(get_val_dataset(folder, split_part="train", worker_config=config, batch_size=None))
    samples = sum(1 for _ in loader)
    if not samples:
        raise RuntimeError("the loader yielded no sample")
    return time.perf_counter() - started


def map_means(folder: str, workers: int) -> float:
    from loader import open_dataset

    started = time.perf_counter()
    open_dataset(folder).map("bench_map:mean", write="mean", workers=workers)
    return time.perf_counter() - started


def map_on_ray(folder: str, workers: int) -> float:
    from loader import open_dataset
    from loader.engine import named_engine

    with named_engine("ray").open(None, workers, 0.0) as engine:
        started = time.perf_counter()
        open_dataset(folder).map("bench_map:mean", write="mean", engine=engine)
        return time.perf_counter() - started


def map_on_dask(folder: str, workers: int) -> float:
    # As docs/how-to/on-a-cluster.md starts workers.
    os.environ.update(MALLOC_TRIM_THRESHOLD_=str(1 << 27), MALLOC_MMAP_THRESHOLD_=str(1 << 27))
    from distributed import Client, LocalCluster

    from loader import open_dataset

    with LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        started = time.perf_counter()
        open_dataset(folder).map("bench_map:mean", write="mean", engine=client.get_executor())
        return time.perf_counter() - started


def mean(sample: Any) -> float:
    return float(sample["jpg"].mean())


def plain_means(folder: str, workers: int) -> float:
    import numpy as np

    started = time.perf_counter()
    shards = sorted(map(str, Path(folder).glob("*.tar")))
    with Pool(workers) as pool:
        means = pool.map(means_of_shard, shards, chunksize=1)
    np.save(Path(folder) / "means.npy", np.concatenate(means))
    return time.perf_counter() - started


def means_of_shard(shard: str) -> Any:
    import numpy as np
    import webdataset

    dataset = webdataset.WebDataset(shard, shardshuffle=False).decode("rgb")
    return np.array([sample["jpg"].mean() for sample in dataset])


if __name__ == "__main__":
    main()
