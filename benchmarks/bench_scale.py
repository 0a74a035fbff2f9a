"""Measure what one rank of a very large run costs: 10,000 ranks × 8 workers × 300 datasets, a billion samples.

usage: python benchmarks/bench_scale.py [--samples N] [--data FOLDER]

The order is that of the library, for all ranks: of each sample of a pass it is counted how often it comes, and of an
endless blend the samples of the first steps are compared. What a rank costs is measured with a real loader, which is
rank 4,321 of 10,000, over 300 prepared datasets of 334 shards each; their samples are few, since opening a dataset does
not depend on them. Calls of the file system are counted by strace, on real ranks of a process group.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
from processes import run
from report import machine_facts, print_table

from loader.order import FinitePass, RepeatedOrder, SourceOrder
from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

RANKS, WORKERS, LEAVES, SHARDS = 10_000, 8, 300, 334
LANES = RANKS * WORKERS
STEPS, BATCH = 2, 4  # of the endless blend that is compared
_CRUDE = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}


def sources(samples: int) -> tuple[SourceOrder, ...]:
    """Return 300 sources of unequal sizes, which have so many samples together."""
    parts = np.arange(1, LEAVES + 1) + LEAVES // 2
    sizes = parts * samples // int(parts.sum())
    sizes[-1] += samples - int(sizes.sum())
    return tuple(
        SourceOrder(samples=size, slice_length=1000, shuffle_buffer=10_000, epochs_together=1, seed=leaf)
        for leaf, size in enumerate(sizes.tolist())
    )


def check_pass(samples: int) -> list[str]:
    """Count how often each sample comes in a pass over all lanes."""
    start = time.process_time()
    some = sources(samples)
    order = FinitePass(some, (1.0,) * LEAVES, LANES, 0)
    first = np.cumsum([0, *(source.samples for source in some)])
    seen = np.zeros(samples, np.uint8)
    for number in range(LANES):
        lane = order.lane(number)
        source, _, sample = lane.locate(0, lane.length or 0)
        np.add.at(seen, first[source] + sample, 1)
    seconds = time.process_time() - start
    missing, repeated = int((seen == 0).sum()), int((seen > 1).sum())
    return [
        f"one pass of {samples:,} samples in {LANES:,} lanes",
        f"{missing:,} missing, {repeated:,} repeated; {seconds / samples * 1e6:.2f} µs a sample",
    ]


def check_blend(samples: int) -> list[str]:
    """Compare the samples of the first steps of an endless blend on all ranks."""
    some = sources(samples)
    order = RepeatedOrder(some, tuple(float(1 + leaf % 7) for leaf in range(LEAVES)), LANES, 0)
    count = STEPS * BATCH
    lane, position = np.repeat(np.arange(LANES), count), np.tile(np.arange(count), LANES)
    start = time.process_time()
    source, epoch, sample = order.locate_in_lanes(lane, position)
    seconds = time.process_time() - start
    found = len(np.unique(np.stack([source, epoch, sample]), axis=1).T)
    return [
        f"endless blend, {len(source):,} samples of the first steps of all ranks",
        f"{len(source) - found:,} repeated within an epoch; all located in {seconds:.1f} s",
    ]


def make_data(folder: Path) -> Path:
    """Prepare one dataset of 334 shards, copy it 300 times, and blend the copies."""
    mix = folder / "mix.yaml"
    if mix.is_file():
        return mix
    first = folder / "leaf_000"
    first.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(first / f"shard_{shard:03d}.tar", "w") as tar:
            for sample in range(4):
                info = tarfile.TarInfo(f"{shard:03d}_{sample}.txt")
                info.size = 64
                tar.addfile(info, BytesIO(bytes(64)))
    run_prepare(PreparePlan(path=str(first), split=SplitRequest(ratio={"train": 1.0}), files=_CRUDE, workers=2))
    for leaf in range(1, LEAVES):
        shutil.copytree(first, folder / f"leaf_{leaf:03d}", copy_function=_link_shard)
    lines = "".join(f"      - {{weight: {1 + leaf % 7}, path: leaf_{leaf:03d}}}\n" for leaf in range(LEAVES))
    mix.write_text(f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n{lines}")
    return mix


def _link_shard(source: str, target: str) -> None:
    """Copy a file; shards are linked, since they have the same contents."""
    (os.link if source.endswith(".tar") else shutil.copy2)(source, target)


_RANK = """
import json, resource, sys, time
from loader import WorkerConfig, get_savable_loader, get_train_dataset
def mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
import torch
get_train_dataset, get_savable_loader
before = mib()
config = WorkerConfig(rank=4321, world_size=10_000, num_workers=0, lanes=80_000)
start = time.perf_counter()
dataset = get_train_dataset(sys.argv[1], worker_config=config, batch_size=4, shuffle_buffer_size=10_000,
                            max_samples_per_sequence=100)
