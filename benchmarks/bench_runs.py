"""Measure `energon explain` on 2,000 leaves and `energon trace` of a late step: seconds and peak memory.

usage: python benchmarks/bench_runs.py [--data FOLDER]

The commands run as a user runs them, each in a separate process, whose start is included. The fastest round counts.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from report import machine_facts, print_table

from loader.format.prepare.plan import PreparePlan, SplitRequest
from loader.format.prepare.run import run_prepare

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
    """Return the seconds of a command, and its peak memory in MiB."""
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
        rows = []
        for name, arguments in commands.items():
            found = [measure(*arguments) for _ in range(options.rounds)]
            seconds, memory = min(one for one, _ in found), max(one for _, one in found)
            rows.append([name, f"{seconds:.2f} s", f"{memory:.0f} MiB"])
    print(machine_facts())
    print_table([["command", "fastest round", "peak memory"], *rows])


if __name__ == "__main__":
    main()
