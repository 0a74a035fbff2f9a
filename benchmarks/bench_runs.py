"""Measure `energon explain` on 2,000 leaves and `energon trace` of a late step: seconds and peak memory.

usage: python benchmarks/bench_runs.py [--data FOLDER]

The commands run as a user runs them, each in a separate process, whose start is included. The functions are measured in
such a process after its imports, in processor time, since other programs can only add to the time that passes. The
fastest round counts.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from report import machine_facts, print_table

from loader.prepare.plan import PreparePlan, SplitRequest
from loader.prepare.run import run_prepare

ENERGON = str(Path(sys.executable).with_name("energon"))
_CRUDE = {"dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset\n"}
_SAMPLES = 50


def make_leaves(folder: Path, leaves: int) -> Path:
    """Write prepared datasets of one shard each, and a metadataset that blends them with unequal weights."""
    for leaf in range(leaves):
        path = folder / f"leaf_{leaf:04d}"
        path.mkdir(parents=True)
        with tarfile.open(path / "shard_000.tar", "w") as tar:
            for sample in range(_SAMPLES):
                info = tarfile.TarInfo(f"{leaf:04d}{sample:04d}.txt")
                info.size = 64
                tar.addfile(info, io.BytesIO(bytes(64)))
        run_prepare(PreparePlan(path=str(path), split=SplitRequest(ratio={"train": 1.0}), files=_CRUDE, workers=1))
    mix = folder / "mix.yaml"
    lines = "".join(f"      - {{weight: {1 + leaf % 7}, path: leaf_{leaf:04d}}}\n" for leaf in range(leaves))
    head = "__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
    mix.write_text(head + lines)
    return mix


def measure(*arguments: str) -> tuple[float, float]:
    """Return the seconds of a process, and its peak memory in MiB."""
    start = time.perf_counter()
    process = os.posix_spawn(
        ENERGON,
        [ENERGON, *arguments],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: explain has findings
        raise RuntimeError(f"energon {' '.join(arguments)} failed")
    return seconds, usage.ru_maxrss / 1024


_FUNCTIONS = """
import json, sys, time
from loader.inspect.runs import PlannedRun, RunRequest, explain_run, trace_step
import loader.inspect.runs.explain
start = time.process_time()
run = PlannedRun(RunRequest(path=sys.argv[1], batch_size=8, world_size=1024, num_workers=8, shuffle_buffer_size=10000,
                            max_samples_per_sequence=100))
opened = time.process_time()
explain_run(run, 10**6)
explained = time.process_time()
list(trace_step(run, 10**6 - 1))
traced = time.process_time()
print(json.dumps([opened - start, explained - opened, traced - explained]))
"""

_LOG = """
import json, os, sys, time
from loader import WorkerConfig, get_savable_loader, get_train_dataset
path, log = sys.argv[1], sys.argv[2]
def loader(**more):
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = get_train_dataset(path, worker_config=config, batch_size=16, shuffle_buffer_size=10000,
                                max_samples_per_sequence=100)
    return iter(get_savable_loader(dataset, **more))
streams = [loader(), loader(trace_dir=log)]
seconds = [[], []]
for stretch in range(60):
    for number, stream in enumerate(streams):
        start = time.process_time()
        for _ in range(100):
            next(stream)
        seconds[number].append(time.process_time() - start)
without, traced = (min(some[5:]) for some in seconds)
written = sum(entry.stat().st_size for entry in os.scandir(log))
print(json.dumps([written / (60 * 100 * 16), without / 1600, (traced - without) / 1600]))
"""


def call(code: str, *arguments: str) -> list[float]:
    """Run Python code that prints a list of numbers as JSON, and return it."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, help="folder for the datasets, which a later run finds again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.data or Path(made)
        mix = folder / "mix.yaml"
        if not mix.is_file():
            mix = make_leaves(folder, options.leaves)
        run = (str(mix), "--world-size", "1024", "--num-workers", "8", "--batch-size", "8")
        shuffled = (*run, "--shuffle-buffer-size", "10000", "--max-samples-per-sequence", "100")
        commands = {
            "energon --version": ("--version",),
            "energon explain, 10^6 steps": ("explain", *shuffled, "--steps", "1000000", "--json"),
            "energon trace, one step, all ranks": ("trace", *shuffled, "--step", "999999", "--json"),
            "energon trace, one step, one rank": ("trace", *shuffled, "--step", "999999", "--rank", "1", "--json"),
        }
        few = make_leaves(folder / "few", 20) if not (folder / "few/mix.yaml").is_file() else folder / "few/mix.yaml"
        commands["energon trace, one step, all ranks, 20 leaves"] = (
            "trace",
            str(few),
            *shuffled[1:],
            "--step",
            "999999",
            "--json",
        )
        rows = []
        for name, arguments in commands.items():
            found = [measure(*arguments) for _ in range(options.rounds)]
            seconds, memory = min(one for one, _ in found), max(one for _, one in found)
            rows.append([name, f"{seconds:.2f} s", f"{memory:.0f} MiB"])
        functions = []
        for name, path in ((f"{options.leaves:,} leaves", mix), ("20 leaves", few)):
            some = [call(_FUNCTIONS, str(path)) for _ in range(options.rounds)]
            functions.append([name, *(f"{min(column):.2f} s" for column in zip(*some, strict=True))])
        with tempfile.TemporaryDirectory() as log:
            written, without, added = call(_LOG, str(few), log)
    print(machine_facts())
    print_table([["command", "fastest round", "peak memory"], *rows])
    print_table([["function, processor time", "open", "explain_run", "trace_step, all ranks"], *functions])
    print(f"log: {written:.1f} bytes and {added * 1e6:.2f} µs a sample of {without * 1e6:.1f} µs")


if __name__ == "__main__":
    main()