opened = time.perf_counter()
loader = get_savable_loader(dataset)
stream = iter(loader)
next(stream)
first = time.perf_counter()
for _ in range(200):
    next(stream)
state = loader.save_state_rank()
print(json.dumps([opened - start, first - opened, mib() - before, len(json.dumps(state))]))
"""

_SHARED = """
import json, os, sys
from torch import distributed
rank, ranks, meeting, path, shares = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
distributed.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=ranks)
from loader import WorkerConfig, get_loader, get_train_dataset
config = WorkerConfig(rank=rank, world_size=ranks, num_workers=0, share_metadata=shares == "yes")
dataset = get_train_dataset(path, worker_config=config, batch_size=4, shuffle_buffer_size=10_000,
                            max_samples_per_sequence=100)
"""


def calls_of_ranks(mix: Path, *, shares: bool, ranks: int = 4) -> list[int]:
    """Return how often each rank names a file of the datasets in a call of the system, until they are open."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"calls_{rank}" for rank in range(ranks)]
        trace = ("strace", "-f", "-qq", "-e", "trace=%file", "-o")
        arguments = (str(ranks), f"{folder}/meeting", str(mix), "yes" if shares else "no")
        processes = [
            subprocess.Popen(
                [*trace, str(log), sys.executable, "-c", _SHARED, str(rank), *arguments], stderr=subprocess.DEVNULL
            )
            for rank, log in enumerate(logs)
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise RuntimeError("a rank failed")
        return [sum(str(mix.parent) in line for line in log.read_text().splitlines()[1:]) for log in logs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10**9, help="samples of the pass that is counted whole")
    parser.add_argument("--data", type=Path, help="folder for the datasets, which a later run finds again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        mix = make_data(options.data or Path(made))
        found = [json.loads(run([sys.executable, "-c", _RANK, str(mix)]).stdout) for _ in range(3)]
        opening, first, memory, state = (min(column) for column in zip(*found, strict=True))
        rows = [
            [f"a rank of {RANKS:,} × {WORKERS} workers × {LEAVES} datasets of {SHARDS} shards", ""],
            ["opening", f"{opening:.2f} s"],
            ["first batch after it, without workers", f"{first:.2f} s"],
            ["memory of datasets and loader after 200 steps", f"{memory:.0f} MiB"],
            ["state of the rank after 200 steps, as JSON", f"{state / 1000:.1f} kB"],
        ]
        if shutil.which("strace"):
            for shares in (False, True):
                calls = calls_of_ranks(mix, shares=shares)
                name = "file system calls to open, share_metadata" if shares else "file system calls to open"
                rows.append([name, f"rank 0: {calls[0]:,}; others: {max(calls[1:]):,}"])
        rows += [check_blend(10**9), check_pass(options.samples)]
    facts = machine_facts()
    print(f"{facts['date']}, {facts['cores']} cores of {facts['processor']}, Python {facts['python']}\n")
    print_table(rows)


if __name__ == "__main__":
    main()
